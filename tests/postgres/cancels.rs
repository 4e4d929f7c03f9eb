//! Requests that are dropped at any of their polls.

use std::num::NonZeroU32;

use lock_core::{Acquire, AcquireOutcome, Backend};
use lock_tests::{SOON, cancels, eventually};

use crate::support::{Database, claim, long};

fn nothing_is_left(database: &Database) {
    let left = "SELECT (SELECT count(*) FROM lock_v1.held WHERE ends > clock_timestamp()) \
                + (SELECT count(*) FROM lock_v1.waiter)";
    eventually("nothing is held or waited for", SOON, || database.sql(left) == "0\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_leaves_nothing_behind_once_it_is_released() {
    let database = Database::new();
    cancels::a_dropped_request(&database.open(), &database.open()).await;
    nothing_is_left(&database);
}

/// The keys use several connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_that_are_dropped_together_can_be_released() {
    let database = Database::new();
    cancels::dropped_requests_of_one_call(&database.open()).await;
    nothing_is_left(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_queue() {
    let database = Database::new();
    let (one, other) = (database.open(), database.open());
    cancels::a_dropped_wait(&one, &other).await;
    nothing_is_left(&database);
    let watchers = "SELECT count(*) FROM lock_v1.watcher";
    eventually("no watch is left", SOON, || database.sql(watchers) == "0\n");
    eventually("rows are plain again", SOON, || {
        database.sql("SELECT count(*) FROM lock_v1.key WHERE NOT plain") == "0\n"
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_conversion_commit_or_release_can_be_released() {
    let database = Database::new();
    let store = database.open();
    cancels::a_dropped_change(&store).await;
    nothing_is_left(&database);
    let many = Acquire::new(claim("many"), long()).reserving(NonZeroU32::new(1000).unwrap());
    assert!(matches!(store.try_acquire(&many).await.unwrap(), AcquireOutcome::Granted(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_renewal_ends_no_lease() {
    let database = Database::new();
    cancels::a_dropped_renewal(&database.open()).await;
    nothing_is_left(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_the_next_request_can_be_dropped() {
    let database = Database::new();
    cancels::a_dropped_requeue(&database.open(), &database.open()).await;
    nothing_is_left(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_given_up_after_any_poll_is_free_for_another_process() {
    let database = Database::new();
    cancels::a_dropped_lock(database.open(), database.open()).await;
    nothing_is_left(&database);
}
