//! Permits that are locks.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_sync::TryAcquireError;
use tokio::task::JoinSet;

use super::{Pair, Stage, waits};
use crate::soon;

/// There are as many permits as slots, for all clients together.
pub async fn slots_are_shared_by_both_clients<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.slot_semaphore("it", 3).unwrap());
    let one = soon(here.acquire()).await.unwrap();
    let two = soon(there.acquire()).await.unwrap();
    let three = here.try_acquire().await.unwrap();
    let slots = HashSet::from([one.slot(), two.slot(), three.slot()]);
    assert_eq!(slots, HashSet::from([0, 1, 2]));
    for semaphore in [&here, &there] {
        assert_eq!(semaphore.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    }
    let mut waiting = Box::pin(here.acquire());
    waits(&mut waiting).await;
    let (slot, token) = (two.slot(), two.lease().fencing_token());
    two.release().await.unwrap();
    let next = soon(waiting).await.unwrap();
    assert_eq!(next.slot(), slot);
    assert!(next.lease().fencing_token() > token);
    drop((one, three, next));
    pair.all_free().await;
}

/// Tasks of both clients take slots, and release them in either way.
pub async fn a_slot_has_one_holder_at_a_time<S: Stage>() {
    const SLOTS: usize = 3;
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| Arc::new(locks.slot_semaphore("it", SLOTS).unwrap()));
    let taken: Arc<[AtomicBool; SLOTS]> = Arc::default();
    let mut tasks = JoinSet::new();
    for task in 0..12 {
        let semaphore = Arc::clone(if task % 2 == 0 { &here } else { &there });
        let taken = Arc::clone(&taken);
        tasks.spawn(async move {
            for round in 0..40 {
                let permit = semaphore.acquire().await.unwrap();
                let slot = &taken[permit.slot()];
                assert!(!slot.swap(true, Ordering::AcqRel), "two have slot {}", permit.slot());
                tokio::task::yield_now().await;
                slot.store(false, Ordering::Release);
                if round % 3 == 0 {
                    permit.release().await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
    pair.all_free().await;
}
