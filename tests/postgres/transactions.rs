//! Transactions that get into one another's way.

use lock_core::{Acquire, AcquireOutcome, Backend, ErrorKind};
use lock_postgres::PostgresBackend;
use lock_tests::{SOON, eventually_async, soon};
use tokio_postgres::NoTls;

use crate::support::{Database, claim, granted, long, without_limit_of_its_own};

/// A transaction of a user that locks rows of the schema can wait for a request that waits for the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_an_error_that_may_pass() {
    let database = Database::new();
    // The request finds the deadlock, and not the other transaction, which would wait for a minute. It may wait for longer
    // than until then.
    without_limit_of_its_own(&database);
    let set = format!("ALTER DATABASE {} SET deadlock_timeout = '3s'", database.name);
    database.server.sql("postgres", &set);
    let store = PostgresBackend::builder(database.url()).command_timeout(SOON * 2).build().unwrap();
    let requests = ["a", "b"].map(|name| Acquire::new(claim(name), long()));
    for request in &requests {
        granted(&store, &request.claim, long()).await;
        store.release(&request.claim).await.unwrap();
    }
    let (mut blocker, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    blocker.batch_execute("SET deadlock_timeout = '1min'").await.unwrap();
    let blocking = blocker.transaction().await.unwrap();
    blocking.batch_execute("SELECT FROM lock_v1.key WHERE key = 'nb' FOR UPDATE").await.unwrap();
    let asking = {
        let (store, requests) = (store.clone(), requests.clone());
        tokio::spawn(async move { store.try_acquire_all(&requests).await })
    };
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND application_name = 'lock-postgres' AND wait_event_type = 'Lock'";
    eventually_async("the request waits for the row", SOON, async || {
        let row = blocking.query_typed_one(waits, &[]).await.unwrap();
        row.get::<_, i64>(0) == 1
    })
    .await;
    blocking.batch_execute("SELECT FROM lock_v1.key WHERE key = 'na' FOR UPDATE").await.unwrap();
    let error = soon(asking).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error:?}");
    assert!(error.is_retryable() && format!("{error:?}").contains("40P01"), "{error:?}");
    blocking.rollback().await.unwrap();
    let outcomes = store.try_acquire_all(&requests).await.unwrap().unwrap();
    assert!(outcomes.iter().all(|it| matches!(it, AcquireOutcome::Granted(_))), "{outcomes:?}");
}
