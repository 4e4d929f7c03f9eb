//! Several locks at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_core::{FencingToken, Key};
use lock_sync::TryLockError;
use tokio::task::JoinSet;

use super::{Pair, Stage, waits};
use crate::soon;

/// A caller has every lock of its list or, by a try, none.
pub async fn all_of_several_locks_or_none<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let all = soon(pair.here.lock_all(["c", "a", "b"])).await.unwrap();
    assert!(all.lease().is_valid());
    let names = ["a", "b", "c"];
    assert!(
        all.lease().fencing_tokens().map(|(key, _)| key.as_bytes()).eq(names.map(str::as_bytes)),
        "in order"
    );
    for name in names {
        let one = pair.there.mutex(name, ()).unwrap();
        assert!(matches!(one.try_lock().await, Err(TryLockError::WouldBlock)), "{name} is free");
    }
    for locks in [&pair.here, &pair.there] {
        assert!(matches!(locks.try_lock_all(["d", "b"]).await, Err(TryLockError::WouldBlock)));
    }
    // The try has not kept the lock that was free.
    let rest = soon(pair.here.lock_all(["d"])).await.unwrap();
    let mut waiting = Box::pin(pair.there.lock_all(["b", "d"]));
    waits(&mut waiting).await;
    let before: Vec<FencingToken> = all.lease().fencing_tokens().map(|(_, token)| token).collect();
    all.release().await.unwrap();
    waits(&mut waiting).await;
    rest.release().await.unwrap();
    drop(soon(waiting).await.unwrap());

    let all = soon(pair.there.lock_all(["b", "c", "a"])).await.unwrap();
    for ((key, after), before) in all.lease().fencing_tokens().zip(before) {
        assert!(after > before, "{key}: {after} came after {before}");
    }
    drop(all);
    pair.all_free().await;
}

/// Tasks of both clients lock lists that overlap, in any order of their names.
pub async fn lists_of_locks_in_any_order_do_not_deadlock<S: Stage>() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    const ROUNDS: usize = 50;
    let pair = Pair::<S>::new().await;
    let (taken, turns) = (Arc::<[AtomicBool; 4]>::default(), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..8_usize {
        let locks = if task % 2 == 0 { pair.here.clone() } else { pair.there.clone() };
        let (taken, turns) = (Arc::clone(&taken), Arc::clone(&turns));
        tasks.spawn(async move {
            for round in 0..ROUNDS {
                let first = task * 7 + round * 3;
                let list = (0..1 + round % 3).map(|n| (first + n * (1 + task % 3)) % 4);
                let guard = locks.lock_all(list.map(|at| NAMES[at])).await.unwrap();
                let has = |at: &usize| {
                    guard.lease().fencing_token_of(&Key::new(NAMES[*at]).unwrap()).is_some()
                };
                let held: Vec<_> = (0..4).filter(has).collect();
                for &at in &held {
                    let twice = taken[at].swap(true, Ordering::AcqRel);
                    assert!(!twice, "{} has two holders", NAMES[at]);
                }
                tokio::task::yield_now().await;
                held.iter().for_each(|&at| taken[at].store(false, Ordering::Release));
                turns.fetch_add(1, Ordering::Relaxed);
                drop(guard);
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(turns.load(Ordering::Relaxed), 8 * ROUNDS as u64);
    pair.all_free().await;
}
