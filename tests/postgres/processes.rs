//! Two processes and one lock.

use std::time::Duration;

use lock_core::Ttl;
use lock_postgres::PostgresBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{OtherProcess, SOON};
use tokio_postgres::NoTls;

use crate::support::Database;

/// The test that the other process runs. Its part is a word and the URL of the database.
const OTHER: &str = "processes::the_other_process";

const TURNS: u32 = 60;

/// The lease of a process that dies.
const SHORT: Duration = Duration::from_secs(4);

/// Adds one to a number that all share, again and again, in two steps that only the lock keeps together. Most turns
/// wait for the other process.
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
    let other = OtherProcess::start(OTHER, &format!("count {}", database.url()));
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
    let status = tokio::task::spawn_blocking(|| other.end()).await.unwrap();
    assert!(status.success(), "{status}");
    assert_eq!(database.sql("SELECT number FROM counter"), format!("{}\n", 3 * TURNS));
}

/// The holder renews its lease, so the lock stays its own for longer than one lease. Its death ends that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_killed_process_passes_on() {
    let database = Database::new();
    let mut other = OtherProcess::start(OTHER, &format!("hold {}", database.url()));
    other.until_it_says("holds");
    let here = Locks::builder(database.open()).build().unwrap();
    let mutex = here.mutex("counter", ()).unwrap();
    let mut waiting = Box::pin(mutex.lock());
    let early = tokio::time::timeout(SHORT + Duration::from_secs(1), &mut waiting).await;
    assert!(early.is_err(), "the lock passed on while its holder lived");
    drop(other);
    let guard = tokio::time::timeout(SHORT + SOON, waiting).await.expect("it passes on").unwrap();
    MutexGuard::release(guard).await.unwrap();
}

/// Does nothing unless a test above has started it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_other_process() {
    let Some(role) = OtherProcess::part() else { return };
    let (role, url) = role.split_once(' ').unwrap();
    if role == "count" {
        return count_up(url).await;
    }
    let locks = Locks::builder(PostgresBackend::open(url).unwrap()).ttl(SHORT).build().unwrap();
    let mutex = locks.mutex("counter", ()).unwrap();
    let _guard = mutex.lock().await.unwrap();
    println!("holds");
    // Until it is killed.
    std::future::pending::<()>().await;
}
