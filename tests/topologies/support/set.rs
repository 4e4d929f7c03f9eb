//! A primary whose replicas can be kept from it.

use std::time::Duration;

use lock_redis::{Builder, RedisBackend};
use lock_tests::{Direction, Proxy, RedisServer, eventually};

const LIMIT: Duration = Duration::from_secs(120);
/// How long replicas may take to confirm a grant: more than a busy machine needs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// A primary, and its replicas behind proxies.
pub(crate) struct Set {
    pub(crate) primary: RedisServer,
    pub(crate) replicas: Vec<(RedisServer, Proxy)>,
}

impl Set {
    pub(crate) fn start(replicas: usize) -> Self {
        let options = RedisServer::builder()
            .config("repl-diskless-sync-delay", "0")
            .config("repl-ping-replica-period", "1");
        let mut servers = RedisServer::start_all(vec![options; 1 + replicas]).into_iter();
        let primary = servers.next().unwrap();
        let replicas = servers.map(|replica| (replica, Proxy::before(&primary))).collect();
        let set = Self { primary, replicas };
        for (replica, proxy) in &set.replicas {
            let port = proxy.addr().port().to_string();
            assert_eq!(replica.cli(&["REPLICAOF", "127.0.0.1", &port]).text(), "OK");
        }
        set.acknowledge();
        set
    }

    /// Waits until all replicas acknowledge.
    pub(crate) fn acknowledge(&self) {
        let count = self.replicas.len() as i64;
        eventually("all replicas acknowledge", LIMIT, || {
            self.primary.cli(&["SET", "marker", "1"]);
            self.primary.cli(&["WAIT", &count.to_string(), "1000"]).int() == count
        });
    }

    pub(crate) fn builder(&self) -> Builder {
        RedisBackend::builder(self.primary.url()).command_timeout(4 * TIMEOUT)
    }

    pub(crate) fn client(&self) -> RedisBackend {
        self.builder().confirm(self.replicas.len() as u32, TIMEOUT).build().unwrap()
    }

    pub(crate) fn is_free(&self, name: &str) -> bool {
        self.primary.cli(&["GET", &format!("lock:{{{name}}}")]).is_nil()
    }

    /// The first replica hears nothing more of the primary.
    pub(crate) fn stall(&self) {
        self.replicas[0].1.silence(Direction::ToClient);
    }

    pub(crate) fn pass(&self) {
        self.replicas[0].1.pass();
    }
}
