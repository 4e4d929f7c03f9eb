//! The common parts of the tests.

mod frames;
mod harm;
mod mangler;
mod memory;
mod panics;
mod word;

use std::time::Duration;

use lock_redis::{Notifications, Protocol, RedisBackend};

pub(crate) use self::frames::{Frames, elements};
pub(crate) use self::harm::Harm;
pub(crate) use self::mangler::Mangler;
pub(crate) use self::memory::Memory;
pub(crate) use self::panics::Panics;
pub(crate) use self::word::{Word, owner_of};

/// Longer than the time until the next harm, on a loaded machine too.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Longer than any request may take: to connect, and to get an answer after a script had to be
/// loaded.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// How long a request waits for its answer.
pub(crate) const PATIENCE: Duration = Duration::from_millis(250);

/// The options of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) protocol: Protocol,
    pub(crate) tracking: bool,
}

impl Setup {
    pub(crate) const RESP2: Self = Self { protocol: Protocol::Resp2, tracking: false };
    pub(crate) const RESP3: Self = Self { protocol: Protocol::Resp3, tracking: false };
    pub(crate) const TRACKING: Self = Self { protocol: Protocol::Resp3, tracking: true };

    /// A new client.
    pub(crate) fn client(self, url: &str) -> RedisBackend {
        RedisBackend::builder(url)
            .protocol(self.protocol)
            .tracking(self.tracking)
            .notifications(Notifications::Enable)
            .command_timeout(PATIENCE)
            .connect_timeout(PATIENCE * 2)
            .build()
            .unwrap()
    }
}

/// How often each harm is done in a run.
pub(crate) fn times() -> usize {
    match std::env::var("LOCK_GARBAGE_TIMES") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => 4,
    }
}
