//! Servers reckon leases by a clock that an operator may set.

use lock_sync::{OwnedMutexGuard, TryLockError};
use tokio::time::Instant;

use crate::support::{Client, Clocks, LEASE, LONG, MAX_TTL, SOON, soon};

#[tokio::test]
async fn a_clock_that_is_set_forward_costs_one_vote() {
    let clocks = Clocks::of(3, MAX_TTL).await;
    let (here, there) = clocks.nodes.pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    // Two of three are enough to hold it, but not if one of these two then forgets it.
    clocks.nodes.until_held_on(&[0, 1, 2]).await;
    clocks.set(0, true);
    // The holder has the lock there again with its next renewal, and no other client has a majority meanwhile.
    let begin = Instant::now();
    while begin.elapsed() < LEASE * 2 {
        assert!(there.try_lock().await.is_err(), "there are two holders");
        assert!(OwnedMutexGuard::lease(&guard).is_valid());
        tokio::task::yield_now().await;
    }
    let mut last = OwnedMutexGuard::lease(&guard).fencing_token();
    OwnedMutexGuard::release(guard).await.unwrap();
    // Back again: to where its tokens are in the future.
    clocks.set(0, false);
    for client in [&there, &here, &there] {
        let guard = soon(client.mutex().lock_owned_timeout(SOON)).await.unwrap();
        assert!(
            OwnedMutexGuard::lease(&guard).fencing_token() > last,
            "{} came after {last}",
            OwnedMutexGuard::lease(&guard).fencing_token()
        );
        last = OwnedMutexGuard::lease(&guard).fencing_token();
        OwnedMutexGuard::release(guard).await.unwrap();
    }
}

#[tokio::test]
async fn a_clock_that_is_set_back_delays_no_client() {
    let clocks = Clocks::of(3, MAX_TTL).await;
    let idle = Client::idle(&clocks.nodes).await;
    let there = Client::new(&clocks.nodes).await;
    let guard = soon(idle.mutex().lock_owned()).await.unwrap();
    // There the lease lives for another hour.
    clocks.set(0, false);
    let next = soon(there.mutex().lock_owned_timeout(SOON)).await.unwrap();
    assert!(!OwnedMutexGuard::lease(&guard).is_valid(), "there are two holders");
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token()
            > OwnedMutexGuard::lease(&guard).fencing_token()
    );
}

/// What no lock with leases can promise, and what this one promises even so.
#[tokio::test]
async fn when_a_majority_of_clocks_is_set_forward_only_tokens_tell_two_holders_apart() {
    let clocks = Clocks::of(3, LONG).await;
    let idle = Client::idle(&clocks.nodes).await;
    let there = Client::new(&clocks.nodes).await;
    let guard = soon(idle.mutex().lock_owned()).await.unwrap();
    // A node that gets the lease after its clock is set does not forget the lease. A node that has not voted yet may
    // vote for the other client, and this holder does not renew.
    clocks.nodes.until_held_on(&[0, 1, 2]).await;
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let begin = Instant::now();
    clocks.set(0, true);
    clocks.set(1, true);
    let next = there.try_lock().await.unwrap();
    assert!(
        OwnedMutexGuard::lease(&guard).is_valid() && OwnedMutexGuard::lease(&next).is_valid(),
        "after {:?}",
        begin.elapsed()
    );
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token()
            > OwnedMutexGuard::lease(&guard).fencing_token()
    );
}
