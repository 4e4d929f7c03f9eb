//! Behind a pooler that gives each transaction whichever session is free.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::join_all;
use lock_core::observer::{Observer, StoreAnswered};
use lock_core::{Acquire, AcquireOutcome, Backend, ErrorKind, Hint};
use lock_postgres::PostgresBackend;
use lock_tests::{PgBouncer, SOON, eventually, soon};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::support::{Database, claim, granted, long, refused};

const CLIENTS: usize = 8;

/// What other libraries meet: the session that has the statement is not the one that runs it.
#[tokio::test]
async fn statements_with_names_fail() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let connect = async || {
        let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    let (user, others) = (connect().await, [connect().await, connect().await]);
    // While a transaction has one session, the statement goes to the other session.
    others[0].batch_execute("BEGIN").await.unwrap();
    let statement = user.prepare("SELECT lock_v1.version()").await.unwrap();
    let prepared = session(&user).await;
    others[0].batch_execute("COMMIT").await.unwrap();
    // Then a transaction has that session.
    for other in &others {
        other.batch_execute("BEGIN").await.unwrap();
    }
    for other in &others {
        if session(other).await != prepared {
            other.batch_execute("COMMIT").await.unwrap();
        }
    }
    let error = soon(user.query(&statement, &[])).await.unwrap_err();
    assert_eq!(error.code().map(|code| code.code()), Some("26000"), "{error}");
}

/// The session of the database that serves a client now.
async fn session(client: &tokio_postgres::Client) -> String {
    let answer = soon(client.simple_query("SELECT pg_backend_pid()")).await.unwrap();
    let row = answer.iter().find_map(|it| match it {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    row.unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbs_work_without_names() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let uses = (0..CLIENTS).map(|index| {
        let store = PostgresBackend::builder(database.url())
            .pooler(pooler.url())
            .connections(NonZeroUsize::MIN)
            .build()
            .unwrap();
        async move {
            for _ in 0..20 {
                let ours = claim(format!("{index}"));
                granted(&store, &ours, long()).await;
                store.release(&ours).await.unwrap();
            }
        }
    });
    join_all(uses).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_direct_connection_beside_the_pooler_waiters_hear_of_grants() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let open = || PostgresBackend::builder(database.url()).pooler(pooler.url()).build().unwrap();
    let (one, other) = (open(), open());
    let (ours, theirs) = (claim("a"), claim("a"));
    granted(&one, &ours, long()).await;
    let mut watch = other.watch(&theirs.key).await.unwrap();
    let queued = other.try_acquire(&Acquire::new(theirs.clone(), long()).queued()).await.unwrap();
    assert!(matches!(queued, AcquireOutcome::Queued { .. }), "{queued:?}");
    one.release(&ours).await.unwrap();
    let hint = soon(watch.next()).await;
    assert!(
        matches!(&hint, Some(Hint::Granted { owner, .. }) if *owner == theirs.owner),
        "{hint:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_direct_connection_there_is_no_watch_and_no_queue() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let open =
        || PostgresBackend::builder(pooler.url()).without_direct_connection().build().unwrap();
    let (one, other) = (open(), open());
    let capabilities = one.capabilities();
    assert!(!capabilities.watches() && capabilities.queues(), "{capabilities:?}");
    let (ours, theirs) = (claim("a"), claim("a"));
    granted(&one, &ours, long()).await;
    let error = other.watch(&theirs.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let refusal = other.try_acquire(&Acquire::new(theirs.clone(), long()).queued()).await.unwrap();
    assert!(matches!(refusal, AcquireOutcome::Busy { retry_after: Some(_) }), "{refusal:?}");
    refused(&other, &theirs).await.expect("a time to ask again");
    one.release(&ours).await.unwrap();
    granted(&other, &theirs, long()).await;

    // lock-sync waits by timers alone.
    let answers = Arc::new(Answers::default());
    let waits = PostgresBackend::builder(pooler.url()).without_direct_connection();
    let waits = waits.observer(answers.clone()).build().unwrap();
    let locks = [lock_sync::Locks::new(open()), lock_sync::Locks::new(waits)];
    let [here, there] = locks.each_ref().map(|it| it.mutex("b", ()).unwrap());
    let held = here.lock().await.unwrap();
    let waiting = tokio::spawn(async move { there.lock().await.map(drop) });
    // The store refuses the waiter while the lock is held, more than once.
    eventually("the waiter asks again", SOON, || answers.0.load(Ordering::Relaxed) >= 2);
    assert!(!waiting.is_finished(), "two holders");
    drop(held);
    soon(waiting).await.unwrap().unwrap();
}

/// Counts the answers to requests for a lease.
#[derive(Default)]
struct Answers(AtomicU32);

impl Observer for Answers {
    fn store_answered(&self, event: &StoreAnswered<'_>) {
        if event.verb == "acquire" && event.error.is_none() {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A client says of itself whether it hears anything. The check of a client that hears nothing says so once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_direct_connection_says_that_it_gets_no_wake_ups() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let direct = database.open();
    let beside = PostgresBackend::builder(database.url()).pooler(pooler.url()).build().unwrap();
    let deaf = PostgresBackend::builder(pooler.url()).without_direct_connection().build().unwrap();
    for (store, hears) in [(&direct, true), (&beside, true), (&deaf, false)] {
        assert_eq!(store.capabilities().watches(), hears);
        let report = store.check().await.unwrap();
        let served = report.store.iter().find(|fact| fact.name == "serves").unwrap();
        assert_eq!(served.value.contains("wake-ups"), hears, "{report}");
        assert_eq!(report.with_code("no-wake-ups").count(), usize::from(!hears), "{report}");
        assert_eq!(report.with_code("watch-refused").count(), 0, "{report}");
    }
}

/// The two URLs may name different servers: by mistake, or for a while after a failover. No notification would arrive.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listening_connection_to_another_database_is_found_out() {
    let (database, elsewhere) = (Database::new(), Database::new());
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let store = PostgresBackend::builder(elsewhere.url()).pooler(pooler.url()).build().unwrap();
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    let error = store.watch(&ours.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    assert!(error.to_string().contains("another database"), "{error}");
    assert_eq!(database.sql("SELECT count(*) FROM lock_v1.watcher"), "0\n");
    // The connection that is of no use is closed.
    let listening = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND application_name = 'lock-postgres'",
        elsewhere.name
    );
    eventually("the connection is closed", SOON, || database.sql(&listening) == "0\n");
}

/// Such a pooler gives the session of the listener to other clients, and with it what belongs to the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_drops_settings_is_found_out_and_keeps_no_advisory_lock() {
    let database = Database::new();
    let pooler = PgBouncer::dropping_settings(database.server, &database.name, 2);
    let store = PostgresBackend::open(pooler.url()).unwrap();
    for _ in 0..3 {
        let error = store.watch(&claim("a").key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains("pooler"), "{error}");
    }
    let locked = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                  WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    assert_eq!(database.sql(locked), "0\n");
}

/// Programs that have nothing but a URL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_can_lead_through_a_pooler_and_past_it() {
    let database = Database::new();
    let pooler = PgBouncer::before(database.server, &database.name, 2);
    let through = PostgresBackend::open(format!("{}&direct=false", pooler.url())).unwrap();
    let beside = format!("{}?pooler={}", database.url().split('?').next().unwrap(), pooler.addr());
    let beside = PostgresBackend::open(beside).unwrap();
    let ours = claim("a");
    granted(&through, &ours, long()).await;
    let error = through.watch(&ours.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    let mut watch = beside.watch(&ours.key).await.unwrap();
    refused(&beside, &claim("a")).await.expect("a time to ask again");
    through.release(&ours).await.unwrap();
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
}
