//! The handle to a lease, which outlives its guard and keeps nothing.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::{MemoryBackend, Verb};
use lock_sync::{
    Lease, Locks, LossReason, MutexGuard, OwnedMutexGuard, Owner, OwnerGuard, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use tokio::time::sleep;

use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

fn short() -> Pair {
    Pair::local_with(|builder| builder.ttl(TTL))
}

fn reason(lease: &Lease) -> Option<LossReason> {
    lease.check().err().map(|lost| lost.reason())
}

/// The lease was given up, and every method of the handle says so.
fn assert_released(lease: &Lease) {
    assert_eq!(reason(lease), Some(LossReason::Released), "{lease:?}");
    assert!(!lease.is_valid() && lease.remaining().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_handle_outlives_its_guard_and_does_not_keep_the_lock() {
    let pair = short();
    let (here, there) = pair.mutexes();
    for awaited in [true, false] {
        let guard = here.lock().await.unwrap();
        let lease = MutexGuard::lease(&guard);
        assert!(lease.is_valid() && lease.remaining() > TTL / 2);
        let token = lease.fencing_token();
        if awaited {
            MutexGuard::release(guard).await.unwrap();
        } else {
            drop(guard);
        }
        assert_released(&lease);
        assert_eq!(lease.lost().await.reason(), LossReason::Released);
        assert_eq!((lease.key().as_bytes(), lease.fencing_token()), (&b"it"[..], token));
        assert!(MutexGuard::lease(&there.lock().await.unwrap()).fencing_token() > token);
        let until = lease.valid_until();
        sleep(TTL).await;
        assert_eq!(lease.valid_until(), until, "it is over");
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_holder_of_this_process_does_not_revive_the_handle() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let first = here.lock().await.unwrap();
    let lease = MutexGuard::lease(&first);
    let (mut lost, mut waiting) = (Box::pin(lease.lost()), Box::pin(here.lock()));
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    assert!(poll_once(lost.as_mut()).await.is_pending());
    drop(first);
    assert_released(&lease);
    let second = waiting.await.unwrap();
    assert_eq!(pair.ours.stats().acquires, 1, "the process goes on with one lease");
    assert_eq!(lost.await.reason(), LossReason::Released);
    assert!(MutexGuard::lease(&second).is_valid());
    assert!(MutexGuard::lease(&second).fencing_token() > lease.fencing_token());
    sleep(TTL * 2).await;
    assert_released(&lease);
    // The later holder loses the lease. The earlier one gave it up before that.
    pair.store.forget();
    MutexGuard::lease(&second).lost().await;
    assert_eq!(reason(&MutexGuard::lease(&second)), Some(LossReason::Revoked));
    assert_released(&lease);
}

#[tokio::test(start_paused = true)]
async fn a_release_ends_the_handle_before_the_store_has_answered() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let lease = MutexGuard::lease(&guard);
    let held_up = pair.ours.faults().on(Verb::Release).hold_requests();
    let mut releasing = Box::pin(MutexGuard::release(guard));
    assert!(lease.is_valid(), "the future was not polled");
    assert!(poll_once(releasing.as_mut()).await.is_pending());
    assert_released(&lease);
    held_up.open();
    releasing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handle_sees_a_loss_and_keeps_its_reason() {
    let pair = short();
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let (lease, early) = (MutexGuard::lease(&guard), MutexGuard::lease(&guard).lost());
    pair.store.forget();
    assert_eq!(early.await.reason(), LossReason::Revoked);
    assert_eq!(reason(&lease), Some(LossReason::Revoked));
    drop(guard);
    assert_eq!(reason(&lease), Some(LossReason::Revoked), "not that it was released");
    assert_eq!(lease.lost().await.reason(), LossReason::Revoked);
    let next = here.lock().await.unwrap();
    assert!(MutexGuard::lease(&next).is_valid() && !lease.is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lost_future_that_was_never_polled_knows_the_reason() {
    let cap = Duration::from_secs(1);
    let pair = Pair::local_with(|builder| builder.ttl(TTL).max_hold(cap));
    let lock = pair.here.rwlock("it", ()).unwrap();
    let (older, lost) = {
        let older = lock.read().await.unwrap();
        let lost = RwLockReadGuard::lease(&older).lost();
        (older, lost)
    };
    sleep(cap / 2).await;
    let younger = lock.read().await.unwrap();
    sleep(cap * 2 / 3).await;
    drop(older);
    assert_eq!(lost.await.reason(), LossReason::HeldTooLong);
    assert!(RwLockReadGuard::lease(&younger).is_valid(), "only the older one is over");
}

#[tokio::test]
async fn work_in_another_task_ends_when_the_guard_is_given_up() {
    let pair = Pair::threaded();
    let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
    let guard = mutex.lock_owned().await.unwrap();
    let lease = OwnedMutexGuard::lease(&guard);
    let (begun, begins) = tokio::sync::oneshot::channel();
    let work = tokio::spawn({
        let lease = lease.clone();
        async move {
            let work = async |lease: Lease| {
                begun.send(lease.fencing_token()).unwrap();
                std::future::pending::<()>().await;
            };
            lease.scope(work).await
        }
    });
    assert_eq!(begins.await, Ok(lease.fencing_token()));
    assert!(lease.is_valid());
    drop(guard);
    assert_eq!(work.await.unwrap().unwrap_err().reason(), LossReason::Released);
}

#[tokio::test(start_paused = true)]
async fn a_handle_follows_its_guard_through_other_modes() {
    let pair = short();
    let lock = pair.here.rwlock("it", 7).unwrap();
    let upgradable = lock.upgradable_read().await.unwrap();
    let lease = RwLockUpgradableReadGuard::lease(&upgradable);
    let before = lease.fencing_token();
    let writer = upgradable.upgrade().await.map_err(|error| error.to_string()).unwrap();
    assert!(lease.is_valid() && lease.fencing_token() > before);
    assert_eq!(lease.fencing_token(), RwLockWriteGuard::lease(&writer).fencing_token());
    let reader = RwLockReadGuard::map(writer.downgrade(), |number| number);
    sleep(TTL * 2).await;
    assert!(lease.is_valid());
    drop(reader);
    assert_released(&lease);
}

#[tokio::test]
async fn a_handle_of_merged_permits_covers_them_all() {
    let locks = Locks::new(MemoryBackend::new());
    let semaphore = locks.semaphore("it", 5).unwrap();
    let mut all = semaphore.acquire_many(2).await.unwrap();
    let first = all.lease();
    all.merge(semaphore.acquire_many(2).await.unwrap());
    let both = all.lease();
    assert!(both.is_valid() && both.fencing_tokens().len() == 2);
    assert_eq!(both.fencing_token(), first.fencing_token(), "the lowest");
    assert_eq!(both.key().as_bytes(), b"it");
    // The permits that go back first are whole ones of the later part.
    drop(all.split(2));
    assert_released(&both);
    assert!(first.is_valid());
    let part = all.split(1).unwrap();
    drop(all);
    assert_released(&first);
    assert!(part.lease().is_valid(), "it was split off");
    let none = semaphore.acquire_many(0).await.unwrap().lease();
    assert_eq!((none.key().as_bytes(), none.fencing_token().get()), (&b"it"[..], 0));
    part.forget();
}

#[tokio::test]
async fn every_guard_has_a_handle() {
    let locks = Locks::new(MemoryBackend::new());
    let reentrant = locks.reentrant_mutex("reentrant", ()).unwrap();
    let mut owner = Owner::new().unwrap();
    // Processes begin at a random slot: the key of the only one is known.
    let slots = locks.slot_semaphore("slots", 1).unwrap();
    let election = locks.election("election").unwrap();
    let mutex = locks.mutex("mutex", (1, 2)).unwrap();
    let leases = {
        let all = locks.lock_all(["a", "b"]).await.unwrap();
        let owned = reentrant.lock_as(&mut owner).await.unwrap();
        let slot = slots.acquire().await.unwrap();
        let leadership = election.campaign("me").await.unwrap();
        let mapped = MutexGuard::map(mutex.lock().await.unwrap(), |pair| &mut pair.0);
        let leases = [
            all.lease(),
            OwnerGuard::lease(&owned),
            slot.lease(),
            leadership.lease(),
            lock_sync::MappedMutexGuard::lease(&mapped),
        ];
        assert!(leases.iter().all(Lease::is_valid), "{leases:?}");
        leases
    };
    leases.iter().for_each(assert_released);
    let keys: Vec<_> = leases.iter().map(|lease| lease.key().as_bytes()).collect();
    assert_eq!(keys, [&b"a"[..], b"reentrant", b"slots#0", b"election", b"mutex"]);
}
