//! A server with a user that has certain rights and no others.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::{Error, Ttl};
use lock_redis::{Builder, RedisBackend};
use lock_tests::{Proxy, RedisServer};

const USER: &str = "locks";
const PASSWORD: &str = "hunter2";

/// A server with a user that has certain rights and no others, and for each client a proxy of its
/// own.
pub(super) struct World {
    server: RedisServer,
    rules: String,
    events: &'static str,
    setup: fn(Builder) -> Builder,
    patience: Duration,
    /// The additional servers, for laws about several servers.
    others: Mutex<Vec<RedisServer>>,
    /// By the visible name of a client, which is the port of its proxy.
    proxies: Mutex<HashMap<String, Proxy>>,
}

impl World {
    /// The rules are words for `ACL SETUSER`, the events those that the server reports.
    pub(super) fn new(rules: &[&str], events: &'static str, setup: fn(Builder) -> Builder) -> Self {
        let rules = format!("on >{PASSWORD} {}", rules.join(" "));
        Self {
            server: start(&rules, events),
            rules,
            events,
            setup,
            patience: Duration::from_secs(10),
            others: Mutex::default(),
            proxies: Mutex::default(),
        }
    }

    /// For behaviours that are expected to fail, some of them because no message comes.
    pub(super) fn impatient(mut self) -> Self {
        self.patience = Duration::from_secs(2);
        self
    }

    pub(super) fn server(&self) -> &RedisServer {
        &self.server
    }

    /// A client of a user with all rights.
    pub(super) fn able(&self) -> RedisBackend {
        RedisBackend::open(self.server.url()).unwrap()
    }

    /// How long to wait for a step that should be immediate.
    pub(super) fn limit(&self) -> Duration {
        self.patience
    }

    /// The connections of the user, by their numbers.
    pub(super) fn connections(&self) -> Vec<String> {
        let list = self.server.cli(&["CLIENT", "LIST"]).text();
        let ours = list.lines().filter(|line| line.contains("user=locks"));
        ours.filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
    }

    fn build(
        &self,
        server: &RedisServer,
        setup: impl FnOnce(Builder) -> Builder,
    ) -> Result<RedisBackend, Error> {
        let proxy = Proxy::before(server);
        let url = format!("redis://{USER}:{PASSWORD}@{}", proxy.addr());
        let client = setup(RedisBackend::builder(url)).build()?;
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        proxies.insert(format!("{client:?}"), proxy);
        Ok(client)
    }

    fn with_proxy(&self, client: &RedisBackend, act: impl FnOnce(&Proxy)) {
        let proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        act(&proxies[&format!("{client:?}")]);
    }
}

fn start(rules: &str, events: &str) -> RedisServer {
    let events = format!("\"{events}\"");
    RedisServer::builder().user(USER, rules).config("notify-keyspace-events", events).start()
}

#[async_trait]
impl Harness for World {
    type Client = RedisBackend;

    async fn client(&self) -> Result<RedisBackend, Error> {
        self.build(&self.server, self.setup)
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<RedisBackend>, Error> {
        self.build(&self.server, |it| (self.setup)(it).queue_limit(waiters.get())).map(Some)
    }

    async fn other_server(&self) -> Result<Option<RedisBackend>, Error> {
        let other = start(&self.rules, self.events);
        let client = self.build(&other, self.setup)?;
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(other);
        Ok(Some(client))
    }

    async fn cut(&self, client: &RedisBackend) -> Hook {
        self.with_proxy(client, |proxy| {
            proxy.refuse();
            proxy.cut();
        });
        Hook::Done
    }

    async fn heal(&self, client: &RedisBackend) {
        self.with_proxy(client, Proxy::pass);
    }

    async fn forget(&self) -> Hook {
        self.server.flushall();
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        assert_eq!(self.server.cli(&["SAVE"]).text(), "OK");
        self.server.restart();
        Hook::Done
    }

    /// The tests of other laws share the processors with this one.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(1)).unwrap()
    }

    fn patience(&self) -> Duration {
        self.patience
    }
}
