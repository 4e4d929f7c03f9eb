//! All requests to a backend and to locks, whatever their outcome.

use std::time::Duration;

use lock_core::{
    Acquire, Backend as _, Ballot, CellBackend as _, Claim, FencingToken, InspectBackend as _,
    Membership, Mode, OwnerToken, PermitBackend as _, Quarantine, QuorumNode as _, Renew, Resize,
    Terms, Ttl,
};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;
use lock_sync::{Locks, Mutex, MutexGuard, Owner};
use lock_tests::{SOON, eventually_async};

use super::tape::{show, shown};

/// How long to wait for a hint that may not come.
const MOMENT: Duration = Duration::from_millis(100);

/// Every verb, with an exclusive claim.
pub(crate) async fn drive(backend: &RedisBackend, claim: &Claim, value: &str) {
    let ttl = Ttl::new(Duration::from_secs(2)).unwrap();
    let (key, token) = (&claim.key, FencingToken::new(1));
    let request = Acquire::new(claim.clone(), ttl);
    let other = Claim::exclusive(key.clone(), OwnerToken::generate().unwrap());
    let next = Acquire::new(other.clone(), ttl).queued();
    show(backend);
    show(&request);
    let watch = shown(backend.watch(key).await).ok();
    shown(backend.try_acquire(&request).await).ok();
    shown(backend.try_acquire(&next).await).ok();
    show(&backend.renew(&Renew::new(claim.clone(), ttl)).await);
    shown(backend.store(claim, token, Some(value.as_bytes())).await).ok();
    // The loaded value is shown to its caller.
    if let Err(error) = backend.load(key).await {
        super::tape::show_error(&error);
    }
    shown(backend.inspect(key).await).ok();
    shown(backend.release_and_requeue(claim, &next).await).ok();
    if let Some(mut watch) = watch {
        show(&tokio::time::timeout(MOMENT, watch.next()).await);
        show(&watch);
    }
    for claim in [claim, &other] {
        shown(backend.release(claim).await).ok();
    }
    shown(backend.force_release(key).await).ok();
    drive_modes(backend, claim, ttl).await;
    shown(backend.try_acquire_all(&[request.clone(), next]).await).ok();
    drive_votes(backend, claim, request).await;
    shown(backend.check().await).ok();
}

/// Every mode but the exclusive one, and permits.
async fn drive_modes(backend: &RedisBackend, claim: &Claim, ttl: Ttl) {
    let key = &claim.key;
    let group = Mode::Joint { group: claim.owner };
    for mode in [Mode::Shared, Mode::Upgradable, group, Mode::Permits { take: 1, of: 2 }] {
        let claim = claim.clone().in_mode(mode);
        show(&claim);
        shown(backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await).ok();
        show(&backend.renew(&Renew::new(claim.clone(), ttl)).await);
        shown(backend.release(&claim).await).ok();
    }
    shown(backend.permits(key, 3).await).ok();
    shown(backend.resize(key, 2, Resize::Add(1)).await).ok();
    shown(backend.close(key, 2).await).ok();
}

/// What a quorum asks of its nodes.
async fn drive_votes(backend: &RedisBackend, claim: &Claim, request: Acquire) {
    let (token, ttl) = (FencingToken::new(1), request.ttl);
    let terms = Terms::new(Membership::of(["a", "b", "c"]), ttl);
    show(&terms);
    let mut ballot = Ballot::new(request, token);
    if let Ok(standing) = shown(backend.standing(&terms).await) {
        ballot = ballot.expecting(standing);
    }
    show(&ballot);
    shown(backend.vote(&ballot).await).ok();
    shown(backend.vouch(&Quarantine::new("a0"), ttl).await).ok();
    shown(backend.confirm(claim, token).await).ok();
    shown(backend.release(claim).await).ok();
}

/// Gets the lock of a client whose time limits may be too short for a busy machine.
pub(crate) async fn locked<T: std::fmt::Debug>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let mut guard = None;
    eventually_async("it is locked", SOON, async || {
        guard = shown(mutex.lock().await).ok();
        guard.is_some()
    })
    .await;
    guard.unwrap()
}

/// A lock of a quorum. Returns whether one of so many tries got the lock.
pub(crate) async fn drive_quorum(quorum: Redlock<RedisBackend>, tries: u32) -> bool {
    let locks = Locks::builder(quorum.clone()).wait_limit(Duration::from_secs(6));
    let locks = locks.ttl(Duration::from_secs(2)).build().unwrap();
    let mutex = locks.mutex("quorum", ()).unwrap();
    let mut guard = None;
    for _ in 0..tries {
        shown(quorum.init().await).ok();
        show(&quorum.status().await);
        guard = shown(mutex.lock().await).ok();
        if guard.is_some() {
            break;
        }
    }
    let is_locked = guard.is_some();
    shown(mutex.try_lock().await).ok();
    let again = Locks::new(quorum.clone());
    shown(again.mutex("quorum", ()).unwrap().try_lock().await).ok();
    show(&quorum.status().await);
    drop(guard);
    locks.shutdown().await;
    is_locked
}

/// Every kind of lock, once.
pub(crate) async fn drive_locks(locks: &Locks<RedisBackend>, value: &str) {
    const LIMIT: Duration = Duration::from_millis(500);
    show(locks);
    let mutex = locks.mutex("kind/mutex", 0).unwrap();
    let guard = shown(mutex.lock_timeout(LIMIT).await).ok();
    show(&mutex);
    shown(mutex.try_lock().await).ok();
    drop(guard);
    let rwlock = locks.rwlock("kind/rwlock", 0).unwrap();
    drop(shown(rwlock.read_timeout(LIMIT).await));
    drop(shown(rwlock.write_timeout(LIMIT).await));
    show(&rwlock);
    let permits = locks.semaphore("kind/permits", 2).unwrap();
    drop(shown(permits.acquire_timeout(LIMIT).await));
    show(&permits);
    let reentrant = locks.reentrant_mutex("kind/reentrant", ()).unwrap();
    let mut owner = Owner::new().unwrap();
    drop(shown(reentrant.lock_as_timeout(&mut owner, LIMIT).await));
    show(&reentrant);
    drop(shown(locks.lock_all_timeout(["kind/one", "kind/other"], LIMIT).await));
    let cell = locks.once_cell::<u32, _>("kind/cell").unwrap();
    shown(cell.get_or_init(async || 7).await).ok();
    let election = locks.election("kind/election").unwrap();
    if let Ok(leads) = shown(election.campaign_timeout(value, LIMIT).await) {
        shown(leads.resign().await).ok();
    }
    show(&election);
    let barrier = locks.barrier("kind/barrier", 1).unwrap();
    shown(barrier.wait_timeout(LIMIT).await).ok();
    show(&barrier);
    let slots = locks.slot_semaphore("kind/slots", 2).unwrap();
    drop(shown(slots.acquire_timeout(LIMIT).await));
    show(&slots);
    shown(locks.inspect("kind/mutex").await).ok();
    shown(locks.force_release("kind/mutex").await).ok();
    locks.shutdown().await;
    shown(mutex.lock().await).ok();
}
