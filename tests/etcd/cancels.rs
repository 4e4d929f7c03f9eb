//! Requests that are dropped at any of their polls.

use std::time::Duration;

use lock_tests::cancels::{self, Polls};
use lock_tests::eventually_async;

use crate::support::{Part, attempt, claim, seconds};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_request_leaves_nothing_behind_once_it_is_released() {
    let part = Part::new();
    cancels::a_dropped_request(&part.open(), &part.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_requests_that_are_dropped_together_can_be_released() {
    cancels::dropped_requests_of_one_call(&Part::new().open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_wait_leaves_the_queue() {
    let part = Part::new();
    cancels::a_dropped_wait(&part.open(), &part.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_conversion_commit_or_release_can_be_released() {
    cancels::a_dropped_change(&Part::new().open()).await;
}

/// The leases of a client that has gone are over before long, also those of dropped requests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_dropped_leaves_no_key_with_a_lease() {
    let part = Part::new();
    let mut turns = Polls::new();
    while let Some(polls) = turns.next() {
        let store = part.open();
        turns.drop_after(attempt(&store, &claim(format!("{polls}")), seconds(2))).await;
    }
    let limit = Duration::from_secs(30);
    eventually_async("all leases are over", limit, async || {
        let (server, prefix) = (part.server, part.folder());
        let leases = tokio::task::spawn_blocking(move || server.leases_of(&prefix)).await.unwrap();
        leases.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_renewal_ends_no_lease() {
    let part = Part::new();
    cancels::a_dropped_renewal(&part.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_the_next_request_can_be_dropped() {
    let part = Part::new();
    cancels::a_dropped_requeue(&part.open(), &part.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_given_up_after_any_poll_is_free_for_another_process() {
    let part = Part::new();
    cancels::a_dropped_lock(part.open(), part.open()).await;
}
