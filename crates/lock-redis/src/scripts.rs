//! The scripts that run in the server.
//!
//! Each is put together from parts, in the order in which they are needed: a script that finds a lock
//! free does not pay for what it would need otherwise.

use std::sync::LazyLock;

use crate::wire;

macro_rules! script {
    ($($part:literal),+) => {
        LazyLock::new(|| Script::new(concat!($(include_str!(concat!("scripts/", $part))),+)))
    };
}

pub(crate) static ACQUIRE: LazyLock<Script> = script!(
    "keys.lua",
    "tokens.lua",
    "acquire_free.lua",
    "places.lua",
    "acquire_wait.lua",
    "leases.lua",
    "queue.lua",
    "acquire.lua"
);
pub(crate) static RENEW: LazyLock<Script> = script!(
    "keys.lua",
    "tokens.lua",
    "renew_exclusive.lua",
    "places.lua",
    "leases.lua",
    "renew.lua"
);
pub(crate) static RELEASE: LazyLock<Script> = script!(
    "keys.lua",
    "release_alone.lua",
    "tokens.lua",
    "places.lua",
    "release_on.lua",
    "leases.lua",
    "queue.lua",
    "release.lua"
);

/// Every script, for loading them in advance.
pub(crate) fn all() -> [&'static Script; 3] {
    [&ACQUIRE, &RENEW, &RELEASE]
}

/// A script, and the name under which a server that has loaded it knows it.
#[derive(Debug)]
pub(crate) struct Script {
    body: String,
    digest: String,
}

impl Script {
    fn new(source: &str) -> Self {
        let body = without_comments(source);
        Self { digest: wire::script_digest(&body), body }
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// What a server needs of a source: half of it. One that wants a password closes the connection on
/// whoever sends more than 16 KiB in one piece before giving it, and could not say what is missing.
fn without_comments(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    let mut body = String::with_capacity(source.len());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("--")) {
        body.push_str(line);
        body.push('\n');
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_short_enough_for_a_server_that_wants_a_password() {
        for script in all() {
            assert!(script.body().len() < 16 * 1024 - 64, "{}", script.body().len());
        }
    }

    #[test]
    fn comments_stay_here() {
        let source = "-- Why.\nif a then\n  -- Why not.\n\n  return 'a -- b'\nend\n";
        assert_eq!(without_comments(source), "if a then\nreturn 'a -- b'\nend\n");
    }
}
