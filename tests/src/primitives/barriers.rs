//! Barriers.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lock_core::Ttl;
use lock_sync::{BarrierWaitResult, LockError};
use tokio::task::JoinSet;

use super::mortal::Mortal;
use super::{Counting, LONG, Pair, SHORT, until_held, waits};
use crate::soon;

/// The leases of the participants that have arrived in the first round at the barrier "it".
const ARRIVED: &str = "it:arrivals:0";

fn leaders(passed: impl IntoIterator<Item = BarrierWaitResult>) -> usize {
    passed.into_iter().filter(BarrierWaitResult::is_leader).count()
}

/// All participants pass together, and one of them leads.
pub async fn no_participant_passes_before_the_last_one_arrives<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let (here, there) = pair.both(|locks| locks.barrier("it", 3).unwrap());
    let (mut one, mut other) = (Box::pin(here.wait()), Box::pin(there.wait()));
    waits(&mut one).await;
    waits(&mut other).await;
    // A participant arrives while its future is polled.
    tokio::select! {
        _ = &mut one => panic!("one has passed"),
        _ = &mut other => panic!("the other has passed"),
        () = until_held(&pair.there, ARRIVED, 2) => {}
    }
    let all = soon(async { tokio::join!(one, other, here.wait()) }).await;
    assert_eq!(leaders([all.0.unwrap(), all.1.unwrap(), all.2.unwrap()]), 1);
    pair.all_free().await;
}

/// Participants of both clients pass many rounds, and no participant is a round ahead of another.
pub async fn a_barrier_is_passed_round_by_round<S: Counting>() {
    const ROUNDS: usize = 40;
    const PARTICIPANTS: usize = 6;
    let pair = Pair::<S>::new().await;
    let arrived: Arc<[AtomicUsize; ROUNDS]> = Arc::new(array::from_fn(|_| AtomicUsize::new(0)));
    let led: Arc<[AtomicUsize; ROUNDS]> = Arc::new(array::from_fn(|_| AtomicUsize::new(0)));
    let mut participants = JoinSet::new();
    for number in 0..PARTICIPANTS {
        let locks = if number % 2 == 0 { &pair.here } else { &pair.there };
        let barrier = locks.barrier("it", PARTICIPANTS).unwrap();
        let (arrived, led) = (Arc::clone(&arrived), Arc::clone(&led));
        participants.spawn(async move {
            for round in 0..ROUNDS {
                arrived[round].fetch_add(1, Ordering::AcqRel);
                let passed = barrier.wait().await.unwrap();
                assert_eq!(
                    arrived[round].load(Ordering::Acquire),
                    PARTICIPANTS,
                    "in round {round}"
                );
                led[round].fetch_add(usize::from(passed.is_leader()), Ordering::AcqRel);
            }
        });
    }
    participants.join_all().await;
    assert_eq!(led.each_ref().map(|count| count.load(Ordering::Acquire)), [1; ROUNDS]);
    pair.all_free().await;
}

/// Twelve participants at a barrier of three make four groups, and every participant is in a group.
pub async fn participants_beyond_the_number_begin_another_round<S: Counting>() {
    let pair = Pair::<S>::new().await;
    for round in 0..20 {
        let mut participants = JoinSet::new();
        for number in 0..12 {
            // Neither client has complete groups of its own.
            let locks = if number < 5 { &pair.here } else { &pair.there };
            let barrier = locks.barrier(format!("it {round}"), 3).unwrap();
            participants.spawn(async move { barrier.wait().await.unwrap() });
        }
        assert_eq!(leaders(soon(participants.join_all()).await), 4);
        pair.all_free().await;
    }
}

/// A participant that died counts until its lease is over, and another one takes its place.
pub async fn a_barrier_does_not_count_a_dead_participant<S: Counting>() {
    let pair = Pair::<S>::with(|locks| locks.ttl(SHORT)).await;
    let mortal = Mortal::of(&pair.stage).await;
    let barrier = mortal.locks.barrier("it", 2).unwrap();
    let (here, there) = pair.both(|locks| locks.barrier("it", 2).unwrap());
    let dying = tokio::spawn(async move { barrier.wait().await.map(|_| ()) });
    until_held(&pair.here, ARRIVED, 1).await;
    drop(mortal);
    let failed = soon(dying).await.unwrap();
    assert!(matches!(failed, Err(LockError::Backend(_) | LockError::Closed)), "{failed:?}");
    until_held(&pair.here, ARRIVED, 0).await;

    let mut alone = Box::pin(here.wait());
    waits(&mut alone).await;
    let (one, other) = soon(async { tokio::join!(alone, there.wait()) }).await;
    assert_eq!(leaders([one.unwrap(), other.unwrap()]), 1);
}

/// A barrier with a short lease forgets a dead participant soon, although other locks of the client have long leases.
pub async fn a_barrier_has_a_ttl_of_its_own<S: Counting>() {
    let pair = Pair::<S>::new().await;
    let mortal = Mortal::with(&pair.stage, |locks| locks.ttl(LONG)).await;
    let barrier = mortal.locks.barrier("it", 2).unwrap();
    let barrier = barrier.with_ttl(Ttl::new(SHORT).unwrap());
    let dying = tokio::spawn(async move { barrier.wait().await.map(|_| ()) });
    until_held(&pair.here, ARRIVED, 1).await;
    drop(mortal);
    assert!(soon(dying).await.unwrap().is_err());
    until_held(&pair.here, ARRIVED, 0).await;
}
