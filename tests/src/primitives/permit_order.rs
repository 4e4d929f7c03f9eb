//! The order in which requests get permits, and semaphores that are closed.

use lock_sync::{AcquireError, TryAcquireError};

use super::permits::{assert_none_is_free, until_free};
use super::{Counting, Pair, waits, waits_in_line};
use crate::soon;

/// Requests for few permits wait behind a request for many, although there are permits for them.
pub async fn a_large_request_is_not_overtaken<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await.semaphore("it", 3).unwrap();
    let (here, there) = pair.semaphores(3);
    let mine = soon(here.acquire()).await.unwrap();
    let theirs = soon(there.acquire()).await.unwrap();
    let mut large = Box::pin(here.acquire_many(3));
    waits_in_line(&mut large, &pair.there, 1).await;
    // One permit is free, and kept for the first waiter.
    assert_none_is_free(&[&here, &there, &third]).await;
    let (mut small, mut other) = (Box::pin(there.acquire()), Box::pin(third.acquire_many(2)));
    waits(&mut small).await;
    waits(&mut other).await;
    soon(mine.release()).await.unwrap();
    assert_none_is_free(&[&here, &there, &third]).await;
    waits(&mut small).await;
    waits(&mut other).await;
    waits(&mut large).await;
    soon(theirs.release()).await.unwrap();
    let large = soon(large).await.unwrap();
    let token = large.lease().fencing_token();
    assert_eq!(large.num_permits(), 3);
    waits(&mut small).await;
    waits(&mut other).await;
    drop(large);
    for permit in [soon(small).await.unwrap(), soon(other).await.unwrap()] {
        assert!(permit.lease().is_valid() && permit.lease().fencing_token() > token);
    }
    pair.all_free().await;
}

/// Later requests, of every client, get the permits that a request for many had gathered when it was dropped.
pub async fn what_a_dropped_request_had_gathered_serves_later_ones<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let third = pair.third().await.semaphore("it", 4).unwrap();
    let (here, there) = pair.semaphores(4);
    let held = soon(there.acquire_many(2)).await.unwrap();
    let mut large = Box::pin(here.acquire_many(4));
    waits_in_line(&mut large, &pair.there, 1).await;
    let mut far = Box::pin(third.acquire());
    waits_in_line(&mut far, &pair.there, 2).await;
    let mut near = Box::pin(here.acquire());
    waits(&mut near).await;
    drop(large);
    let served = [soon(near).await.unwrap(), soon(far).await.unwrap()];
    assert_none_is_free(&[&here, &there, &third]).await;
    assert!(held.lease().is_valid());
    drop(served);
    until_free(&here, 2).await;
    drop(held);
    pair.all_free().await;
}

/// All waiters hear that a semaphore is closed, and no later request gets a permit. Permits that are held stay.
pub async fn closing_for_all_ends_it_everywhere<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(2);
    let (_, beside) = pair.semaphores(2);
    let held = [soon(here.acquire()).await.unwrap(), soon(there.acquire()).await.unwrap()];
    let mut waiting = [
        Box::pin(here.acquire()),
        Box::pin(here.acquire_many(2)),
        Box::pin(there.acquire()),
        Box::pin(beside.acquire()),
    ];
    for request in &mut waiting {
        waits(request).await;
    }
    soon(there.close_for_all()).await.unwrap();
    assert!(there.is_closed());
    for request in waiting {
        assert_eq!(soon(request).await.err(), Some(AcquireError::Closed));
    }
    assert!(here.is_closed() && beside.is_closed(), "they have heard of it");
    assert_eq!(soon(here.acquire()).await.err(), Some(AcquireError::Closed));
    let (stranger, _) = pair.semaphores(2);
    assert!(stranger.is_closed(), "the handles of a client know the same");
    assert!(soon(stranger.is_closed_for_all()).await.unwrap() && stranger.is_closed());
    assert_eq!(soon(stranger.try_acquire()).await.err(), Some(TryAcquireError::Closed));
    assert!(stranger.is_closed());
    assert_eq!(soon(stranger.available_permits()).await.unwrap(), 0);
    for permit in held {
        assert!(permit.lease().is_valid());
        soon(permit.release()).await.unwrap();
    }
    soon(there.close_for_all()).await.unwrap();
    pair.all_free().await;
}
