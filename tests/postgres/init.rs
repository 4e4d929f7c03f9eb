//! How the schema comes into a database.

use futures::future::join_all;
use lock_core::{Backend, ErrorKind, Released};
use lock_postgres::PostgresBackend;

use crate::support::{Database, attempt, claim, granted, long};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_processes_may_set_up_a_database_at_once() {
    let database = Database::empty();
    let clients: Vec<_> = (0..6).map(|_| database.open()).collect();
    let done = join_all(clients.iter().map(PostgresBackend::init)).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    clients[0].connect().await.unwrap();
    granted(&clients[1], &claim("a"), long()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_init_keeps_locks_and_restores_functions() {
    let database = Database::new();
    let store = database.open();
    let ours = claim("a");
    granted(&store, &ours, long()).await;
    database.sql("DROP FUNCTION lock_v1.tidy(int)");
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "0\n");
    assert!(matches!(store.release(&ours).await.unwrap(), Released::Freed { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_schema_is_left_alone_and_used() {
    let database = Database::new();
    database.sql("UPDATE lock_v1.meta SET version = 99; DROP FUNCTION lock_v1.tidy(int)");
    let store = database.open();
    store.init().await.unwrap();
    assert_eq!(database.sql("SELECT version FROM lock_v1.meta"), "99\n");
    assert!(database.server.try_sql(&database.name, "SELECT lock_v1.tidy(10)").is_err());
    store.connect().await.unwrap();
    granted(&store, &claim("a"), long()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_without_the_schema_or_with_an_older_one_says_so() {
    let database = Database::empty();
    let store = database.open();
    for error in [
        store.connect().await.unwrap_err(),
        attempt(&store, &claim("a"), long()).await.unwrap_err(),
        store.watch(&claim("a").key).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains("call `init`"), "{error}");
    }
    store.init().await.unwrap();
    database.sql("UPDATE lock_v1.meta SET version = 0");
    let error = store.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
}

#[test]
fn rows_that_were_not_used_for_an_hour_are_removed() {
    let database = Database::new();
    database.sql(
        "INSERT INTO lock_v1.key (key, last) VALUES ('nold', 5), ('nnew', lock_v1.floor(clock_timestamp())); \
         INSERT INTO lock_v1.key (key, last, plain) VALUES ('nbusy', 5, false); \
         INSERT INTO lock_v1.key (key, last, owner, ends) VALUES ('nheld', 5, 'o', 'infinity')",
    );
    assert_eq!(database.sql("SELECT lock_v1.tidy(10)"), "1\n");
    assert_eq!(database.sql("SELECT count(*) FROM lock_v1.key"), "3\n");
}
