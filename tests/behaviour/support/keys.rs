//! What is on the server.

use std::time::Duration;

use lock_tests::resp::Value;
use lock_tests::{RedisServer, eventually};

use super::SOON;

/// The key of the lock "it".
pub(crate) const LOCK: &str = "lock:{it}";

/// Those who wait for it, in order.
pub(crate) const QUEUE: &str = "lock:{it}:queue";

/// The leases of those who share it, by their ends.
const HOLDERS: &str = "lock:{it}:holders";

/// How long a key has left to live; `None` if it has no end, or does not exist.
#[track_caller]
pub(crate) fn ttl_of(server: &RedisServer, key: &str) -> Option<Duration> {
    let left = server.cli(&["PTTL", key]).int();
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// One of the leases of those who share the lock "it".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// How it is shared, and its owner.
    name: String,
    /// By the clock of the server, in milliseconds.
    ends: u64,
}

impl Lease {
    /// How long it has left to live; nothing if its time is over.
    #[track_caller]
    pub(crate) fn left(&self, server: &RedisServer) -> Duration {
        let time = server.cli(&["TIME"]);
        let number = |part: &Value| part.text().parse::<u64>().unwrap();
        let [seconds, micros] = time.array() else { panic!("no time: {time:?}") };
        let (seconds, micros) = (number(seconds), number(micros));
        Duration::from_millis(self.ends.saturating_sub(seconds * 1000 + micros / 1000))
    }
}

/// The leases of those who share the lock "it": what ends first comes first.
#[track_caller]
pub(crate) fn leases(server: &RedisServer) -> Vec<Lease> {
    let reply = server.cli(&["ZRANGE", HOLDERS, "0", "-1", "WITHSCORES"]);
    let lease =
        |pair: &[Value]| Lease { name: pair[0].text(), ends: pair[1].text().parse().unwrap() };
    reply.array().chunks_exact(2).map(lease).collect()
}

/// What a lock leaves behind.
pub(crate) trait Leftovers {
    /// The keys that hold a lock.
    fn locks(&self) -> Vec<String>;

    /// Waits until no lock is held, and checks what stays: the fences, and how many permits there are,
    /// which end by themselves.
    fn assert_all_free(&self);
}

impl Leftovers for RedisServer {
    #[track_caller]
    fn locks(&self) -> Vec<String> {
        let mut keys = self.keys("*");
        keys.retain(|key| !key.ends_with(":state") && !key.ends_with(":limit"));
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
