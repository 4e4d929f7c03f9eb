//! Leaders, and what other clients see of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use lock_sync::{LeaderInfo, Observer, TryLockError};
use tokio::task::JoinSet;

use super::mortal::Mortal;
use super::{Pair, SHORT, Stage, waits};
use crate::soon;

/// Candidates of both clients lead in turn, and the store names the one that leads.
pub async fn one_candidate_leads_at_a_time<S: Stage>() {
    const ROUNDS: usize = 20;
    let pair = Pair::<S>::new().await;
    let leaders = Arc::new(AtomicUsize::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut candidates = JoinSet::new();
    for candidate in 0..6 {
        let (mut ours, mut theirs) = pair.both(|locks| locks.election("it").unwrap());
        if candidate % 2 == 1 {
            std::mem::swap(&mut ours, &mut theirs);
        }
        let (leaders, highest) = (Arc::clone(&leaders), Arc::clone(&highest));
        candidates.spawn(async move {
            for round in 0..ROUNDS {
                let name = format!("{candidate} in round {round}");
                let leadership = ours.campaign(&name).await.unwrap();
                assert_eq!(leaders.fetch_add(1, Ordering::AcqRel), 0, "two lead at once");
                let token = leadership.lease().fencing_token();
                assert!(highest.swap(token.get(), Ordering::AcqRel) < token.get());
                let seen = theirs.leader().await.unwrap().unwrap();
                assert_eq!((seen.value, seen.token), (name.into_bytes(), token));
                leaders.fetch_sub(1, Ordering::AcqRel);
                drop(leadership);
            }
        });
    }
    candidates.join_all().await;
}

/// Each client learns the value and the token of each leader, and cannot lead beside it.
pub async fn both_clients_see_each_leader<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (ours, theirs) = pair.both(|locks| locks.election("it").unwrap());
    assert_eq!(ours.leader().await.unwrap(), None);
    let first = soon(ours.campaign("first")).await.unwrap();
    for election in [&ours, &theirs] {
        let seen = election.leader().await.unwrap().unwrap();
        assert_eq!((&seen.value[..], seen.token), (&b"first"[..], first.lease().fencing_token()));
        let refused = election.try_campaign("second").await;
        assert!(matches!(refused, Err(TryLockError::WouldBlock)));
    }
    let mut candidate = Box::pin(theirs.campaign("second"));
    waits(&mut candidate).await;
    let before = first.lease().fencing_token();
    first.resign().await.unwrap();
    let second = soon(candidate).await.unwrap();
    let seen = ours.leader().await.unwrap().unwrap();
    assert_eq!((&seen.value[..], seen.token), (&b"second"[..], second.lease().fencing_token()));
    assert!(second.lease().fencing_token() > before);
    second.resign().await.unwrap();
    assert_eq!(theirs.leader().await.unwrap(), None);
}

/// An observer hears of the state, and then of each change.
pub async fn an_observer_hears_of_each_leader<S: Stage>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.election("it").unwrap());
    let mut observer = there.observe();
    assert_eq!(heard(&mut observer).await, None);
    let first = soon(here.campaign("first")).await.unwrap();
    let seen = heard(&mut observer).await.unwrap();
    assert_eq!((&seen.value[..], seen.token), (&b"first"[..], first.lease().fencing_token()));

    let mut second = Box::pin(there.campaign("second"));
    waits(&mut second).await;
    soon(first.resign()).await.unwrap();
    let second = soon(second).await.unwrap();
    assert_eq!(heard_next(&mut observer).await.value, b"second");
    soon(second.resign()).await.unwrap();
    assert_eq!(heard(&mut observer).await, None);
}

/// The next candidate leads once the lease of the dead leader is over, and not before.
pub async fn a_leader_that_dies_is_followed<S: Stage>() {
    let pair = Pair::<S>::with(|locks| locks.ttl(SHORT)).await;
    let mortal = Mortal::of(&pair.stage).await;
    let first = soon(mortal.locks.election("it").unwrap().campaign("first")).await.unwrap();
    let (here, there) = pair.both(|locks| locks.election("it").unwrap());
    let mut observer = there.observe();
    assert_eq!(heard(&mut observer).await.unwrap().value, b"first");
    let mut second = Box::pin(here.campaign("second"));
    waits(&mut second).await;
    assert!(first.lease().is_valid());

    drop(mortal);
    let second = soon(second).await.unwrap();
    assert!(!first.lease().is_valid(), "two lead at once");
    soon(first.lease().lost()).await;
    assert!(second.lease().is_valid());
    assert!(second.lease().fencing_token() > first.lease().fencing_token());
    let seen = heard_next(&mut observer).await;
    assert_eq!((&seen.value[..], seen.token), (&b"second"[..], second.lease().fencing_token()));
    // The release of the dead leader takes nothing from the next one.
    drop(first);
    assert_eq!(there.leader().await.unwrap(), Some(seen));
}

/// The next state that an observer hears.
async fn heard(observer: &mut Observer) -> Option<LeaderInfo> {
    soon(observer.next()).await.unwrap()
}

/// The next leader that an observer hears of. For a moment there may be none.
async fn heard_next(observer: &mut Observer) -> LeaderInfo {
    match heard(observer).await {
        Some(leader) => leader,
        None => heard(observer).await.expect("there is no leader twice in a row"),
    }
}
