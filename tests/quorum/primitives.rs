//! What is made of leases works over a quorum as over one server: for two clients each, as far apart as two
//! processes are.
//!
//! Their leases are far longer than any test waits, so whoever waits for a release is told of it.

use std::time::Duration;

use lock_sync::{LockError, LossReason, OnceCell, TryAcquireError, TryLockError};

use crate::support::{Client, LONG, Nodes, soon};

/// How long to watch what must not happen.
const MEANWHILE: Duration = Duration::from_millis(200);

async fn pair() -> (Nodes, Client, Client) {
    let nodes = Nodes::shared(3).await;
    let client = async || Client::with(&nodes, |quorum| quorum, |locks| locks.ttl(LONG)).await;
    let (here, there) = (client().await, client().await);
    (nodes, here, there)
}

/// Goes on with something for a while, in which it must not come to its end.
async fn waits<F: Future + Unpin>(waiting: &mut F) {
    let over = tokio::time::timeout(MEANWHILE, waiting).await;
    assert!(over.is_err(), "it has not waited");
}

#[tokio::test]
async fn a_mutex_is_handed_over() {
    let (_nodes, here, there) = pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    let limited = there.mutex().lock_owned_timeout(MEANWHILE).await;
    assert!(matches!(limited, Err(LockError::Timeout { source: None })), "{limited:?}");

    let mut waiting = Box::pin(there.mutex().lock_owned());
    waits(&mut waiting).await;
    let first = guard.fencing_token();
    guard.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert!(guard.fencing_token() > first && guard.is_valid());
    assert!(matches!(here.try_lock().await, Err(TryLockError::WouldBlock)));

    // One that is dropped is given back as well, a moment later.
    let mut waiting = Box::pin(here.mutex().lock_owned());
    waits(&mut waiting).await;
    drop(guard);
    drop(soon(waiting).await.unwrap());
}

#[tokio::test]
async fn a_future_that_is_dropped_leaves_nothing_behind() {
    let (_nodes, here, there) = pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    let mut given_up = Box::pin(there.mutex().lock_owned());
    waits(&mut given_up).await;
    drop(given_up);
    guard.release().await.unwrap();
    soon(here.mutex().lock_owned()).await.unwrap().release().await.unwrap();
    soon(there.mutex().lock_owned()).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_lock_that_is_forced_open_is_lost() {
    let (_nodes, here, there) = pair().await;
    let guard = soon(here.mutex().lock_owned()).await.unwrap();
    let seen = there.locks.inspect("it").await.unwrap();
    assert_eq!((seen.holding, seen.holders[0].token), (1, Some(guard.fencing_token())));
    let mut waiting = Box::pin(there.mutex().lock_owned());
    waits(&mut waiting).await;
    assert_eq!(there.locks.force_release("it").await.unwrap(), 1);
    let next = soon(waiting).await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert_eq!(soon(guard.lost()).await.reason(), LossReason::Revoked);
}

#[tokio::test]
async fn readers_share_and_a_writer_does_not() {
    let (_nodes, here, there) = pair().await;
    let [ours, theirs] = [&here, &there].map(|client| client.locks.rwlock("it", ()).unwrap());
    let read = soon(ours.read()).await.unwrap();
    let beside = soon(theirs.read()).await.unwrap();
    assert!(matches!(theirs.try_write().await, Err(TryLockError::WouldBlock)));
    let mut writing = Box::pin(theirs.write());
    waits(&mut writing).await;
    read.release().await.unwrap();
    waits(&mut writing).await;
    beside.release().await.unwrap();
    let write = soon(writing).await.unwrap();
    assert!(matches!(ours.try_read().await, Err(TryLockError::WouldBlock)));

    // Nobody else can have written when it reads.
    let mut other = Box::pin(ours.write());
    waits(&mut other).await;
    let read = write.downgrade();
    waits(&mut other).await;
    read.release().await.unwrap();
    soon(other).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_downgrade_admits_the_readers_of_its_process_alone() {
    let (_nodes, here, there) = pair().await;
    let [ours, theirs] = [&here, &there].map(|client| client.locks.rwlock("it", ()).unwrap());
    let writing = soon(ours.write()).await.unwrap();
    let mut waiting = Box::pin(ours.read());
    waits(&mut waiting).await;
    let mut reader = Box::pin(theirs.read());
    waits(&mut reader).await;
    let token = writing.fencing_token();
    let reading = writing.downgrade();
    let beside = soon(waiting).await.unwrap();
    assert!(reading.is_valid() && beside.is_valid());
    let mut other = Box::pin(theirs.write());
    waits(&mut other).await;
    reading.release().await.unwrap();
    // Until the last reader has gone, it is one exclusive lease.
    waits(&mut reader).await;
    assert!(matches!(theirs.try_read().await, Err(TryLockError::WouldBlock)));
    beside.release().await.unwrap();
    assert!(soon(reader).await.unwrap().fencing_token() > token);
    soon(other).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn all_of_several_locks_or_none() {
    let (_nodes, here, there) = pair().await;
    let all = soon(here.locks.lock_all(["c", "a", "b"])).await.unwrap();
    assert!(matches!(there.locks.try_lock_all(["d", "b"]).await, Err(TryLockError::WouldBlock)));
    // It has not kept the one that was free.
    let rest = soon(here.locks.lock_all(["d"])).await.unwrap();
    let mut waiting = Box::pin(there.locks.lock_all(["b", "d"]));
    waits(&mut waiting).await;
    let before: Vec<_> = all.fencing_tokens().map(|(_, token)| token).collect();
    all.release().await.unwrap();
    waits(&mut waiting).await;
    rest.release().await.unwrap();
    let next = soon(waiting).await.unwrap();
    for (key, token) in next.fencing_tokens().filter(|(key, _)| key.as_bytes() == b"b") {
        assert!(token > before[1], "{key}: {token} came after {}", before[1]);
    }
}

#[tokio::test]
async fn one_computes_and_all_read() {
    let (_nodes, here, there) = pair().await;
    let ours: OnceCell<u32> = here.locks.once_cell("it").unwrap();
    let theirs: OnceCell<u32> = there.locks.once_cell("it").unwrap();
    assert_eq!(theirs.load().await.unwrap(), None);
    let (begin, begun) = tokio::sync::oneshot::channel();
    let (end, ended) = tokio::sync::oneshot::channel();
    let compute = ours.get_or_init(async || {
        begin.send(()).unwrap();
        ended.await.unwrap()
    });
    let follow = async {
        begun.await.unwrap();
        let mut late = Box::pin(theirs.get_or_init(async || 8));
        waits(&mut late).await;
        end.send(7).unwrap();
        *late.await.unwrap()
    };
    let (first, second) = soon(async { tokio::join!(compute, follow) }).await;
    assert_eq!((*first.unwrap(), second), (7, 7));
}

#[tokio::test]
async fn one_leads_and_the_others_see_who() {
    let (_nodes, here, there) = pair().await;
    let [ours, theirs] = [&here, &there].map(|client| client.locks.election("it").unwrap());
    let first = soon(ours.campaign("first")).await.unwrap();
    let seen = theirs.leader().await.unwrap().unwrap();
    assert_eq!((&seen.value[..], seen.token), (&b"first"[..], first.fencing_token()));
    let mut candidate = Box::pin(theirs.campaign("second"));
    waits(&mut candidate).await;
    let before = first.fencing_token();
    first.resign().await.unwrap();
    let second = soon(candidate).await.unwrap();
    let seen = ours.leader().await.unwrap().unwrap();
    assert_eq!((&seen.value[..], seen.token), (&b"second"[..], second.fencing_token()));
    assert!(second.fencing_token() > before);
}

#[tokio::test]
async fn slots_make_a_semaphore() {
    let (_nodes, here, there) = pair().await;
    let [ours, theirs] = [&here, &there].map(|client| {
        // Two of them: as many as a quorum of three would give to three holders if it counted.
        client.locks.slot_semaphore("it", 2).unwrap()
    });
    let one = soon(ours.acquire()).await.unwrap();
    let other = soon(theirs.acquire()).await.unwrap();
    assert_ne!(one.slot(), other.slot());
    for semaphore in [&ours, &theirs] {
        let third = semaphore.try_acquire().await.map(drop);
        assert_eq!(third, Err(TryAcquireError::NoPermits));
    }
    let mut waiting = Box::pin(theirs.acquire());
    waits(&mut waiting).await;
    let (slot, token) = (one.slot(), one.fencing_token());
    one.release().await.unwrap();
    let next = soon(waiting).await.unwrap();
    assert_eq!(next.slot(), slot);
    assert!(next.fencing_token() > token);
}
