//! What tokio's semaphore does, counted over two clients.

use std::sync::Arc;
use std::time::Duration;

use lock_core::ErrorKind;
use lock_sync::{AcquireError, Declaration, PollSemaphore, Semaphore, TryAcquireError};

use crate::support::{Pair, eventually, poll_once};

impl Pair {
    /// One semaphore on both sides.
    pub(crate) fn semaphores(&self, permits: usize) -> (Semaphore, Semaphore) {
        let semaphore = |locks: &lock_sync::Locks<_>| locks.semaphore("permits", permits).unwrap();
        (semaphore(&self.here), semaphore(&self.there))
    }
}

/// Waits until the store reports this number of free permits.
pub(crate) async fn becomes_available(semaphore: &Semaphore, permits: usize) {
    let free = async {
        while semaphore.available_permits().await.unwrap() != permits {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let limit = Duration::from_secs(10);
    let in_time = tokio::time::timeout(limit, free).await;
    assert!(in_time.is_ok(), "{permits} permits never became free");
}

#[tokio::test]
async fn another_number_in_the_same_process_is_refused_too() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(2);
    let wrong = pair.here.semaphore("permits", 3).unwrap();
    let held = here.acquire_many(2).await.unwrap();
    let mut waiting = Box::pin(here.acquire());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    let mut refused = Box::pin(wrong.acquire());
    let early = poll_once(refused.as_mut()).await;
    drop(held);
    assert!(waiting.await.unwrap().lease().is_valid(), "who says the right number is served");
    let refused = match early {
        std::task::Poll::Ready(result) => result,
        std::task::Poll::Pending => refused.await,
    };
    match refused {
        Err(AcquireError::Backend(error)) => assert_eq!(error.kind(), ErrorKind::InvalidConfig),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn none_are_granted_at_once_unless_it_is_closed() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(1);
    let _all = there.acquire().await.unwrap();
    let before = pair.ours.stats();
    let mut none = here.acquire_many(0).await.unwrap();
    assert_eq!(pair.ours.stats(), before, "no request is sent");
    assert_eq!((none.num_permits(), none.lease().fencing_token().get()), (0, 0));
    assert!(none.lease().is_valid() && none.lease().remaining() > Duration::from_secs(3600));
    assert!(none.split(1).is_none());
    assert_eq!(none.split(0).unwrap().num_permits(), 0);
    none.merge(here.try_acquire_many(0).await.unwrap());
    none.release().await.unwrap();
    here.close();
    assert_eq!(here.acquire_many(0).await.err(), Some(AcquireError::Closed));
    assert_eq!(here.try_acquire_many(0).await.err(), Some(TryAcquireError::Closed));
}

#[tokio::test]
async fn none_are_granted_after_the_shutdown() {
    for last_wins in [false, true] {
        let pair = Pair::threaded();
        let (mut here, _) = pair.semaphores(1);
        if last_wins {
            here = here.with_declaration(Declaration::LastWins);
        }
        pair.here.shutdown().await;
        assert_eq!(here.acquire_many(0).await.err(), Some(AcquireError::Closed));
        assert!(here.is_closed(), "the refusal says so");
        let again = pair.here.semaphore("permits", 1).unwrap();
        assert_eq!(again.try_acquire_many(0).await.err(), Some(TryAcquireError::Closed));
    }
}

#[tokio::test]
async fn more_than_there_are_waits_for_more() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(3);
    assert_eq!(here.try_acquire_many(4).await.err(), Some(TryAcquireError::NoPermits));
    let mut waiting = Box::pin(here.acquire_many(4));
    let limit = Duration::from_millis(30);
    assert!(tokio::time::timeout(limit, waiting.as_mut()).await.is_err());
    there.add_permits(1).await.unwrap();
    let permit = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert_eq!(permit.num_permits(), 4);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn more_than_the_greatest_number_is_refused_before_anything_is_sent() {
    let pair = Pair::threaded();
    assert_eq!(Semaphore::MAX_PERMITS, u32::MAX as usize);
    let error = pair.here.semaphore("permits", Semaphore::MAX_PERMITS + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(error.to_string(), "4294967296 permits are too many: 4294967295 at most");
    let error = pair.here.semaphore("x".repeat(600), 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidKey);
    assert_eq!(pair.ours.stats().total(), 0);
}

#[tokio::test]
async fn counts_are_exact_up_to_the_greatest() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(Semaphore::MAX_PERMITS);
    let most = here.acquire_many(u32::MAX - 1).await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), 1);
    let mut last = there.acquire().await.unwrap();
    assert_eq!(here.try_acquire().await.err(), Some(TryAcquireError::NoPermits));
    assert_eq!(there.add_permits(1).await.unwrap_err().kind(), ErrorKind::InvalidConfig);
    most.release().await.unwrap();
    assert_eq!(there.available_permits().await.unwrap(), u32::MAX as usize - 1);
    last.merge(there.acquire_many(u32::MAX - 1).await.unwrap());
    assert_eq!(last.num_permits(), u32::MAX as usize);
}

#[tokio::test]
async fn a_permit_can_be_divided_and_put_together() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(6);
    let mut permit = here.acquire_many(5).await.unwrap();
    assert!(permit.split(6).is_none());
    let mut two = permit.split(2).unwrap();
    assert_eq!((permit.num_permits(), two.num_permits()), (3, 2));
    assert_eq!(two.lease().fencing_token(), permit.lease().fencing_token());
    assert!(two.lease().is_valid() && permit.lease().is_valid());
    assert_eq!(there.available_permits().await.unwrap(), 1);

    // Part of it goes back at once, while the rest is held.
    two.release().await.unwrap();
    becomes_available(&there, 3).await;
    let theirs = there.acquire_many(3).await.unwrap();
    assert!(permit.lease().is_valid());
    drop(theirs);
    becomes_available(&here, 3).await;

    let other = here.acquire_many(2).await.unwrap();
    let (early, late) = (permit.lease().fencing_token(), other.lease().fencing_token());
    assert!(early < late);
    permit.merge(other);
    assert_eq!(permit.num_permits(), 5);
    assert_eq!(permit.lease().fencing_token(), early, "the lowest");
    two = permit.split(4).unwrap();
    assert_eq!((permit.num_permits(), two.num_permits()), (1, 4));
    let none = permit.split(0).unwrap();
    drop((none, permit));
    becomes_available(&there, 2).await;
    drop(two);
    becomes_available(&there, 6).await;
    pair.all_released().await;
}

#[tokio::test]
async fn splitting_and_merging_send_no_request() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(8);
    let mut permit = here.acquire_many(8).await.unwrap();
    let before = pair.ours.stats().acquires;
    let parts: Vec<_> = (0..8).map(|_| permit.split(1).unwrap()).collect();
    assert_eq!(permit.num_permits(), 0);
    for part in parts {
        permit.merge(part);
    }
    assert_eq!(permit.num_permits(), 8);
    assert_eq!(pair.ours.stats().acquires, before);
    assert!(permit.lease().is_valid());
    permit.release().await.unwrap();
    pair.all_released().await;
}

#[tokio::test]
async fn owned_permits_move_into_tasks() {
    let pair = Pair::threaded();
    let semaphore = Arc::new(pair.semaphores(3).0);
    let mut permit = Arc::clone(&semaphore).acquire_many_owned(2).await.unwrap();
    assert!(Arc::ptr_eq(permit.semaphore(), &semaphore));
    permit.merge(Arc::clone(&semaphore).try_acquire_owned().await.unwrap());
    let two = permit.split(2).unwrap();
    let holding = tokio::spawn(async move { permit.num_permits() });
    assert_eq!(holding.await.unwrap(), 1);
    becomes_available(&semaphore, 1).await;
    let refused = Arc::clone(&semaphore).try_acquire_many_owned(2).await;
    assert_eq!(refused.err(), Some(TryAcquireError::NoPermits));
    drop(two);
    let limit = Duration::from_secs(10);
    assert!(Arc::clone(&semaphore).acquire_many_owned_timeout(3, limit).await.is_ok());
    assert!(Arc::clone(&semaphore).acquire_owned_timeout(limit).await.is_ok());
    assert!(std::ptr::eq(semaphore.acquire().await.unwrap().semaphore(), &*semaphore));
}

#[tokio::test(start_paused = true)]
async fn a_wait_has_a_limit() {
    let limit = Duration::from_secs(2);
    let pair = Pair::local_with(|builder| builder.wait_limit(limit));
    let (here, there) = pair.semaphores(2);
    let _held = there.acquire_many(2).await.unwrap();
    let begin = tokio::time::Instant::now();
    let late = AcquireError::Timeout { source: None };
    assert_eq!(here.acquire().await.err(), Some(late.clone()));
    assert!(begin.elapsed() >= limit && begin.elapsed() < limit * 2);
    let begin = tokio::time::Instant::now();
    assert_eq!(here.acquire_many_timeout(2, limit * 2).await.err(), Some(late.clone()));
    assert_eq!(here.acquire_timeout(limit * 2).await.err(), Some(late));
    assert!(begin.elapsed() >= limit * 4);
}

#[test]
fn a_plain_thread_can_acquire() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(2);
    let here = Arc::new(here);
    let one = Arc::clone(&here).blocking_acquire_owned().unwrap();
    let other = here.blocking_acquire().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| there.blocking_acquire_many(2).map(|p| p.num_permits()));
        drop((one, other));
        assert_eq!(waiting.join().unwrap(), Ok(2));
    });
    assert_eq!(here.blocking_acquire_many_owned(2).unwrap().num_permits(), 2);
}

/// The timers of the store must not belong to a runtime that no thread drives.
#[test]
fn a_thread_that_blocks_needs_no_runtime_of_its_own() {
    let pair = Pair::threaded();
    let semaphore = Arc::new(pair.semaphores(2).0);
    let undriven = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = undriven.enter();
    pair.ours.faults().delay_replies(Duration::from_millis(2));
    let permit = semaphore.blocking_acquire().unwrap();
    let owned = Arc::clone(&semaphore).blocking_acquire_owned().unwrap();
    assert!(permit.lease().is_valid() && owned.lease().is_valid());
}

#[tokio::test]
async fn a_permit_can_be_polled_for() {
    let pair = Pair::threaded();
    let (here, there) = pair.semaphores(2);
    let mut polled = PollSemaphore::new(Arc::new(here));
    let permit = std::future::poll_fn(|context| polled.poll_acquire(context)).await.unwrap();
    let held = there.acquire().await.unwrap();
    assert!(poll_once(std::pin::pin!(polled_permit(&mut polled, 1))).await.is_pending());
    // Another number begins a new wait. The position is kept from poll to poll.
    assert!(poll_once(std::pin::pin!(polled_permit(&mut polled, 2))).await.is_pending());
    drop(permit);
    assert!(poll_once(std::pin::pin!(polled_permit(&mut polled, 2))).await.is_pending());
    eventually("it stands in line", || pair.ours.stats().acquires >= 2).await;
    drop(held);
    assert_eq!(polled_permit(&mut polled, 2).await.unwrap().num_permits(), 2);
    let mut another = polled.clone();
    assert!(Arc::ptr_eq(another.semaphore(), polled.semaphore()));
    polled.close();
    assert_eq!(polled_permit(&mut another, 1).await.err(), Some(AcquireError::Closed));
    assert!(polled.into_inner().is_closed());
    pair.all_released().await;
}

async fn polled_permit(
    polled: &mut PollSemaphore,
    count: u32,
) -> Result<lock_sync::OwnedSemaphorePermit, AcquireError> {
    std::future::poll_fn(|context| polled.poll_acquire_many(context, count)).await
}

#[tokio::test]
async fn debug_sends_no_request() {
    let pair = Pair::threaded();
    let (here, _) = pair.semaphores(3);
    let permit = here.acquire_many(2).await.unwrap();
    let asked = pair.ours.stats();
    let shown = format!("{permit:?}");
    assert!(shown.starts_with(r#"SemaphorePermit { key: Key("permits"), permits: 2, "#), "{shown}");
    let expected = r#"Semaphore { key: Key("permits"), declared: 3, closed: false }"#;
    assert_eq!(format!("{here:?}"), expected);
    assert_eq!(format!("{:?}", here.acquire()), r#"Acquire { key: Key("permits"), .. }"#);
    assert_eq!(pair.ours.stats(), asked);
}
