//! The scripts that run in the server.

use std::sync::LazyLock;

use crate::wire;

pub(crate) static ACQUIRE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/acquire.lua")));
pub(crate) static RENEW: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/renew.lua")));
pub(crate) static RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("scripts/release.lua")));

/// Every script, for loading them in advance.
pub(crate) fn all() -> [&'static Script; 3] {
    [&ACQUIRE, &RENEW, &RELEASE]
}

/// A script, and the name under which a server that has loaded it knows it.
#[derive(Debug)]
pub(crate) struct Script {
    body: &'static str,
    digest: String,
}

impl Script {
    fn new(body: &'static str) -> Self {
        Self { body, digest: wire::script_digest(body) }
    }

    pub(crate) fn body(&self) -> &'static str {
        self.body
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}
