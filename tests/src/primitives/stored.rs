//! A mutex whose value is stored beside the lock.

use futures::StreamExt;
use lock_sync::{CommitError, StoredMutexGuard};
use tokio::task::JoinSet;

use super::mortal::Mortal;
use super::{Pair, SHORT, Stage, waits};
use crate::soon;

/// Two clients change one value again and again, and no change is lost.
pub async fn no_committed_change_is_lost<S: Stage>() {
    const EACH: u32 = 15;
    let pair = Pair::<S>::new().await;
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let locks = if task % 2 == 0 { &pair.here } else { &pair.there };
        let counter = locks.stored_mutex("it", 0_u32).unwrap();
        tasks.spawn(async move {
            for _ in 0..EACH {
                counter.update(|count| *count += 1).await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    let counter = pair.third().await.stored_mutex("it", 0_u32).unwrap();
    assert_eq!(soon(counter.snapshot()).await.unwrap().value, 4 * EACH);
}

/// A guard that is dropped changes nothing, and the token of a commit is the version of its value. A later holder may
/// give the value a higher version, if it found the value on too few nodes of a quorum.
pub async fn only_a_commit_changes_the_value<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.stored_mutex("it", vec![1]).unwrap());
    soon(ours.lock()).await.unwrap().push(2);
    let mut guard = soon(theirs.lock()).await.unwrap();
    assert_eq!((&guard[..], StoredMutexGuard::version(&guard)), (&[1][..], None));
    guard.push(3);
    let token = StoredMutexGuard::lease(&guard).fencing_token();
    let version = soon(guard.commit()).await.unwrap();
    assert_eq!(version, token);
    for mutex in [&ours, &theirs] {
        let snapshot = soon(mutex.snapshot()).await.unwrap();
        assert_eq!(snapshot.value, [1, 3]);
        assert!(snapshot.version >= Some(version));
    }
    let mut guard = soon(ours.lock()).await.unwrap();
    assert!(StoredMutexGuard::version(&guard) >= Some(version));
    guard.clear();
    let saved = soon(guard.save()).await.unwrap();
    assert!(saved > version);
    guard.push(9);
    drop(guard);
    let guard = soon(theirs.lock()).await.unwrap();
    assert!(guard.is_empty() && StoredMutexGuard::version(&guard) >= Some(saved));
}

/// The value that a holder commits reaches the client that waits for the lock, whether it is small or large.
pub async fn a_waiting_client_gets_the_committed_value<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.stored_mutex("it", String::new()).unwrap());
    for length in [1, 5_000, 10, 60_000, 0] {
        let text = "x".repeat(length);
        let mut guard = soon(ours.lock()).await.unwrap();
        let mut next = Box::pin(theirs.lock());
        waits(&mut next).await;
        guard.clone_from(&text);
        soon(guard.commit()).await.unwrap();
        let guard = soon(next).await.unwrap();
        assert!(*guard == text, "{} bytes instead of {length}", guard.len());
    }
}

/// A subscriber gets no version twice, and the latest version in the end.
pub async fn a_subscriber_ends_at_the_latest_version<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.stored_mutex("it", 0_u32).unwrap());
    let mut versions = theirs.subscribe();
    let mut last = None;
    for round in 1..=10 {
        soon(ours.update(|count| *count = round)).await.unwrap();
        if round % 4 == 0 {
            let item = soon(versions.next()).await.unwrap().unwrap();
            assert!(item.version > last, "{item:?} after {last:?}");
            last = item.version;
        }
    }
    loop {
        let snapshot = soon(theirs.snapshot()).await.unwrap();
        if snapshot.version == last {
            assert_eq!(snapshot.value, 10);
            break;
        }
        last = soon(versions.next()).await.unwrap().unwrap().version;
    }
}

/// A holder that has lost its lease stores nothing, and the next holder finds the value as it was.
pub async fn a_dead_client_commits_nothing<S: Stage>() {
    let pair = Pair::<S>::with(|locks| locks.ttl(SHORT)).await;
    let mortal = Mortal::of(&pair.stage).await;
    let dying = mortal.locks.stored_mutex("it", 1_u32).unwrap();
    let mut guard = soon(dying.lock()).await.unwrap();
    *guard = 2;
    let next = pair.here.stored_mutex("it", 1_u32).unwrap();
    let mut next = Box::pin(next.lock());
    waits(&mut next).await;
    drop(mortal);
    let guard_of_next = soon(next).await.unwrap();
    assert_eq!(*guard_of_next, 1);
    let Err(error) = soon(guard.commit()).await else { panic!("it had lost its lease") };
    assert!(matches!(error, CommitError::Lost { value: 2, .. }), "{error:?}");
    drop(guard_of_next);
    let mutex = pair.there.stored_mutex("it", 1_u32).unwrap();
    assert_eq!(*soon(mutex.lock()).await.unwrap(), 1);
}
