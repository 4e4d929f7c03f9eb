//! A part of a deployment that is shared by all tests: what has one prefix.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::{Error, Ttl};
use lock_redis::{Builder, RedisBackend};
use lock_tests::{ClusterNode, RedisCluster, RedisServer, Sentinels};

static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(|| RedisCluster::start(3, 0));
static SERVICE: LazyLock<Sentinels> = LazyLock::new(|| Sentinels::with_patience(2, 3, PATIENCE));
/// On a busy machine a server may be silent for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tells clients, and the tests of one deployment, apart.
static NEXT: AtomicU16 = AtomicU16::new(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cluster,
    Service,
}

impl Kind {
    /// The servers that may have keys.
    fn servers(self) -> Vec<&'static RedisServer> {
        match self {
            Self::Cluster => CLUSTER.nodes().iter().map(ClusterNode::server).collect(),
            Self::Service => vec![&SERVICE.servers()[0]],
        }
    }

    fn url_as(self, login: &str) -> String {
        match self {
            Self::Cluster => CLUSTER.url_as(login),
            Self::Service => SERVICE.url_as(login),
        }
    }
}

/// A part of a shared deployment.
pub(crate) struct Deployed {
    kind: Kind,
    prefix: String,
    setup: fn(Builder) -> Builder,
    /// The user of each client, by the visible name of the client.
    users: Mutex<HashMap<String, String>>,
}

impl Deployed {
    pub(crate) fn new(kind: Kind, setup: fn(Builder) -> Builder) -> Self {
        let prefix = format!("part{}:", NEXT.fetch_add(1, Ordering::Relaxed));
        Self { kind, prefix, setup, users: Mutex::default() }
    }

    fn build(&self, setup: impl FnOnce(Builder) -> Builder) -> Result<RedisBackend, Error> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let user = format!("client{number}");
        for server in self.kind.servers() {
            let rules = ["on", ">hunter2", "allkeys", "allchannels", "allcommands"];
            let command = [&["ACL", "SETUSER", &user][..], &rules].concat();
            assert_eq!(server.cli(&command).text(), "OK");
        }
        // A host at which no server listens gives the client a name of its own.
        let [high, low] = number.to_be_bytes();
        let url = self.kind.url_as(&format!("{user}:hunter2@"));
        let named = format!("@{}:1,", Ipv4Addr::new(127, 1, high, low));
        let url = url.replacen('@', &named, 1);
        let client =
            setup((self.setup)(RedisBackend::builder(url).prefix(&*self.prefix))).build()?;
        self.users.lock().unwrap().insert(format!("{client:?}"), user);
        Ok(client)
    }
}

#[async_trait]
impl Harness for Deployed {
    type Client = RedisBackend;

    async fn client(&self) -> Result<RedisBackend, Error> {
        self.build(|it| it)
    }

    async fn limited_client(
        &self,
        waiters: std::num::NonZeroU32,
    ) -> Result<Option<RedisBackend>, Error> {
        self.build(|it| it.queue_limit(waiters.get())).map(Some)
    }

    async fn cut(&self, client: &RedisBackend) -> Hook {
        let user = self.users.lock().unwrap()[&format!("{client:?}")].clone();
        for server in self.kind.servers() {
            server.cli(&["CLIENT", "KILL", "USER", &user]).int();
        }
        Hook::Done
    }

    async fn forget(&self) -> Hook {
        for server in self.kind.servers() {
            for key in server.keys(&format!("{}*", self.prefix)) {
                server.cli(&["DEL", &key]);
            }
        }
        Hook::Done
    }

    /// Several servers and clients share the processors with the tests of other laws.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(1)).unwrap()
    }

    async fn restart(&self) -> Hook {
        Hook::NotApplicable("a server of a deployment that restarts is replaced by another one")
    }
}
