//! PostgreSQL databases by URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use lock_any::doctor::{Severity, doctor};
use lock_any::lock_sync::{ErrorKind, TryLockError};
use lock_core::observer::{Connected, Observer, StoreAnswered};
use lock_core::{AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
use lock_tests::{PgBouncer, PostgresServer, soon};

use crate::support::{clients, codes, serve_all_kinds};

/// The URL of a new database, with the other scheme.
fn url(server: &PostgresServer, database: &str) -> String {
    server.url(database).replace("postgres://", "postgresql://")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_by_url() {
    let server = PostgresServer::start();
    let database = server.database();
    let [one, other] = [server.url(&database), url(&server, &database)];
    lock_any::init(&one).await.unwrap();
    lock_any::init(&other).await.unwrap();
    for url in [&one, &other] {
        serve_all_kinds(&clients(url).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_the_schema_says_what_to_do() {
    let server = PostgresServer::start();
    let url = server.url(&server.database());
    let locks = lock_any::connect(&url).await.unwrap();
    let error = soon(locks.try_lock("it")).await.unwrap_err();
    let TryLockError::Backend(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("init"), "{error}");
    let report = doctor(&url).await.unwrap();
    assert!(codes(&report).contains(&(Severity::Critical, "schema-missing")), "{report}");
    assert!(!report.to_string().contains("kit:kit"), "{report}");

    lock_any::init(&url).await.unwrap();
    let report = doctor(&url).await.unwrap();
    assert!(report.worst() < Some(Severity::Critical), "{report}");
    // The server of the kit does not wait for its disk.
    for code in ["fsync-off", "full-pages-off"] {
        assert!(codes(&report).contains(&(Severity::Warning, code)), "{report}");
    }
    assert!(codes(&report).contains(&(Severity::Info, "rights-many")), "{report}");
    let served = report.store.iter().find(|fact| fact.name == "serves").unwrap();
    assert!(served.value.contains("wake-ups") && served.value.contains("permits"), "{report}");
    assert!(report.servers[0].facts.iter().any(|fact| fact.name == "version"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_careful_operator_has_no_warning() {
    let server = PostgresServer::durable();
    let database = server.database();
    let owner =
        "CREATE ROLE owner LOGIN PASSWORD 'hunter3'; CREATE SCHEMA lock_v1 AUTHORIZATION owner";
    server.sql(&database, owner);
    lock_any::init(&server.url_as("owner", "hunter3", &database)).await.unwrap();
    server.sql(&database, "CREATE ROLE app LOGIN PASSWORD 'hunter2'; CALL lock_v1.allow('app')");
    let report = doctor(&server.url_as("app", "hunter2", &database)).await.unwrap();
    assert_eq!(codes(&report), [(Severity::Info, "no-standby")], "{report}");
    assert!(!report.to_string().contains("hunter2"), "{report}");

    server.sql(&database, "REVOKE EXECUTE ON FUNCTION lock_v1.release FROM app");
    let report = doctor(&server.url_as("app", "hunter2", &database)).await.unwrap();
    let missing = report.with_code("rights-missing").next().unwrap();
    assert!(missing.finding.ends_with(" release"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doctor_sees_how_the_role_and_the_server_are_set() {
    let server = PostgresServer::start();
    let database = server.database();
    let url = server.url(&database);
    lock_any::init(&url).await.unwrap();
    let set = |what: &str| {
        server.sql("postgres", &format!("ALTER DATABASE {database} SET {what}"));
    };
    set("synchronous_commit = off");
    let report = doctor(&url).await.unwrap();
    assert!(codes(&report).contains(&(Severity::Warning, "commits-unwritten")), "{report}");
    set("default_transaction_read_only = on");
    let report = doctor(&url).await.unwrap();
    assert!(codes(&report).contains(&(Severity::Critical, "read-only")), "{report}");
}

/// The client notices at once, because a pooler does not take the settings of a session.
#[tokio::test(flavor = "multi_thread")]
async fn a_url_that_leads_to_a_pooler_is_a_mistake() {
    let server = PostgresServer::start();
    let database = server.database();
    lock_any::init(&server.url(&database)).await.unwrap();
    let pooler = PgBouncer::before(&server, &database, 2);
    let error = doctor(&pooler.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("pooler"), "{error}");
}

#[tokio::test]
async fn a_doctor_of_a_server_that_is_not_there_has_no_report() {
    let server = PostgresServer::start();
    let url = server.url("postgres");
    server.kill();
    let error = doctor(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert!(!error.to_string().contains("kit:kit"), "{error}");
}

#[derive(Default)]
struct Counts {
    connections: AtomicU32,
    requests: AtomicU32,
}

impl Observer for Counts {
    fn connected(&self, _: &Connected<'_>) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn store_answered(&self, event: &StoreAnswered<'_>) {
        assert!(event.error.is_none(), "{event:?}");
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observer_hears_of_the_store_behind_a_url() {
    let server = PostgresServer::start();
    let url = server.url(&server.database());
    lock_any::init(&url).await.unwrap();
    let counts = Arc::new(Counts::default());
    let store = lock_any::open_observed(&url, counts.clone()).await.unwrap();
    let claim = Claim::exclusive(Key::new("it").unwrap(), OwnerToken::generate().unwrap());
    let request = lock_core::Acquire::new(claim.clone(), Ttl::DEFAULT);
    let outcome = soon(store.try_acquire(&request)).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Granted(_)), "{outcome:?}");
    soon(store.release(&claim)).await.unwrap();
    assert_eq!(counts.connections.load(Ordering::Relaxed), 1);
    assert_eq!(counts.requests.load(Ordering::Relaxed), 2);
}
