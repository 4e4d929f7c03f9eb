//! Databases with the schema, and short forms of requests.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Grant, Hint, Ttl, Watch};
use lock_postgres::PostgresBackend;
pub(crate) use lock_tests::requests::{attempt, claim, granted, long, refused, until_ok};
use lock_tests::{PostgresServer, SOON, eventually, soon};
use tokio_postgres::NoTls;

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

/// Waits until the database hands the lock over to this claim, and returns the grant. A message that comes late brings
/// no grant, so the client asks for it then.
pub(crate) async fn handed_over(
    store: &PostgresBackend,
    watch: &mut Watch,
    claim: &Claim,
) -> Grant {
    let hint = soon(watch.next()).await;
    let Some(Hint::Granted { owner, grant }) = hint else { panic!("{hint:?}") };
    assert_eq!(owner, claim.owner);
    match grant {
        Some(grant) => grant,
        None => granted(store, claim, long()).await,
    }
}

/// The sessions of clients of locks.
pub(crate) fn sessions(database: &Database) -> Vec<u32> {
    let sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                    AND application_name = 'lock-postgres' ORDER BY backend_start";
    database.sql(sessions).lines().map(|pid| pid.parse().unwrap()).collect()
}

/// The latest of so many sessions. A session that was given up ends first.
pub(crate) fn last_session(database: &Database, count: usize) -> u32 {
    let mut found = Vec::new();
    eventually("given up sessions end", SOON, || {
        found = sessions(database);
        found.len() == count
    });
    found[count - 1]
}

/// Has every commit wait for a standby that never comes. Returns once one waits: then all do.
pub(crate) async fn commits_wait(server: &PostgresServer, database: &str) {
    // These do not write, so they do not wait.
    server.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let (app, connection) = tokio_postgres::connect(&server.url(database), NoTls).await.unwrap();
    tokio::spawn(connection);
    let writing = tokio::spawn(async move {
        while app.batch_execute("SELECT pg_logical_emit_message(true, '', '')").await.is_ok() {}
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    eventually("commits wait", SOON * 6, || server.sql("postgres", waits) != "0\n");
    writing.abort();
}

pub(crate) fn millis(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

/// A ttl for which a test waits, and in which a loaded machine runs a few statements.
pub(crate) fn short() -> Ttl {
    millis(2_000)
}

/// From now on, a request waits for the row of a key as long as the session of its client may wait for any row: half of
/// the limit of the client.
pub(crate) fn without_limit_of_its_own(database: &Database) {
    database.sql("ALTER FUNCTION lock_v1.hold(bytea) RESET lock_timeout");
}

/// Ends all leases, as their time does.
pub(crate) fn end_leases(database: &Database) {
    database.sql("UPDATE lock_v1.key SET ends = clock_timestamp() WHERE owner IS NOT NULL");
    database.sql("UPDATE lock_v1.holder SET ends = clock_timestamp()");
    until_over(database);
}

/// Waits until the database counts no lease that has time left.
pub(crate) fn until_over(database: &Database) {
    let left = "SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()";
    eventually("the lease is over", SOON, || {
        // The server waits, because each connection takes much of a processor.
        database.sql("SELECT pg_sleep_until(max(ends)) FROM lock_v1.held");
        database.sql(left) == "0\n"
    });
}
