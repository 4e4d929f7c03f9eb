//! Two processes and one lock.

use std::process::Command;

use lock_core::Ttl;
use lock_postgres::PostgresBackend;
use lock_sync::{Locks, MutexGuard};
use tokio_postgres::NoTls;

use crate::support::Database;

/// Names the database for the other process.
const VARIABLE: &str = "LOCK_TESTS_POSTGRES_URL";
const TURNS: u32 = 60;

/// Adds one to a number that all share, again and again, in two steps that only the lock keeps together. Most turns wait for
/// the other process.
async fn count_up(url: &str) {
    let locks = Locks::builder(PostgresBackend::open(url).unwrap()).ttl(Ttl::DEFAULT.duration());
    let locks = locks.build().unwrap();
    let (app, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mutex = locks.mutex("counter", ()).unwrap();
    for _ in 0..TURNS {
        let guard = mutex.lock().await.unwrap();
        let number: i32 = app.query_one("SELECT number FROM counter", &[]).await.unwrap().get(0);
        tokio::task::yield_now().await;
        app.execute("UPDATE counter SET number = $1", &[&(number + 1)]).await.unwrap();
        MutexGuard::release(guard).await.unwrap();
    }
    locks.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_lose_no_update() {
    let database = Database::new();
    database.sql("CREATE TABLE counter (number int); INSERT INTO counter VALUES (0)");
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_other_process", "--nocapture"])
        .env(VARIABLE, database.url())
        .spawn()
        .unwrap();
    let url = database.url();
    let (one, two) = tokio::join!(
        tokio::spawn({
            let url = url.clone();
            async move { count_up(&url).await }
        }),
        tokio::spawn(async move { count_up(&url).await })
    );
    one.unwrap();
    two.unwrap();
    let status = tokio::task::spawn_blocking(move || other.wait()).await.unwrap().unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(database.sql("SELECT number FROM counter"), format!("{}\n", 3 * TURNS));
}

/// Does nothing unless the test above has started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_process() {
    if let Ok(url) = std::env::var(VARIABLE) {
        count_up(&url).await;
    }
}
