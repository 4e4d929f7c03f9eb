//! A stored value whose lease is lost.

use lock_core::memory::Verb;
use lock_sync::{CommitError, LossReason, SaveError, StoredMutexGuard};

use crate::stored::short;
use crate::support::poll_once;

#[tokio::test(start_paused = true)]
async fn a_commit_under_a_lost_lease_changes_nothing_and_returns_the_value() {
    let pair = short();
    let (here, there) = pair.stored();
    there.update(|value| *value = 5).await.unwrap();
    let mut guard = here.lock().await.unwrap();
    *guard = 6;
    pair.ours.faults().cut();
    // The other process gets the lock when the lease has ended.
    let successor = there.lock().await.unwrap();
    pair.ours.faults().heal();
    assert!(matches!(guard.save().await, Err(SaveError::Lost(_))));
    let Err(error) = guard.commit().await else { panic!() };
    let CommitError::Lost { value: 6, source } = error else { panic!("{error:?}") };
    assert_eq!(source.reason(), LossReason::Expired);
    assert_eq!(pair.kept().await.map(|cell| cell.value), Some(b"5".to_vec()));
    assert!(
        StoredMutexGuard::lease(&successor).is_valid(),
        "the lease of the next holder is not affected"
    );
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_does_not_know_of_its_loss_stores_nothing() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    *guard = 6;
    pair.store.forget();
    let mut successor = there.lock().await.unwrap();
    assert!(StoredMutexGuard::lease(&guard).is_valid(), "it has not heard of the loss");
    let Err(CommitError::Lost { value: 6, .. }) = guard.commit().await else { panic!() };
    assert_eq!(pair.kept().await, None);
    *successor = 7;
    successor.commit().await.unwrap();
    assert_eq!(here.snapshot().await.unwrap().value, 7);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_the_store_does_not_know_goes_to_no_other_task() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.store.forget();
    let theirs = there.lock().await.unwrap();
    *guard = 6;
    assert!(matches!(guard.save().await, Err(SaveError::Lost(_))));
    drop(guard);
    assert!(poll_once(waiting.as_mut()).await.is_pending(), "two holders");
    drop(theirs);
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_save_finds_the_lease_lost_hears_of_that_at_once() {
    // Without an answer to the first request, the second finds the lease lost.
    for without_answer in [0, 1] {
        let pair = short();
        let (here, _there) = pair.stored();
        let mut guard = here.lock().await.unwrap();
        let lease = StoredMutexGuard::lease(&guard);
        let mut losing = Box::pin(lease.lost());
        assert!(poll_once(losing.as_mut()).await.is_pending());
        pair.store.forget();
        pair.ours.faults().on(Verb::Cell).lose_replies(without_answer);
        let Err(SaveError::Lost(lost)) = guard.save().await else { panic!() };
        assert_eq!(lost.reason(), LossReason::Revoked);
        assert!(!lease.is_valid(), "the lease is valid until its next renewal");
        assert_eq!(losing.await.reason(), LossReason::Revoked);
    }
}
