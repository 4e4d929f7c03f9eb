//! Databases with the schema, and short forms of requests.

use std::sync::LazyLock;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Error, Grant, Key, OwnerToken, Ttl};
use lock_postgres::PostgresBackend;
use lock_tests::PostgresServer;

/// The server of all tests that do it no harm. Each has a database of its own.
static SERVER: LazyLock<(PostgresServer, String)> = LazyLock::new(|| {
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

pub(crate) fn claim(name: impl AsRef<[u8]>) -> Claim {
    Claim::exclusive(Key::new(name).unwrap(), OwnerToken::generate().unwrap())
}

/// A lease that outlasts any test.
pub(crate) fn long() -> Ttl {
    Ttl::new(Duration::from_secs(60)).unwrap()
}

pub(crate) fn millis(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

pub(crate) async fn attempt(
    backend: &impl Backend,
    claim: &Claim,
    ttl: Ttl,
) -> Result<AcquireOutcome, Error> {
    backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await
}

/// Asks for a lease that must be granted.
pub(crate) async fn granted(backend: &impl Backend, claim: &Claim, ttl: Ttl) -> Grant {
    match attempt(backend, claim, ttl).await.unwrap() {
        AcquireOutcome::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Asks for a lease that another owner must have. Returns how long that lease lasts.
pub(crate) async fn refused(backend: &impl Backend, claim: &Claim) -> Option<Duration> {
    match attempt(backend, claim, long()).await.unwrap() {
        AcquireOutcome::Busy { retry_after } => retry_after,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
