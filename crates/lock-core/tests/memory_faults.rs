//! The fault switches of `MemoryBackend` work as documented, on their own client alone.
#![cfg(feature = "memory")]

use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::{Faults, MemoryBackend, Stats, Verb};
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Error, ErrorKind, Hint, Key, OwnerToken};
use lock_core::{Released, Renew, Renewal, Result, Ttl};

const TTL: Duration = Duration::from_secs(30);

/// A client with faults, another without, and a claim.
fn scene() -> Result<(MemoryBackend, Faults, MemoryBackend, Acquire)> {
    let faulty = MemoryBackend::new();
    let claim = Claim::exclusive(Key::new("key")?, OwnerToken::generate()?);
    let request = Acquire::new(claim, Ttl::new(TTL)?);
    Ok((faulty.clone(), faulty.faults(), faulty.client(), request))
}

fn is_granted(attempt: &Result<AcquireOutcome>) -> bool {
    matches!(attempt, Ok(AcquireOutcome::Granted(_)))
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("a fault was due").kind()
}

#[tokio::test]
async fn failing_requests_are_counted_off_and_not_applied() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    faults.fail_next(2, ErrorKind::NotReady);
    assert_eq!(kind(backend.try_acquire(&request).await), ErrorKind::NotReady);
    assert!(matches!(
        backend.renew(&Renew::new(request.claim.clone(), request.ttl)).await,
        Renewal::Unknown(error) if error.kind() == ErrorKind::NotReady
    ));
    assert_eq!(other.live_leases(), 0);
    assert!(is_granted(&backend.try_acquire(&request).await));
    assert!(matches!(other.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_))));
    Ok(())
}

#[tokio::test]
async fn a_scope_concerns_its_verb_alone() -> Result<()> {
    let (backend, faults, _, request) = scene()?;
    faults.on(Verb::Renew).fail(ErrorKind::Timeout);
    assert!(is_granted(&backend.try_acquire(&request).await));
    for _ in 0..3 {
        let renewal = backend.renew(&Renew::new(request.claim.clone(), request.ttl)).await;
        assert!(matches!(renewal, Renewal::Unknown(_)), "{renewal:?}");
    }
    faults.heal();
    let renewal = backend.renew(&Renew::new(request.claim.clone(), request.ttl)).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    Ok(())
}

#[tokio::test]
async fn a_lost_reply_leaves_its_request_applied() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    faults.lose_replies(1);
    assert_eq!(kind(backend.try_acquire(&request).await), ErrorKind::Unreachable);
    assert_eq!(other.live_leases(), 1);
    assert!(is_granted(&backend.try_acquire(&request).await), "the next reply is not lost");
    Ok(())
}

#[tokio::test]
async fn a_cut_fails_requests_and_ends_watches_until_healed() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let key = &request.claim.key;
    assert!(is_granted(&backend.try_acquire(&request).await));
    let mut watch = backend.watch(key).await?;
    let mut unharmed = other.watch(key).await?;
    faults.cut();
    assert_eq!(watch.next().await, None);
    assert_eq!(kind(backend.watch(key).await), ErrorKind::Unreachable);
    assert_eq!(kind(backend.release(&request.claim).await), ErrorKind::Unreachable);
    assert_eq!(unharmed.next().now_or_never(), None, "the cut is the first client's");
    faults.heal();
    assert_eq!(backend.release(&request.claim).await?, Released::Freed { told: 1 });
    assert_eq!(unharmed.next().await, Some(Hint::Released));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_cut_strikes_what_is_under_way() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let gate = faults.hold_replies();
    let task = tokio::spawn({
        let (backend, request) = (backend.clone(), request.clone());
        async move { backend.try_acquire(&request).await }
    });
    gate.arrived(1).await;
    faults.cut();
    gate.open();
    assert_eq!(kind(task.await.expect("no panic")), ErrorKind::Unreachable);
    assert_eq!(other.live_leases(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn delays_lie_before_and_after_the_effect() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let second = Duration::from_secs(1);
    faults.delay_requests(3 * second);
    faults.delay_replies(4 * second);
    let start = tokio::time::Instant::now();
    let task = tokio::spawn(async move { backend.try_acquire(&request).await });
    tokio::time::sleep(2 * second).await;
    assert_eq!(other.live_leases(), 0);
    tokio::time::sleep(2 * second).await;
    assert_eq!(other.live_leases(), 1);
    assert!(is_granted(&task.await.expect("no panic")));
    assert_eq!(start.elapsed(), 7 * second);
    Ok(())
}

#[tokio::test]
async fn a_gate_lets_through_as_many_as_it_is_told() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let gate = faults.on(Verb::Acquire).hold_requests();
    let mut first = backend.try_acquire(&request);
    let mut second = backend.try_acquire(&request);
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    gate.arrived(2).await;
    assert_eq!(other.live_leases(), 0);
    gate.let_through(1);
    assert!(is_granted(&first.await));
    assert!((&mut second).now_or_never().is_none());
    drop(gate);
    assert!(is_granted(&second.await), "a dropped gate is open");
    assert!(is_granted(&backend.try_acquire(&request).await), "and stays open");
    Ok(())
}

#[tokio::test]
async fn a_request_dropped_at_a_gate_has_no_effect_and_a_reply_has() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let before = faults.hold_requests();
    assert!(backend.try_acquire(&request).now_or_never().is_none());
    before.open();
    assert_eq!(other.live_leases(), 0);
    let after = faults.hold_replies();
    assert!(backend.try_acquire(&request).now_or_never().is_none());
    after.arrived(1).await;
    assert_eq!(other.live_leases(), 1);
    Ok(())
}

#[tokio::test]
async fn healing_opens_gates() -> Result<()> {
    let (backend, faults, _, request) = scene()?;
    let _gate = faults.hold_requests();
    let mut held = backend.try_acquire(&request);
    assert!((&mut held).now_or_never().is_none());
    faults.heal();
    assert!(is_granted(&held.await));
    Ok(())
}

#[tokio::test]
async fn hints_can_be_lost_and_made_up() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    let key = &request.claim.key;
    let mut watch = backend.watch(key).await?;
    faults.mute_hints(true);
    assert!(is_granted(&other.try_acquire(&request).await));
    assert_eq!(other.release(&request.claim).await?, Released::Freed { told: 1 });
    assert_eq!(watch.next().now_or_never(), None);
    faults.hint(key, Hint::Expired);
    assert_eq!(watch.next().await, Some(Hint::Expired));
    faults.heal();
    assert!(is_granted(&other.try_acquire(&request).await));
    other.release(&request.claim).await?;
    assert_eq!(watch.next().await, Some(Hint::Released));
    Ok(())
}

#[tokio::test]
async fn a_dropped_watch_is_gone() -> Result<()> {
    let (backend, _, other, request) = scene()?;
    let watch = other.watch(&request.claim.key).await?;
    let second = other.watch(&request.claim.key).await?;
    for (watch, told) in [(watch, 1), (second, 0)] {
        assert!(is_granted(&backend.try_acquire(&request).await));
        drop(watch);
        let released = backend.release(&request.claim).await?;
        assert_eq!(released, Released::Freed { told });
    }
    Ok(())
}

#[tokio::test]
async fn forgetting_drops_leases_and_sends_no_hint() -> Result<()> {
    let (backend, _, other, request) = scene()?;
    // The range reaches ahead of the clock, so the time as a floor would not be enough.
    let greedy = request.clone().reserving(std::num::NonZeroU32::new(1_000_000).expect("not 0"));
    let Ok(AcquireOutcome::Granted(before)) = backend.try_acquire(&greedy).await else { panic!() };
    assert_eq!(before.tokens.count().get(), 1_000_000);
    let mut watch = other.watch(&request.claim.key).await?;
    backend.forget();
    assert_eq!(backend.live_leases(), 0);
    assert_eq!(watch.next().now_or_never(), None);
    assert!(matches!(
        backend.renew(&Renew::new(request.claim.clone(), request.ttl)).await,
        Renewal::Lost
    ));
    let Ok(AcquireOutcome::Granted(after)) = other.try_acquire(&request).await else { panic!() };
    assert!(after.tokens.first() > before.tokens.last());
    Ok(())
}

#[tokio::test]
async fn requests_are_counted_by_client_and_verb() -> Result<()> {
    let (backend, faults, other, request) = scene()?;
    faults.fail_next(1, ErrorKind::Timeout);
    let failed = backend.try_acquire(&request).await;
    assert!(failed.is_err());
    let before = backend.stats();
    assert_eq!(before.acquires, 1, "a request counts although it fails");
    assert!(is_granted(&backend.clone().try_acquire(&request).await));
    let _watch = backend.watch(&request.claim.key).await?;
    let _renewal = backend.renew(&Renew::new(request.claim.clone(), request.ttl)).await;
    backend.release(&request.claim).await?;
    let since = backend.stats().since(before);
    assert_eq!((since.acquires, since.renewals, since.releases, since.watches), (1, 1, 1, 1));
    assert_eq!(backend.stats().total(), 5);
    assert_eq!(other.stats(), Stats::default());
    Ok(())
}
