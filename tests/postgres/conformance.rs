//! Every law of the contract and of the capabilities, over each way to a database.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Suite};
use lock_core::{Error, Ttl};
use lock_postgres::{Builder, PostgresBackend};
use lock_tests::{PgBouncer, Proxy, Ways, in_all_setups};

use crate::support::{Database, SERVER};

/// Has a database forget all locks.
const FORGET: &str = "TRUNCATE lock_v1.key, lock_v1.holder, lock_v1.waiter, lock_v1.semaphore, lock_v1.cell, \
                      lock_v1.fence, lock_v1.label";

/// Ends all sessions of a database, and waits until they have ended. Within one statement, a look at the sessions repeats
/// the first look until its snapshot is cleared.
const END_ALL: &str = "DO $$ BEGIN LOOP \
                           PERFORM pg_stat_clear_snapshot(); \
                           PERFORM pg_terminate_backend(pid) FROM pg_stat_activity \
                               WHERE datname = current_database() AND pid <> pg_backend_pid() \
                                   AND backend_type = 'client backend'; \
                           EXIT WHEN NOT FOUND; \
                           PERFORM pg_sleep(0.002); \
                       END LOOP; END $$";

/// How the clients come to the database.
#[derive(Clone, Copy)]
enum Way {
    /// As a role that may call the verbs, and end leases, and do nothing else.
    Direct,
    /// The verbs go through a pooler in transaction mode, and a direct connection listens.
    Pooled,
    /// Everything goes through the pooler.
    PooledAlone,
}

/// The pooler before the server of all tests. It has fewer sessions of a database than its clients have.
static POOLER: LazyLock<PgBouncer> = LazyLock::new(|| PgBouncer::before_all(&SERVER.0, 3));

/// The databases that laws have left to later laws, for each way. A database that is cleared is ready sooner than a new
/// one.
static LEFT: [Mutex<Vec<Arc<Database>>>; 3] = [const { Mutex::new(Vec::new()) }; 3];

impl Way {
    /// A database that an earlier law has left, as a new one.
    fn left(self) -> Option<Arc<Database>> {
        let database = LEFT[self as usize].lock().unwrap().pop()?;
        // A late request of the earlier law ends with its session.
        database.sql(&format!("{END_ALL}; {FORGET}, lock_v1.watcher"));
        Some(database)
    }

    fn made(self) -> Database {
        let database = Database::new();
        if matches!(self, Self::Direct) {
            let role = format!("law_{}", database.name);
            database.sql(&format!(
                "CREATE ROLE {role} LOGIN PASSWORD 'pw'; CALL lock_v1.allow_operator('{role}')"
            ));
        }
        database
    }
}

/// A database, and for each client proxies of its own that can be cut.
struct OneDatabase {
    database: Arc<Database>,
    way: Way,
    /// The login before the address.
    role: String,
    ways: Ways,
}

impl OneDatabase {
    fn new(way: Way) -> Self {
        let database = way.left().unwrap_or_else(|| Arc::new(way.made()));
        let role = match way {
            Way::Direct => format!("law_{}:pw", database.name),
            _ => "kit:kit".to_owned(),
        };
        Self { database, way, role, ways: Ways::default() }
    }

    fn build(&self, setup: impl FnOnce(Builder) -> Builder) -> Result<PostgresBackend, Error> {
        let url = |proxy: &Proxy| {
            let (role, name) = (&self.role, &self.database.name);
            format!("postgres://{role}@{}/{name}?sslmode=disable", proxy.addr())
        };
        let direct = || Proxy::start(self.database.server.addr());
        let (builder, proxies) = match self.way {
            Way::Direct => {
                let proxy = direct();
                (PostgresBackend::builder(url(&proxy)), vec![proxy])
            }
            Way::Pooled => {
                let (listening, verbs) = (direct(), Proxy::start(POOLER.addr()));
                let builder = PostgresBackend::builder(url(&listening)).pooler(url(&verbs));
                (builder, vec![listening, verbs])
            }
            Way::PooledAlone => {
                let proxy = Proxy::start(POOLER.addr());
                let builder = PostgresBackend::builder(url(&proxy));
                (builder.without_direct_connection(), vec![proxy])
            }
        };
        // To log in is most of the work of a law. With the direct connection, verbs of several keys use several
        // connections.
        let connections = if matches!(self.way, Way::Direct) { 2 } else { 1 };
        let builder =
            builder.connections(NonZeroUsize::new(connections).unwrap_or(NonZeroUsize::MIN));
        let client = setup(builder).build()?;
        self.ways.keep(&client, proxies);
        Ok(client)
    }
}

impl Drop for OneDatabase {
    fn drop(&mut self) {
        // A law that panics may leave anything.
        if !thread::panicking() {
            LEFT[self.way as usize].lock().unwrap().push(Arc::clone(&self.database));
        }
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
        self.ways.cut_off(client)
    }

    async fn heal(&self, client: &PostgresBackend) {
        self.ways.heal(client);
    }

    async fn forget(&self) -> Hook {
        self.database.sql(FORGET);
        Hook::Done
    }

    /// The tests of other laws share the processors with this one.
    fn ttl(&self) -> Ttl {
        Ttl::new(Duration::from_millis(1_500)).unwrap()
    }
}

const WAYS: [(&str, Way); 3] = [
    ("a direct connection with least rights", Way::Direct),
    ("a pooler", Way::Pooled),
    ("a pooler alone", Way::PooledAlone),
];

fn enforce(suite: fn() -> Suite<OneDatabase>, law: &str) {
    let enforced =
        |(name, way)| (name, move || lock_tests::enforce(suite, law, || OneDatabase::new(way)));
    in_all_setups(law, WAYS.into_iter().map(enforced));
}

lock_tests::laws! { (enforce) backend shared convert joint permits one_permit cell inspect }
