//! Semaphores.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::{Error, ErrorKind};
use lock_sync::{AcquireError, Declaration, DestroyError, Semaphore, TryAcquireError};
use tokio::task::{JoinSet, yield_now};

use super::{Counting, LIMIT, Pair, waits};
use crate::{SOON, eventually_async, soon};

impl<S: Counting> Pair<S> {
    /// The semaphore "it" on both sides.
    pub(super) fn semaphores(&self, permits: usize) -> (Semaphore, Semaphore) {
        self.both(|locks| locks.semaphore("it", permits).unwrap())
    }
}

/// Waits until the store says that this many permits are free.
pub(super) async fn until_free(semaphore: &Semaphore, permits: usize) {
    let free = async || semaphore.available_permits().await.unwrap() == permits;
    eventually_async(&format!("{permits} permits are free"), SOON, free).await;
}

pub(super) async fn assert_none_is_free(semaphores: &[&Semaphore]) {
    for semaphore in semaphores {
        let refused = soon(semaphore.try_acquire()).await.err();
        assert_eq!(refused, Some(TryAcquireError::NoPermits));
    }
}

/// The other client cannot have a permit that one client has.
pub async fn permits_are_counted_over_both_clients<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(3);
    let two = soon(here.acquire_many(2)).await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), 1);
    let one = soon(there.acquire()).await.unwrap();
    assert_none_is_free(&[&here, &there]).await;
    two.release().await.unwrap();
    assert_eq!(there.try_acquire_many(3).await.err(), Some(TryAcquireError::NoPermits));
    let more = there.try_acquire_many(2).await.unwrap();
    assert_eq!((one.num_permits(), more.num_permits()), (1, 2));
    drop((one, more));
    pair.all_free().await;
}

/// A query comes after all that this client has given back, without a pause.
pub async fn a_client_counts_what_it_has_given_back<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let semaphore = pair.here.semaphore("it", 5).unwrap();
    let free = async || soon(semaphore.available_permits()).await.unwrap();
    let mut permit = soon(semaphore.acquire_many(4)).await.unwrap();
    drop(permit.split(1).unwrap());
    assert_eq!(free().await, 2);
    permit.merge(soon(semaphore.acquire()).await.unwrap());
    drop(permit);
    assert_eq!(free().await, 5);
    soon(semaphore.acquire_many(2)).await.unwrap().forget();
    assert_eq!(free().await, 3);
}

/// Callers that come one after another get all permits and no more.
pub async fn a_semaphore_has_as_many_permits_as_were_declared<S: Counting>() {
    for limit in [1, 2, 7] {
        let pair = Pair::<S>::new().await;
        let (here, there) = pair.semaphores(limit);
        let mut permits = Vec::new();
        for number in 0..limit {
            let from = if number % 2 == 0 { &here } else { &there };
            permits.push(soon(from.try_acquire()).await.unwrap());
            let left = soon(from.available_permits()).await.unwrap();
            assert_eq!(left, limit - number - 1);
        }
        assert_none_is_free(&[&here, &there]).await;
        permits.clear();
        let all = u32::try_from(limit).unwrap();
        drop(soon(there.acquire_many(all)).await.unwrap());
        // A request for more permits than there are waits.
        let waited = soon(here.acquire_many_timeout(all + 1, LIMIT)).await;
        assert_eq!(waited.err(), Some(AcquireError::Timeout { source: None }));
        pair.all_free().await;
    }
}

/// The waiter of another client gets the permit, with a higher token.
pub async fn a_permit_that_is_given_back_wakes_a_waiter<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(1);
    let permit = soon(here.acquire()).await.unwrap();
    let token = permit.lease().fencing_token();
    let mut waiting = Box::pin(there.acquire());
    waits(&mut waiting).await;
    drop(permit);
    let permit = soon(waiting).await.unwrap();
    assert!(permit.lease().fencing_token() > token);
    drop(permit);
    pair.all_free().await;
}

/// The client that dropped permits gets them by a try, although the release is still under way.
pub async fn permits_that_were_dropped_are_free_for_a_try<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(2);
    for _ in 0..500 {
        drop(here.try_acquire_many(2).await.unwrap());
    }
    drop(soon(there.acquire_many(2)).await.unwrap());
    pair.all_free().await;
}

/// After a release returns, the other client gets the released part by a try.
pub async fn a_part_that_was_released_is_free_at_once<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(3);
    for _ in 0..50 {
        let mut permit = soon(here.acquire_many(3)).await.unwrap();
        let part = permit.split(2).unwrap();
        soon(part.release()).await.unwrap();
        let theirs = soon(there.try_acquire_many(2)).await.unwrap();
        assert_none_is_free(&[&there]).await;
        assert!(permit.lease().is_valid() && theirs.lease().is_valid());
        // Their release may be under way when they try in the next round.
        drop(theirs);
        drop(permit);
    }
    pair.all_free().await;
}

/// A client that declares another number is refused with an error that names both numbers.
pub async fn the_first_client_says_how_many_there_are<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let here = pair.here.semaphore("it", 31).unwrap();
    let there = pair.there.semaphore("it", 57).unwrap();
    let permit = soon(here.acquire()).await.unwrap();
    let names_both = |error: &Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let text = error.to_string();
        assert!(text.contains("31") && text.contains("57"), "{text}");
    };
    let assert_refused = async || {
        match soon(there.acquire()).await {
            Err(AcquireError::Backend(error)) => names_both(&error),
            other => panic!("{other:?}"),
        }
        match soon(there.try_acquire_many(56)).await {
            Err(TryAcquireError::Backend(error)) => names_both(&error),
            other => panic!("{other:?}"),
        }
        names_both(&soon(there.available_permits()).await.unwrap_err());
        names_both(&soon(there.add_permits(1)).await.unwrap_err());
        names_both(&soon(there.forget_permits(1)).await.unwrap_err());
        names_both(&soon(there.close_for_all()).await.unwrap_err());
        assert!(!there.is_closed());
    };
    assert_refused().await;
    assert!(permit.lease().is_valid());
    assert_eq!(soon(here.available_permits()).await.unwrap(), 30);
    soon(permit.release()).await.unwrap();
    assert_refused().await;
    assert_eq!(soon(here.available_permits()).await.unwrap(), 31);
    pair.all_free().await;
}

/// The last number that a client declares counts for all clients, and the clients with the earlier number go on.
pub async fn the_last_declaration_wins<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let old = pair.here.semaphore("it", 2).unwrap();
    let new = pair.there.semaphore("it", 3).unwrap().with_declaration(Declaration::LastWins);
    let held = soon(old.acquire_many(2)).await.unwrap();
    let mut waiting = Box::pin(old.acquire());
    waits(&mut waiting).await;
    // The first question of the new client declares its number. A permit is there for the waiter.
    soon(new.is_closed_for_all()).await.unwrap();
    let third = soon(waiting).await.unwrap();
    assert_none_is_free(&[&old, &new]).await;
    drop((held, third));
    until_free(&old, 3).await;
    // A third number is still a mistake, unless its client says otherwise.
    let other = pair.here.semaphore("it", 57).unwrap();
    match soon(other.try_acquire()).await {
        Err(TryAcquireError::Backend(error)) => assert_eq!(error.kind(), ErrorKind::InvalidConfig),
        other => panic!("{other:?}"),
    }
    let other = other.with_declaration(Declaration::LastWins);
    let permit = soon(other.try_acquire_many(57)).await.unwrap();
    assert_none_is_free(&[&old, &new, &other]).await;
    drop(permit);
    until_free(&new, 57).await;
    pair.all_free().await;
}

/// A smaller number takes no permit from its holder, and none is granted until there is room.
pub async fn a_smaller_number_ends_no_permit<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let old = pair.here.semaphore("it", 4).unwrap();
    let new = pair.there.semaphore("it", 2).unwrap().with_declaration(Declaration::LastWins);
    let first = soon(old.acquire_many(2)).await.unwrap();
    let mut second = soon(old.acquire_many(2)).await.unwrap();
    let mut waiting = Box::pin(new.acquire());
    waits(&mut waiting).await;
    assert_none_is_free(&[&old, &new]).await;
    assert!(first.lease().is_valid() && second.lease().is_valid());
    soon(first.release()).await.unwrap();
    waits(&mut waiting).await;
    assert!(second.lease().is_valid());
    soon(second.split(1).unwrap().release()).await.unwrap();
    let granted = soon(waiting).await.unwrap();
    assert_none_is_free(&[&old, &new]).await;
    drop((second, granted));
    until_free(&old, 2).await;
    pair.all_free().await;
}

/// While processes with two numbers run, each keeps to the greater number at most, and all permits come back.
pub async fn processes_with_two_numbers_run_side_by_side<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for worker in 0..8 {
        let (locks, size) = if worker % 2 == 0 { (&pair.here, 3) } else { (&pair.there, 5) };
        let pool = locks.semaphore("it", size).unwrap().with_declaration(Declaration::LastWins);
        let inside = Arc::clone(&inside);
        workers.spawn(async move {
            for _ in 0..20 {
                let permit = pool.acquire().await.unwrap();
                let others = inside.fetch_add(1, Ordering::AcqRel);
                assert!(others < 5, "{others} others");
                yield_now().await;
                inside.fetch_sub(1, Ordering::AcqRel);
                drop(permit);
            }
        });
    }
    workers.join_all().await;
    let last = pair.here.semaphore("it", 4).unwrap().with_declaration(Declaration::LastWins);
    until_free(&last, 4).await;
    pair.all_free().await;
}

/// Handles of one name take from one number of permits, and their permits can be merged.
pub async fn two_handles_of_one_client_are_one_semaphore<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (one, there) = pair.semaphores(2);
    let (other, _) = pair.semaphores(2);
    let mut permit = soon(one.acquire()).await.unwrap();
    let second = soon(other.acquire()).await.unwrap();
    assert_none_is_free(&[&one, &other, &there]).await;
    permit.merge(second);
    assert_eq!(permit.num_permits(), 2);
    let part = permit.split(1).unwrap();
    drop(permit);
    let theirs = soon(there.acquire()).await.unwrap();
    assert!(part.lease().is_valid() && theirs.lease().is_valid());
    drop((part, theirs));
    pair.all_free().await;
}

/// Permits that a client adds serve the waiter of another client. More than there can be are refused.
pub async fn added_permits_are_for_both_clients<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(1);
    let held = soon(here.acquire()).await.unwrap();
    let mut waiting = Box::pin(there.acquire());
    waits(&mut waiting).await;
    here.add_permits(2).await.unwrap();
    let granted = soon(waiting).await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), 1);
    drop(held);
    until_free(&there, 2).await;
    let refused = there.add_permits(u32::MAX as usize).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidConfig);
    assert_eq!(here.available_permits().await.unwrap(), 2, "nothing was added");
    drop(granted);
    pair.all_free().await;
}

/// A semaphore without permits serves its waiters once permits are added.
pub async fn a_semaphore_may_begin_without_permits<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(0);
    assert_eq!(here.available_permits().await.unwrap(), 0);
    assert_none_is_free(&[&here]).await;
    let mut waiting = Box::pin(there.acquire());
    waits(&mut waiting).await;
    here.add_permits(1).await.unwrap();
    let permit = soon(waiting).await.unwrap();
    assert_none_is_free(&[&here]).await;
    permit.release().await.unwrap();
    assert!(here.try_acquire().await.is_ok());
    pair.all_free().await;
}

/// A client takes out free permits, and leaves those that are held.
pub async fn free_permits_alone_can_be_taken_out<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(5);
    let held = soon(here.acquire_many(2)).await.unwrap();
    assert_eq!(there.forget_permits(2).await.unwrap(), 2);
    assert_eq!(there.forget_permits(usize::MAX).await.unwrap(), 1);
    assert_eq!(there.forget_permits(1).await.unwrap(), 0);
    held.release().await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), 2, "those that were held are left");
    pair.all_free().await;
}

/// After one client destroys a semaphore, the other one declares another number.
pub async fn a_destroyed_semaphore_is_declared_anew<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let three = pair.here.semaphore("it", 3).unwrap();
    let permit = soon(three.acquire()).await.unwrap();
    let error = soon(pair.there.destroy("it")).await.unwrap_err();
    assert!(matches!(error, DestroyError::InUse(_)), "{error:?}");
    drop(permit);
    soon(three.close_for_all()).await.unwrap();
    let five = pair.there.semaphore("it", 5).unwrap();
    assert!(soon(five.acquire()).await.is_err());
    soon(pair.here.destroy("it")).await.unwrap();
    let (three, five) = (pair.here.semaphore("it", 3), pair.there.semaphore("it", 5));
    let (three, five) = (three.unwrap(), five.unwrap());
    drop(soon(five.acquire_many(5)).await.unwrap());
    assert!(soon(three.acquire()).await.is_err(), "the number is five now");
    pair.all_free().await;
}

/// Forgotten permits are gone for both clients.
pub async fn a_forgotten_permit_never_comes_back<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.semaphores(4);
    let mut permit = soon(here.acquire_many(3)).await.unwrap();
    permit.split(2).unwrap().forget();
    drop(permit);
    until_free(&there, 2).await;
    let (owned, _) = pair.both(|locks| Arc::new(locks.semaphore("it", 4).unwrap()));
    soon(owned.acquire_owned()).await.unwrap().forget();
    until_free(&there, 1).await;
    pair.all_free().await;
    assert_eq!(there.available_permits().await.unwrap(), 1);
    assert!(there.try_acquire().await.is_ok());
    pair.all_free().await;
}

/// Tasks of both clients take one to three permits, and release a part before the rest.
pub async fn there_are_never_more_holders_than_permits<S: Counting>() {
    const PERMITS: usize = 5;
    let pair = Pair::<S>::new().await;
    let inside = Arc::new(AtomicUsize::new(0));
    let (here, there) = pair.both(|locks| Arc::new(locks.semaphore("it", PERMITS).unwrap()));
    let mut tasks = JoinSet::new();
    for semaphore in [&here, &there] {
        for task in 0..8_usize {
            let (semaphore, inside) = (Arc::clone(semaphore), Arc::clone(&inside));
            tasks.spawn(async move {
                for round in 0..40 {
                    take_in_parts(&semaphore, &inside, 1 + (task + round) % 3, PERMITS).await;
                }
            });
        }
    }
    tasks.join_all().await;
    pair.all_free().await;
    assert_eq!(here.available_permits().await.unwrap(), PERMITS);
}

async fn take_in_parts(semaphore: &Semaphore, inside: &AtomicUsize, take: usize, of: usize) {
    let mut permit = semaphore.acquire_many(u32::try_from(take).unwrap()).await.unwrap();
    let before = inside.fetch_add(take, Ordering::SeqCst);
    assert!(before + take <= of, "{before} and {take} more");
    yield_now().await;
    assert!(permit.lease().is_valid());
    let mut left = take;
    if let Some(part) = permit.split(1) {
        left -= 1;
        inside.fetch_sub(1, Ordering::SeqCst);
        drop(part);
        yield_now().await;
    }
    inside.fetch_sub(left, Ordering::SeqCst);
}
