//! Every law of the contract and of the abilities, in both versions of the protocol and with each source of hints alone.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use async_trait::async_trait;
use lock_core::Error;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};

use lock_tests::Proxy;

use crate::rights::{give_least, give_least_of_a_node};
use crate::support::{Server, cut_off, proxy_before};

/// A server, and for each client a proxy of its own that can be cut.
struct OneServer {
    server: Server,
    /// Those beside it, which laws of several servers ask for.
    others: Mutex<Vec<Server>>,
    setup: fn(Builder) -> Builder,
    /// What stands before the address: a user and its password.
    login: &'static str,
    /// Gives the user its rights, which a server forgets.
    give: fn(&Server),
    /// By what a client shows of itself, which is the port of its proxy.
    proxies: Mutex<HashMap<String, Proxy>>,
}

impl OneServer {
    fn new(setup: fn(Builder) -> Builder) -> Self {
        Self {
            server: Server::start(),
            others: Mutex::default(),
            setup,
            login: "",
            give: |_| {},
            proxies: Mutex::default(),
        }
    }

    /// The same for a user that has no more rights than the docs of the crate name.
    fn with_rights(give: fn(&Server)) -> Self {
        let world = Self { login: "locks:hunter2@", give, ..Self::new(|it| it) };
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
        self.proxies.lock().unwrap().insert(format!("{client:?}"), proxy);
        Ok(client)
    }

    fn with_proxy(&self, client: &RedisBackend, act: impl FnOnce(&Proxy)) {
        act(&self.proxies.lock().unwrap()[&format!("{client:?}")]);
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
        self.with_proxy(client, cut_off);
        Hook::Done
    }

    async fn heal(&self, client: &RedisBackend) {
        self.with_proxy(client, Proxy::pass);
    }

    async fn forget(&self) -> Hook {
        self.server.client().command::<()>(&["FLUSHALL"]);
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        self.server.client().command::<()>(&["SAVE"]);
        self.server.restart();
        (self.give)(&self.server);
        Hook::Done
    }
}

mod resp3 {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| it.protocol(Protocol::Resp3)),
        abilities: [shared, convert, joint, permits, cell, inspect, quorum]
    );
}

mod resp2 {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| it.protocol(Protocol::Resp2)),
        abilities: [shared, convert, joint, permits, cell, inspect, quorum]
    );
}

mod notifications_alone {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| it.release_messages(false).notifications(Notifications::Enable)),
        abilities: [shared, convert, joint, permits, cell, inspect],
        flavor = "multi_thread",
        worker_threads = 2
    );
}

mod least_rights {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::with_rights(give_least),
        abilities: [shared, convert, joint, permits, cell, inspect]
    );
}

/// With the rights of a node, which are the least and one more.
#[tokio::test]
async fn the_laws_of_a_node_hold_with_its_least_rights() {
    for law in Suite::<OneServer>::quorum().laws() {
        let world = OneServer::with_rights(give_least_of_a_node);
        Suite::quorum().enforce(law.name(), &world).await;
    }
}

mod tracking_alone {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| {
            it.tracking(true).release_messages(false).notifications(Notifications::Off)
        }),
        abilities: [shared, convert, joint, permits, cell, inspect]
    );
}

mod messages_alone {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| it.notifications(Notifications::Off)),
        abilities: [shared, convert, joint, permits, cell, inspect, quorum],
        flavor = "multi_thread",
        worker_threads = 2
    );
}

mod timer_alone {
    use super::*;
    lock_core::conformance_tests!(
        OneServer::new(|it| {
            it.protocol(Protocol::Resp2).notifications(Notifications::Off).release_messages(false)
        }),
        abilities: [shared, convert, joint, permits, cell, inspect]
    );
}
