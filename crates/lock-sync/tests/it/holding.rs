//! What a holder hears and sends while it holds a lock that other processes want.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lock_core::memory::Verb;
use lock_core::{Hint, Key};
use lock_sync::{Handoff, MutexGuard, OwnedMutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::support::{Pair, poll_once};

#[tokio::test(start_paused = true)]
async fn a_holder_hears_at_once_that_its_key_is_gone() {
    let pair = Pair::local_with(|builder| builder.ttl(Duration::from_secs(30)));
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let key = Key::new("it").unwrap();
    sleep(Duration::from_secs(1)).await;
    // A hint about another event does no harm.
    for hint in [Hint::Changed, Hint::Released, Hint::Expired] {
        pair.ours.faults().hint(&key, hint);
        sleep(Duration::from_millis(100)).await;
        assert!(MutexGuard::lease(&guard).is_valid());
    }
    pair.store.forget();
    pair.ours.faults().hint(&key, Hint::Released);
    let begin = Instant::now();
    MutexGuard::lease(&guard).lost().await;
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_and_holding_costs_renewals_only() {
    static HOLDERS: AtomicU32 = AtomicU32::new(0);
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let here = Arc::new(here);
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let here = Arc::clone(&here);
            tokio::spawn(async move {
                let _guard = here.lock().await.unwrap();
                HOLDERS.fetch_add(1, Ordering::SeqCst);
            })
        })
        .collect();
    sleep(Duration::from_secs(1)).await;
    let before = pair.ours.stats();
    sleep(ttl * 10).await;
    let requests = pair.ours.stats().since(before).total();
    assert!(requests <= 31, "a place is renewed every third of the lease: {requests}");
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(HOLDERS.load(Ordering::SeqCst), 100);
}

/// A guard that entered on a grant: its lease is short until it is renewed.
async fn handed_over(pair: &Pair) -> lock_sync::OwnedMutexGuard<u32> {
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let mut waiting = Box::pin(Arc::new(here).lock_owned());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(Duration::from_millis(50)).await;
    drop(guard);
    waiting.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_handed_over_survives_a_renewal_that_stalls() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).handoff(Handoff::Fair));
    let guard = handed_over(&pair).await;
    assert!(OwnedMutexGuard::lease(&guard).remaining() < Duration::from_secs(1));
    let renewals = pair.ours.stats().renewals;
    pair.ours.faults().on(Verb::Renew).delay_requests(Duration::from_secs(3600));
    while pair.ours.stats().renewals == renewals {
        sleep(Duration::from_millis(1)).await;
    }
    pair.ours.faults().on(Verb::Renew).delay_requests(Duration::ZERO);
    sleep(ttl).await;
    assert!(OwnedMutexGuard::lease(&guard).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_handed_over_is_claimed_in_a_moment() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).handoff(Handoff::Fair));
    let guard = handed_over(&pair).await;
    sleep(Duration::from_millis(150)).await;
    assert!(
        OwnedMutexGuard::lease(&guard).remaining() > ttl * 9 / 10,
        "{:?}",
        OwnedMutexGuard::lease(&guard).remaining()
    );
    // From here on it is an ordinary lease.
    pair.ours.faults().cut();
    sleep(ttl / 2).await;
    pair.ours.faults().heal();
    sleep(ttl).await;
    assert!(OwnedMutexGuard::lease(&guard).is_valid());
}

#[tokio::test(start_paused = true)]
async fn an_older_answer_does_not_undo_a_wish() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).handoff(Handoff::Fair));
    let (here, there) = pair.mutexes();
    let here = here.with_cache(Duration::from_secs(3600));
    let guard = here.lock().await.unwrap();
    sleep(Duration::from_millis(500)).await;
    // The store executes the renewal while no client waits. Its answer arrives after a client has begun to wait.
    let gate = pair.ours.faults().on(Verb::Renew).hold_replies();
    gate.arrived(1).await;
    let mut rival = Box::pin(there.lock());
    assert!(poll_once(rival.as_mut()).await.is_pending());
    sleep(Duration::from_millis(20)).await;
    gate.open();
    sleep(Duration::from_millis(20)).await;
    drop(guard);
    let begin = Instant::now();
    drop(rival.await.unwrap());
    assert!(begin.elapsed() < Duration::from_millis(100), "{:?}", begin.elapsed());
}

/// A task may begin a release and then poll it no more, in a `select!` for example.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_never_polled_again_keeps_the_lock_for_one_lease() {
    let ttl = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, _) = pair.mutexes();
    let gate = pair.ours.faults().on(Verb::Release).hold_requests();
    let mut first = Box::pin(MutexGuard::release(here.lock().await.unwrap()));
    assert!(poll_once(first.as_mut()).await.is_pending());
    let begin = Instant::now();
    let guard = timeout(ttl * 2, here.lock()).await.unwrap().unwrap();
    assert!(begin.elapsed() < ttl + Duration::from_secs(1), "{:?}", begin.elapsed());
    let mut second = Box::pin(MutexGuard::release(guard));
    assert!(poll_once(second.as_mut()).await.is_pending());
    gate.open();
    first.await.unwrap_err();
    assert!(pair.there.try_lock("it").await.is_err(), "the second release is not carried out");
    second.await.unwrap();
    assert!(pair.there.try_lock("it").await.is_ok());
}

/// The answers take a quarter of the lease.
#[tokio::test(start_paused = true)]
async fn a_lease_of_a_slow_store_is_renewed() {
    let ttl = Duration::from_secs(1);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = pair.mutexes();
    pair.ours.faults().delay_requests(ttl / 8);
    pair.ours.faults().delay_replies(ttl / 8);
    let guard = here.lock().await.unwrap();
    sleep(ttl * 20).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(there.try_lock().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_store_that_becomes_slow_is_renewed() {
    let ttl = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(ttl));
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    sleep(ttl).await;
    pair.ours.faults().delay_requests(ttl / 10);
    pair.ours.faults().delay_replies(ttl / 10);
    sleep(ttl * 20).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(there.try_lock().await.is_err());
}

/// The store gives the lock to the next in line for a second, and answers after 300 ms.
#[tokio::test(start_paused = true)]
async fn a_lease_that_a_slow_store_hands_over_is_renewed() {
    let pair = Pair::local_with(|builder| builder.ttl(Duration::from_secs(30)));
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(Duration::from_secs(1)).await;
    pair.ours.faults().delay_requests(Duration::from_millis(150));
    pair.ours.faults().delay_replies(Duration::from_millis(150));
    drop(guard);
    let guard = waiting.await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(there.try_lock().await.is_err());
}
