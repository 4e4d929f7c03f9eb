//! A mutex whose value is stored beside the lock.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use lock_core::memory::Verb;
use lock_core::{ErrorKind, FencingToken};
use lock_sync::{Bytes, Codec, CodecError, CommitError, Handoff, LockError, SaveError};
use lock_sync::{StoredMutex, StoredMutexGuard, StoredUpdateError, TryLockError};
use tokio::task::yield_now;

use crate::support::{Pair, assert_refuses_to_block, must_end, poll_once};

pub(crate) const TTL: Duration = Duration::from_secs(3);

/// Two processes with short leases.
pub(crate) fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

impl Pair {
    pub(crate) fn stored(&self) -> (StoredMutex<u32>, StoredMutex<u32>) {
        let (here, there) = (&self.here, &self.there);
        (here.stored_mutex("it", 3).unwrap(), there.stored_mutex("it", 3).unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_holder_finds_the_value_that_was_committed() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    assert_eq!((*guard, StoredMutexGuard::version(&guard)), (3, None));
    *guard -= 1;
    let token = StoredMutexGuard::lease(&guard).fencing_token();
    let version = guard.commit().await.unwrap();
    assert_eq!(version, token, "the token is the version");
    let guard = there.lock().await.unwrap();
    assert_eq!((*guard, StoredMutexGuard::version(&guard)), (2, Some(version)));
    assert!(StoredMutexGuard::lease(&guard).fencing_token() > version);
    StoredMutexGuard::release(guard).await.unwrap();
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_discards_its_changes() {
    let pair = short();
    let (here, there) = pair.stored();
    here.update(|value| *value = 10).await.unwrap();
    *here.lock().await.unwrap() = 11;
    assert_eq!(*here.lock().await.unwrap(), 10, "in this process");
    let mut guard = here.lock().await.unwrap();
    *guard = 12;
    StoredMutexGuard::release(guard).await.unwrap();
    assert_eq!(*there.lock().await.unwrap(), 10, "in the other process");
}

#[tokio::test(start_paused = true)]
async fn a_lock_and_a_commit_cost_two_requests() {
    let pair = short();
    let (here, _) = pair.stored();
    let before = pair.ours.stats();
    for round in 0..5 {
        let mut guard = here.lock().await.unwrap();
        assert_eq!(*guard, 3 + round);
        *guard += 1;
        guard.commit().await.unwrap();
    }
    let after = pair.ours.stats();
    assert_eq!(after.acquires - before.acquires, 5);
    assert_eq!(after.cells - before.cells, 5);
    assert_eq!((after.releases, after.renewals), (before.releases, before.renewals));
}

#[tokio::test(start_paused = true)]
async fn a_commit_within_a_process_costs_one_request() {
    const TASKS: u32 = 50;
    let pair = short();
    let (here, there) = pair.stored();
    let first = here.lock().await.unwrap();
    let tasks = (0..TASKS).map(|_| {
        let here = here.clone();
        tokio::spawn(async move { here.update(|value| *value += 1).await.unwrap() })
    });
    let tasks = tasks.collect::<Vec<_>>();
    yield_now().await;
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    let stats = pair.ours.stats();
    assert_eq!(stats.cells, u64::from(TASKS), "one for each commit, and no load");
    assert!(stats.acquires + stats.releases <= 4, "{stats:?}");
    assert_eq!(*there.lock().await.unwrap(), 3 + TASKS);
}

#[tokio::test(start_paused = true)]
async fn a_cached_value_needs_no_request() {
    let pair = short();
    let here = pair.here.stored_mutex("it", 0).unwrap().with_cache(Duration::from_secs(1));
    here.update(|value| *value += 1).await.unwrap();
    assert!(here.is_cached() && !here.is_held());
    let before = pair.ours.stats();
    assert_eq!(*here.lock().await.unwrap(), 1);
    let after = pair.ours.stats();
    assert_eq!((after.acquires, after.cells), (before.acquires, before.cells));
}

#[tokio::test(start_paused = true)]
async fn the_value_comes_with_a_lock_that_is_handed_over() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    let mut waiting = Box::pin(there.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    // The other process has its place by now.
    tokio::time::sleep(TTL / 10).await;
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    *guard = 7;
    let ours = pair.ours.stats();
    guard.commit().await.unwrap();
    assert_eq!(pair.ours.stats().releases, ours.releases, "one step");
    assert_eq!(*waiting.await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn each_save_has_a_version_of_its_own() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    let mut last = FencingToken::new(0);
    for value in 10..16 {
        *guard = value;
        let version = guard.save().await.unwrap();
        assert!(version > last && version == StoredMutexGuard::lease(&guard).fencing_token());
        last = version;
        let snapshot = there.snapshot().await.unwrap();
        assert_eq!((snapshot.value, snapshot.version), (value, Some(version)));
    }
    assert!(there.try_lock().await.is_err(), "the lock is kept");
    *guard = 99;
    drop(guard);
    assert_eq!(*there.lock().await.unwrap(), 15, "later changes are discarded");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_does_not_wait_for_the_lock() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut guard = here.lock().await.unwrap();
    *guard = 8;
    let snapshot = there.snapshot().await.unwrap();
    assert_eq!((snapshot.value, snapshot.version), (3, None));
    let version = guard.commit().await.unwrap();
    let snapshot = there.snapshot().await.unwrap();
    assert_eq!((snapshot.value, snapshot.version), (8, Some(version)));
}

#[tokio::test(start_paused = true)]
async fn only_one_holder_at_a_time() {
    let pair = short();
    let (here, there) = pair.stored();
    let guard = here.lock().await.unwrap();
    assert!(matches!(there.try_lock().await, Err(TryLockError::WouldBlock)));
    assert!(matches!(here.try_lock().await, Err(TryLockError::WouldBlock)));
    let limit = Duration::from_millis(50);
    let late = there.lock_timeout(limit).await;
    assert!(matches!(late, Err(LockError::Timeout { source: None })), "{late:?}");
    drop(guard);
    let there = Arc::new(there);
    assert_eq!(*there.lock_owned().await.unwrap(), 3);
}

#[test]
fn synchronous_code_locks_and_commits() {
    let pair = Pair::threaded();
    let (here, there) = pair.stored();
    let mut guard = here.blocking_lock().unwrap();
    *guard += 1;
    guard.blocking_save().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(there.snapshot()).unwrap().value, 4);
    *guard += 1;
    guard.blocking_commit().unwrap();
    assert_eq!(*there.blocking_lock().unwrap(), 5);
    assert_refuses_to_block("blocking_lock", file!(), || drop(here.blocking_lock()));
}

/// The lease does not end with the commit, because a task of this process waits for the lock as well.
#[test]
fn synchronous_code_commits_beside_a_runtime_that_stands_still() {
    must_end(|| {
        let still = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let pair = Pair::build(|builder| builder.handoff(Handoff::Fair));
        pair.ours.faults().on(Verb::Release).delay_requests(Duration::from_millis(1));
        let (here, there) = pair.stored();
        let mut guard = here.blocking_lock().unwrap();
        let (mut theirs, mut ours) = (Box::pin(there.lock()), Box::pin(here.lock()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert!(poll_once(theirs.as_mut()).await.is_pending());
            assert!(poll_once(ours.as_mut()).await.is_pending());
            while pair.here.inspect("it").await.unwrap().waiting == 0 {
                yield_now().await;
            }
        });
        *guard += 1;
        let entered = still.enter();
        guard.blocking_commit().unwrap();
        drop(entered);
        // In either order: the holder may not have heard yet that the other process waits.
        runtime.block_on(async {
            tokio::join!(async { assert_eq!(*theirs.await.unwrap(), 4) }, async {
                assert_eq!(*ours.await.unwrap(), 4)
            },)
        });
    });
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_stored_comes_back_with_the_guard() {
    let pair = short();
    let here = pair.here.stored_mutex("it", String::new()).unwrap().with_size_limit(10);
    let mut guard = here.lock().await.unwrap();
    guard.push_str("much too long");
    let before = pair.ours.stats();
    let Err(SaveError::Refused(error)) = guard.save().await else { panic!() };
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(error.to_string(), "a value of 15 bytes is too long: at most 10");
    let Err(CommitError::Refused { mut guard, .. }) = guard.commit().await else { panic!() };
    assert_eq!(pair.ours.stats().cells, before.cells, "nothing was sent");
    assert!(StoredMutexGuard::lease(&guard).is_valid() && here.is_held());
    guard.truncate(4);
    guard.commit().await.unwrap();
    assert_eq!(here.snapshot().await.unwrap().value, "much");
    let error = pair.here.stored_mutex("it", "x".repeat(100_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// A codec that fails or panics for some values.
struct Picky;

impl Codec<u32> for Picky {
    fn encode(&self, value: &u32) -> Result<Vec<u8>, CodecError> {
        match *value {
            13 => Err(CodecError::new("thirteen is not stored")),
            14 => panic!("fourteen"),
            value => Ok(value.to_string().into()),
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<u32, CodecError> {
        let text = std::str::from_utf8(bytes).map_err(CodecError::new)?;
        match text.parse() {
            Ok(15) => panic!("fifteen"),
            read => read.map_err(CodecError::new),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_codec_that_fails_or_panics_costs_neither_the_lock_nor_the_value() {
    let pair = short();
    let here = pair.here.stored_mutex_with("it", 1, Picky).unwrap();
    let text = pair.there.stored_mutex_with("it", Vec::new(), Bytes).unwrap();
    let mut guard = here.lock().await.unwrap();
    *guard = 13;
    let Err(SaveError::Encode(_)) = guard.save().await else { panic!() };
    let Err(error @ CommitError::Encode { .. }) = guard.commit().await else { panic!() };
    assert_eq!(error.to_string(), "the codec cannot encode the value");
    assert_eq!(error.into_value(), 13);
    assert!(!here.is_held());

    let fourteen = here.clone();
    let panicked = tokio::spawn(async move { fourteen.update(|value| *value = 14).await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(here.snapshot().await.unwrap().version, None, "nothing was stored");

    for bytes in [&b"15"[..], b"fifteen"] {
        text.update(|text| *text = bytes.into()).await.unwrap();
        let locks = here.clone();
        let outcome = tokio::spawn(async move { locks.lock().await.map(drop) }).await;
        assert!(matches!(outcome, Err(_) | Ok(Err(LockError::Value(_)))), "{outcome:?}");
        let update = here.update(|_| ());
        if bytes == b"fifteen" {
            assert!(matches!(update.await, Err(StoredUpdateError::Lock(LockError::Value(_)))));
        }
        assert_eq!(text.snapshot().await.unwrap().value, bytes, "the value is as it was");
    }
    pair.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_ends_at_the_latest_version() {
    let pair = short();
    let (here, there) = pair.stored();
    let mut versions = there.subscribe();
    assert!(poll_once(std::pin::pin!(versions.next())).await.is_pending(), "nothing is stored");
    let mut last = None;
    for value in 0..20 {
        here.update(|stored| *stored = value).await.unwrap();
        if value % 5 == 0 {
            let item = versions.next().await.unwrap().unwrap();
            assert!(item.version > last && item.value <= value, "{item:?} after {last:?}");
            last = item.version;
        }
    }
    while last != here.snapshot().await.unwrap().version {
        let item = versions.next().await.unwrap().unwrap();
        assert!(item.version > last);
        last = item.version;
    }
    let again = there.subscribe().next().await.unwrap().unwrap();
    assert_eq!((again.value, again.version), (19, last), "a new subscriber begins with the latest");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_ends_with_its_locks() {
    let pair = short();
    let (here, there) = pair.stored();
    here.update(|value| *value = 1).await.unwrap();
    let mut versions = there.subscribe();
    assert_eq!(versions.next().await.unwrap().unwrap().value, 1);
    let waiting = tokio::spawn(async move {
        // It may also be asked again after its end.
        versions.next().await.is_none() && versions.next().await.is_none()
    });
    yield_now().await;
    pair.there.shutdown().await;
    assert!(waiting.await.unwrap());
    assert!(matches!(there.lock().await, Err(LockError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn two_mutexes_of_one_process_share_the_value() {
    let pair = short();
    let one = pair.here.stored_mutex("it", 0).unwrap();
    let other = pair.here.stored_mutex("it", 0).unwrap();
    let cell: lock_sync::OnceCell<u32> = pair.here.once_cell("it").unwrap();
    for round in 1..=5 {
        let waiting = {
            let other = other.clone();
            tokio::spawn(async move { other.update(|value| *value += 10).await.unwrap() })
        };
        one.update(|value| *value += 1).await.unwrap();
        waiting.await.unwrap();
        assert_eq!(*one.lock().await.unwrap(), 11 * round);
    }
    drop(cell);
}
