//! The keys on the server.

use std::time::Duration;

use lock_tests::resp::Value;
use lock_tests::{RedisServer, eventually};

use super::SOON;

/// The key of the lock "it".
pub(crate) const LOCK: &str = "lock:{it}";

/// The waiting claims, in order.
pub(crate) const QUEUE: &str = "lock:{it}:queue";

/// The leases of the sharers, by their ends.
const HOLDERS: &str = "lock:{it}:holders";

/// How long a key has left to live; `None` if it has no end, or does not exist.
#[track_caller]
pub(crate) fn ttl_of(server: &RedisServer, key: &str) -> Option<Duration> {
    let left = server.cli(&["PTTL", key]).int();
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// One lease of a sharer of the lock "it".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// The mode and the owner.
    name: String,
    /// By the clock of the server, in milliseconds.
    ends: u64,
}

impl Lease {
    /// The rest of the lease; zero if it is over.
    #[track_caller]
    pub(crate) fn left(&self, server: &RedisServer) -> Duration {
        let time = server.cli(&["TIME"]);
        let number = |part: &Value| part.text().parse::<u64>().unwrap();
        let [seconds, micros] = time.array() else { panic!("no time: {time:?}") };
        let (seconds, micros) = (number(seconds), number(micros));
        Duration::from_millis(self.ends.saturating_sub(seconds * 1000 + micros / 1000))
    }
}

/// The leases of the sharers of the lock "it", the first end first.
#[track_caller]
pub(crate) fn leases(server: &RedisServer) -> Vec<Lease> {
    let reply = server.cli(&["ZRANGE", HOLDERS, "0", "-1", "WITHSCORES"]);
    let lease =
        |pair: &[Value]| Lease { name: pair[0].text(), ends: pair[1].text().parse().unwrap() };
    reply.array().chunks_exact(2).map(lease).collect()
}

/// The keys that a lock leaves behind.
pub(crate) trait Leftovers {
    /// The keys that hold a lock.
    fn locks(&self) -> Vec<String>;

    /// Waits until no lock is held, and checks the keys that stay: the fences, and the numbers of
    /// permits, which expire.
    fn assert_all_free(&self);
}

impl Leftovers for RedisServer {
    #[track_caller]
    fn locks(&self) -> Vec<String> {
        let mut keys = self.keys("*");
        keys.retain(|key| !key.ends_with(":state") && !key.ends_with(":limit"));
        keys.retain(|key| !key.contains(lock_tests::LABELS));
        keys
    }

    #[track_caller]
    fn assert_all_free(&self) {
        eventually("no lock is held", SOON, || self.locks().is_empty());
        // As bytes: not every name is text.
        for stays in self.cli(&["KEYS", "*"]).array() {
            let Value::Text(key) = stays else { panic!("{stays:?} is no key") };
            let left = self.cli(&[b"PTTL", key.as_slice()]).int();
            assert!(left > 0, "{key:?} stays for ever");
        }
    }
}
