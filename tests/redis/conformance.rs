//! Every law of the contract and of the capabilities, in both versions of the protocol and with each source of hints
//! alone.
//!
//! The test of a law runs it in every setup.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_core::{Error, Ttl};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};
use lock_tests::{Ways, in_all_setups};
use tokio::runtime;

use crate::rights::{give_least_of_a_node, give_least_to_list};
use crate::support::{Server, proxy_before};

/// The servers that laws of a setup have left to later laws of this setup. When no law runs, these servers end.
#[derive(Default)]
struct Servers(Mutex<HashMap<&'static str, Vec<Server>>>);

impl Servers {
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Servers>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let servers = Arc::default();
            *shared = Arc::downgrade(&servers);
            servers
        })
    }

    /// A server that is as a new one, for one law at a time.
    fn take(&self, setup: &str) -> Server {
        let left = self.0.lock().unwrap().get_mut(setup).and_then(Vec::pop);
        let Some(server) = left else { return Server::start() };
        let mut raw = server.client();
        for words in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"]] {
            raw.command::<()>(words);
        }
        raw.command::<()>(&["CONFIG", "SET", "notify-keyspace-events", ""]);
        server
    }

    fn leave(&self, setup: &'static str, server: Server) {
        self.0.lock().unwrap().entry(setup).or_default().push(server);
    }
}

/// A server, and for each client a proxy of its own that can be cut.
struct OneServer {
    server: Server,
    /// The additional servers, for laws about several servers.
    others: Mutex<Vec<Server>>,
    setup: fn(Builder) -> Builder,
    /// The part before the address: a user and its password.
    login: &'static str,
    /// Gives the user its rights, which a server forgets at a restart.
    give: fn(&Server),
    ways: Ways,
}

impl OneServer {
    fn new(server: Server, setup: fn(Builder) -> Builder) -> Self {
        Self {
            server,
            others: Mutex::default(),
            setup,
            login: "",
            give: |_| {},
            ways: Ways::default(),
        }
    }

    /// One server for a user that has only the rights in the docs of the crate.
    fn with_rights(server: Server, give: fn(&Server)) -> Self {
        let world = Self { login: "locks:hunter2@", give, ..Self::new(server, |it| it) };
        give(&world.server);
        world
    }

    fn build(&self, setup: impl FnOnce(Builder) -> Builder) -> Result<RedisBackend, Error> {
        self.build_for(&self.server, setup)
    }

    fn build_for(
        &self,
        server: &Server,
        setup: impl FnOnce(Builder) -> Builder,
    ) -> Result<RedisBackend, Error> {
        let proxy = proxy_before(server);
        let url = format!("redis://{}{}", self.login, proxy.addr());
        let client = setup(RedisBackend::builder(url)).build()?;
        self.ways.keep(&client, vec![proxy]);
        Ok(client)
    }
}

#[async_trait]
impl Harness for OneServer {
    type Client = RedisBackend;

    async fn client(&self) -> Result<RedisBackend, Error> {
        self.build(self.setup)
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<RedisBackend>, Error> {
        self.build(|it| (self.setup)(it).queue_limit(waiters.get())).map(Some)
    }

    async fn other_server(&self) -> Result<Option<RedisBackend>, Error> {
        let other = Server::start();
        (self.give)(&other);
        let client = self.build_for(&other, self.setup)?;
        self.others.lock().unwrap().push(other);
        Ok(Some(client))
    }

    async fn cut(&self, client: &RedisBackend) -> Hook {
        self.ways.cut_off(client)
    }

    async fn heal(&self, client: &RedisBackend) {
        self.ways.heal(client);
    }

    async fn forget(&self) -> Hook {
        self.server.client().command::<()>(&["FLUSHALL"]);
        Hook::Done
    }

    /// The tests of all laws share the processors.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_secs(1)).unwrap()
    }

    async fn restart(&self) -> Hook {
        self.server.client().command::<()>(&["SAVE"]);
        self.server.restart();
        (self.give)(&self.server);
        Hook::Done
    }
}

/// A way to set up a server and its clients.
struct Setup {
    name: &'static str,
    world: fn(Server) -> OneServer,
    /// The number of threads of the clients' runtime besides its own, or none.
    workers: usize,
}

impl Setup {
    const fn new(name: &'static str, world: fn(Server) -> OneServer) -> Self {
        Self { name, world, workers: 0 }
    }

    const fn on_many_threads(self) -> Self {
        Self { workers: 2, ..self }
    }

    fn enforce(&self, suite: &Suite<OneServer>, law: &str) {
        let mut runtime = match self.workers {
            0 => runtime::Builder::new_current_thread(),
            workers => {
                let mut runtime = runtime::Builder::new_multi_thread();
                runtime.worker_threads(workers);
                runtime
            }
        };
        let runtime = runtime.enable_all().build().unwrap();
        let servers = Servers::shared();
        let world = (self.world)(servers.take(self.name));
        runtime.block_on(async { suite.enforce(law, &world).await });
        // The clients end with their runtime.
        drop(runtime);
        let OneServer { server, others, ways, .. } = world;
        drop((others, ways));
        servers.leave(self.name, server);
    }
}

/// The setups of a server that is also a node of a quorum.
static NODES: [Setup; 3] = [
    Setup::new("RESP3", |server| OneServer::new(server, |it| it.protocol(Protocol::Resp3))),
    Setup::new("RESP2", |server| OneServer::new(server, |it| it.protocol(Protocol::Resp2))),
    Setup::new("messages alone", |server| {
        OneServer::new(server, |it| it.notifications(Notifications::Off))
    })
    .on_many_threads(),
];

/// The other setups.
static SERVERS: [Setup; 4] = [
    Setup::new("notifications alone", |server| {
        OneServer::new(server, |it| it.release_messages(false).notifications(Notifications::Enable))
    })
    .on_many_threads(),
    Setup::new("least rights", |server| OneServer::with_rights(server, give_least_to_list)),
    Setup::new("tracking alone", |server| {
        OneServer::new(server, |it| {
            it.tracking(true).release_messages(false).notifications(Notifications::Off)
        })
    }),
    Setup::new("timers alone", |server| {
        OneServer::new(server, |it| {
            it.protocol(Protocol::Resp2).notifications(Notifications::Off).release_messages(false)
        })
    }),
];

/// With the rights of a node: the least rights and one more.
static NODE: [Setup; 1] = [Setup::new("least rights of a node", |server| {
    OneServer::with_rights(server, give_least_of_a_node)
})];

fn enforce(setups: [&'static [Setup]; 2], suite: fn() -> Suite<OneServer>, law: &str) {
    let enforced = |setup: &'static Setup| (setup.name, move || setup.enforce(&suite(), law));
    in_all_setups(law, setups.into_iter().flatten().map(enforced));
}

lock_tests::laws! {
    (|suite, law| enforce([&NODES, &SERVERS], suite, law))
    backend shared convert joint permits one_permit cell inspect
}

lock_tests::laws! { (|suite, law| enforce([&NODES, &NODE], suite, law)) quorum }

#[test]
#[should_panic(expected = "no such law is broken with [\"least rights of a node\"]")]
fn a_law_that_is_broken_in_one_setup_fails_its_test() {
    enforce([&NODE, &[]], Suite::backend, "no such law");
}
