//! Every law of the contract and of the capabilities.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;

use async_trait::async_trait;
use lock_core::Error;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_postgres::{Builder, PostgresBackend};
use lock_tests::Proxy;
use tokio::runtime;

use crate::support::Database;

/// A database, and for each client a proxy of its own that can be cut.
struct OneDatabase {
    database: Database,
    /// By the address of what the clones of a client share.
    proxies: Mutex<HashMap<String, Proxy>>,
}

impl OneDatabase {
    fn new() -> Self {
        Self { database: Database::new(), proxies: Mutex::default() }
    }

    fn build(&self, setup: impl FnOnce(Builder) -> Builder) -> Result<PostgresBackend, Error> {
        let proxy = Proxy::start(self.database.server.addr());
        let url = self.database.server.url_through(proxy.addr(), &self.database.name);
        let client = setup(PostgresBackend::builder(url)).build()?;
        self.proxies.lock().unwrap().insert(format!("{client:?}"), proxy);
        Ok(client)
    }

    fn with_proxy(&self, client: &PostgresBackend, act: impl FnOnce(&Proxy)) {
        act(&self.proxies.lock().unwrap()[&format!("{client:?}")]);
    }
}

#[async_trait]
impl Harness for OneDatabase {
    type Client = PostgresBackend;

    async fn client(&self) -> Result<PostgresBackend, Error> {
        let client = self.build(|it| it)?;
        // To log in takes longer than some leases of the laws last: in a build without optimization, the password alone
        // takes a tenth of a second.
        client.connect().await?;
        Ok(client)
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<PostgresBackend>, Error> {
        self.build(|it| it.queue_limit(waiters)).map(Some)
    }

    async fn cut(&self, client: &PostgresBackend) -> Hook {
        self.with_proxy(client, |proxy| {
            proxy.refuse();
            proxy.cut();
        });
        Hook::Done
    }

    async fn heal(&self, client: &PostgresBackend) {
        self.with_proxy(client, Proxy::pass);
    }

    async fn forget(&self) -> Hook {
        self.database.sql(
            "TRUNCATE lock_v1.key, lock_v1.holder, lock_v1.waiter, lock_v1.semaphore, lock_v1.cell, lock_v1.fence, \
             lock_v1.label",
        );
        Hook::Done
    }
}

fn enforce(suite: &Suite<OneDatabase>, law: &str) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { suite.enforce(law, &OneDatabase::new()).await });
}

/// Makes a test of each law.
macro_rules! tests_of_laws {
    ($suite:ident () () $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            enforce(&Suite::$suite(), stringify!($law));
        }
    )*)*};
}

lock_core::__lock_core_laws! { [tests_of_laws] backend () () }
lock_core::__lock_core_shared_laws! { [tests_of_laws] shared () () }
lock_core::__lock_core_convert_laws! { [tests_of_laws] convert () () }
lock_core::__lock_core_joint_laws! { [tests_of_laws] joint () () }
lock_core::__lock_core_permit_laws! { [tests_of_laws] permits () () }
lock_core::__lock_core_cell_laws! { [tests_of_laws] cell () () }
lock_core::__lock_core_inspect_laws! { [tests_of_laws] inspect () () }

/// The laws of a mutex, with a semaphore of one permit.
mod one_permit {
    use super::*;

    lock_core::__lock_core_mutex_laws! { [tests_of_laws] one_permit () () }
}
