//! Databases with the schema, and short forms of requests.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Ttl, Watch};
use lock_postgres::PostgresBackend;
pub(crate) use lock_tests::requests::{attempt, claim, granted, long, refused, until_ok};
use lock_tests::{PostgresServer, SOON, eventually};

/// The server of all tests that do it no harm. Each has a database of its own.
pub(crate) static SERVER: LazyLock<(PostgresServer, String)> = LazyLock::new(|| {
    let server = PostgresServer::start();
    let template = server.database();
    server.sql(&template, &PostgresBackend::schema());
    (server, template)
});

/// A database of its own, with the schema.
pub(crate) struct Database {
    pub(crate) server: &'static PostgresServer,
    pub(crate) name: String,
}

impl Database {
    pub(crate) fn new() -> Self {
        let (server, template) = &*SERVER;
        Self { server, name: server.copy(template) }
    }

    /// A database without the schema.
    pub(crate) fn empty() -> Self {
        let (server, _) = &*SERVER;
        Self { server, name: server.database() }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub(crate) fn open(&self) -> PostgresBackend {
        PostgresBackend::open(self.url()).unwrap()
    }

    pub(crate) fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.name, statements)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Its clients may still be connected.
        _ = self.server.try_sql("postgres", &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Has the claim wait in the queue, with a listening connection.
pub(crate) async fn queued(store: &PostgresBackend, claim: &Claim) -> Watch {
    let watch = store.watch(&claim.key).await.unwrap();
    let outcome = store.try_acquire(&Acquire::new(claim.clone(), long()).queued()).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Queued { .. }), "{outcome:?}");
    watch
}

pub(crate) fn millis(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

/// A ttl for which a test waits, and in which a loaded machine runs a few statements.
pub(crate) fn short() -> Ttl {
    millis(2_000)
}

/// Waits until the database counts no lease that has time left.
pub(crate) fn until_over(database: &Database) {
    let left = "SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()";
    eventually("the lease is over", SOON, || {
        // The server waits, because each call of `psql` takes much of a processor.
        database.sql("SELECT pg_sleep_until(max(ends)) FROM lock_v1.held");
        database.sql(left) == "0\n"
    });
}
