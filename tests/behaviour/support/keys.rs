//! What is left on the server.

use std::time::Duration;

use lock_tests::resp::Value;
use lock_tests::{RedisServer, eventually};

use super::SOON;

/// The key of the lock "it".
pub(crate) const LOCK: &str = "lock:{it}";

/// Those who wait for it, in order.
pub(crate) const QUEUE: &str = "lock:{it}:queue";

/// How long a key has left to live; `None` if it has no end, or does not exist.
#[track_caller]
pub(crate) fn ttl_of(server: &RedisServer, key: &str) -> Option<Duration> {
    let left = server.cli(&["PTTL", key]).int();
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// What a lock leaves behind.
pub(crate) trait Leftovers {
    /// The keys that hold a lock.
    fn locks(&self) -> Vec<String>;

    /// Waits until no lock is held, and checks what stays: the fences, which end by themselves.
    fn assert_all_free(&self);
}

impl Leftovers for RedisServer {
    #[track_caller]
    fn locks(&self) -> Vec<String> {
        let mut keys = self.keys("*");
        keys.retain(|key| !key.ends_with(":fence"));
        keys
    }

    #[track_caller]
    fn assert_all_free(&self) {
        eventually("no lock is held", SOON, || self.locks().is_empty());
        // As bytes: not every name is text.
        for fence in self.cli(&["KEYS", "*"]).array() {
            let Value::Text(key) = fence else { panic!("{fence:?} is no key") };
            let left = self.cli(&[b"PTTL", key.as_slice()]).int();
            assert!(left > 0, "{fence:?} stays for ever");
        }
    }
}
