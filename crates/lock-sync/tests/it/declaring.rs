//! Semaphores whose number of permits a deployment changes.

use std::sync::Arc;
use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::Verb;
use lock_sync::{AcquireError, Declaration, Locks, Semaphore, TryAcquireError};
use tokio::time::Instant;

use crate::support::{Pair, poll_once};

const TTL: Duration = Duration::from_secs(3);

/// A handle whose number replaces every other number.
fn winner(locks: &Locks<lock_core::memory::MemoryBackend>, permits: usize) -> Semaphore {
    locks.semaphore("it", permits).unwrap().with_declaration(Declaration::LastWins)
}

/// Declares so many other numbers that the store remembers none of the numbers before.
async fn crowd_out(pair: &Pair) {
    for permits in 100..100 + lock_core::Permits::DECLARATIONS {
        assert!(!winner(&pair.there, permits).is_closed_for_all().await.unwrap());
    }
}

#[tokio::test]
async fn a_number_that_the_store_has_forgotten_is_declared_again() {
    let pair = Pair::threaded();
    let here = winner(&pair.here, 2);
    drop(here.acquire().await.unwrap());
    crowd_out(&pair).await;
    let permit = here.acquire_many(2).await.unwrap();
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    crowd_out(&pair).await;
    assert_eq!(here.available_permits().await.unwrap(), 0);
    drop(permit);
    crowd_out(&pair).await;
    let here = tokio::task::spawn_blocking(move || {
        drop(here.blocking_acquire_many(2).unwrap());
        here
    });
    assert_eq!(here.await.unwrap().available_permits().await.unwrap(), 2);
    // A handle that refuses other numbers is refused.
    crowd_out(&pair).await;
    match pair.here.semaphore("it", 2).unwrap().acquire().await {
        Err(AcquireError::Backend(error)) => assert_eq!(error.kind(), ErrorKind::InvalidConfig),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn two_tasks_declare_a_forgotten_number_again() {
    let pair = Pair::threaded();
    let here = winner(&pair.here, 2);
    assert_eq!(here.available_permits().await.unwrap(), 2);
    crowd_out(&pair).await;
    let gate = pair.ours.faults().on(Verb::Count).hold_replies();
    let mut asking = [0, 1].map(|_| Box::pin(here.available_permits()));
    for one in &mut asking {
        assert!(poll_once(one.as_mut()).await.is_pending());
    }
    // The store has refused both. The first task declares the number before the second one goes on.
    drop(gate);
    for one in asking {
        assert_eq!(one.await.unwrap(), 2);
    }
}

#[tokio::test]
async fn too_many_permits_undo_no_later_declaration() {
    let pair = Pair::threaded();
    let (here, there) = (winner(&pair.here, 3), winner(&pair.there, 4));
    assert_eq!(here.available_permits().await.unwrap(), 3);
    assert_eq!(there.available_permits().await.unwrap(), 4);
    let error = here.add_permits(u32::MAX as usize).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(there.available_permits().await.unwrap(), 4);
}

#[tokio::test]
async fn a_process_that_only_restarts_undoes_no_change() {
    let pair = Pair::threaded();
    winner(&pair.here, 3).add_permits(2).await.unwrap();
    assert_eq!(winner(&pair.there, 3).available_permits().await.unwrap(), 5);
    assert_eq!(winner(&pair.there, 4).available_permits().await.unwrap(), 4);
    assert_eq!(winner(&pair.here, 3).available_permits().await.unwrap(), 3);
}

#[tokio::test]
async fn a_waiter_of_this_process_learns_of_a_greater_number() {
    let pair = Pair::threaded();
    let small = winner(&pair.here, 1);
    let held = small.acquire().await.unwrap();
    let mut waiting = Box::pin(small.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let large = winner(&pair.here, 2);
    assert_eq!(large.forget_permits(0).await.unwrap(), 0);
    assert!(waiting.await.unwrap().lease().is_valid() && held.lease().is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_declaration_waits_no_longer_than_its_caller() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let here = winner(&pair.here, 2);
    pair.ours.faults().cut();
    let begin = Instant::now();
    let refused = here.try_acquire().await.err();
    assert!(matches!(refused, Some(TryAcquireError::Backend(_))), "{refused:?}");
    assert!(begin.elapsed() < TTL / 10, "{:?}", begin.elapsed());
    let limit = TTL / 3;
    let late = here.acquire_timeout(limit).await.err();
    assert!(matches!(late, Some(AcquireError::Timeout { source: Some(_) })), "{late:?}");
    assert!((limit..limit * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    let begin = Instant::now();
    let late = here.acquire().await.err();
    assert!(matches!(late, Some(AcquireError::Backend(_))), "{late:?}");
    assert!((TTL..TTL * 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());

    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    pair.ours.faults().heal();
    assert!(waiting.await.unwrap().lease().is_valid());
    assert_eq!(here.available_permits().await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_declaration_ends_with_the_handle() {
    let pair = Pair::local_with(|builder| builder.ttl(TTL));
    let here = winner(&pair.here, 2);
    pair.ours.faults().cut();
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let shut = pair.here.shutdown();
    let (refused, _) = tokio::join!(waiting, shut);
    assert_eq!(refused.err(), Some(AcquireError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_a_wait_that_still_declares_the_number() {
    let pair = Pair::local();
    let here = Arc::new(winner(&pair.here, 2));
    let gate = pair.ours.faults().on(Verb::Count).hold_requests();
    let waiting = tokio::spawn(Arc::clone(&here).acquire_owned());
    gate.arrived(1).await;
    here.close();
    let began = Instant::now();
    let closed = tokio::time::timeout(TTL, waiting).await.expect("it hears of the close");
    assert_eq!(closed.unwrap().err(), Some(AcquireError::Closed));
    assert_eq!(began.elapsed(), Duration::ZERO);
}
