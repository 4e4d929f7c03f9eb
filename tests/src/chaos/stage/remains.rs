//! The content of a server, to reveal leaks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rights::USER;
use crate::RedisServer;

/// The content of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remains {
    /// The keys, and how long each will live; `None`: until it is deleted.
    pub keys: BTreeMap<String, Option<Duration>>,
    /// The number of connections of the workers.
    pub connections: usize,
}

impl Remains {
    pub(super) fn on(server: &RedisServer) -> Self {
        let clients = server.cli(&["CLIENT", "LIST"]).text();
        let user = format!("user={USER}");
        let is_worker = |line: &&str| line.split(' ').any(|field| field == user);
        Self {
            keys: server.keys("*").into_iter().map(|key| lives(server, key)).collect(),
            connections: clients.lines().filter(is_worker).count(),
        }
    }
}

fn lives(server: &RedisServer, key: String) -> (String, Option<Duration>) {
    let left = server.cli(&["PTTL", &key]).int();
    let left = match left {
        -1 => None,
        // It was there, and has gone.
        left => Some(Duration::from_millis(left.max(0).unsigned_abs())),
    };
    (key, left)
}
