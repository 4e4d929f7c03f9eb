//! The capabilities of `MemoryBackend` beyond their laws: exact times, exact hints, what the store forgets.
#![cfg(feature = "memory")]

use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::{MemoryBackend, Stats, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, ErrorKind, FencingToken, Grant, Hint,
};
use lock_core::{
    InspectBackend, Key, Kind, Mode, OwnerToken, PermitBackend, Permits, Resize, Result,
};
use lock_core::{Stored, Ttl, Watch};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(60 * 60);

fn key() -> Key {
    Key::new("key").expect("short")
}

fn request(mode: Mode) -> Result<Acquire> {
    let claim = Claim::exclusive(key(), OwnerToken::generate()?).in_mode(mode);
    Ok(Acquire::new(claim, Ttl::new(30 * SECOND)?))
}

fn permits(take: u32, of: u32) -> Result<Acquire> {
    request(Mode::Permits { take, of })
}

async fn granted(client: &MemoryBackend, request: &Acquire) -> Grant {
    match client.try_acquire(request).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

async fn queued(client: &MemoryBackend, request: Acquire) {
    let attempt = client.try_acquire(&request).await;
    assert!(matches!(attempt, Ok(AcquireOutcome::Queued { .. })), "{attempt:?}");
}

fn heard(watch: &mut Watch) -> Vec<Hint> {
    std::iter::from_fn(|| watch.next().now_or_never().flatten()).collect()
}

fn two_clients() -> (MemoryBackend, MemoryBackend) {
    let backend = MemoryBackend::new();
    (backend.client(), backend)
}

#[tokio::test(start_paused = true)]
async fn an_unused_limit_is_forgotten_after_an_hour() -> Result<()> {
    let (one, other) = two_clients();
    granted(&one, &permits(1, 3)?).await;
    // The semaphore was last in use when the lease expired.
    tokio::time::advance(HOUR + 29 * SECOND).await;
    let error = other.permits(&key(), 5).await.expect_err("another was declared");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    tokio::time::advance(SECOND).await;
    assert_eq!(other.permits(&key(), 5).await?, Permits::new(5));

    // A changed limit is remembered.
    other.resize(&key(), 5, Resize::Add(1)).await?;
    tokio::time::advance(24 * HOUR).await;
    assert!(one.permits(&key(), 3).await.is_err());
    assert_eq!(one.permits(&key(), 5).await?.limit, 6);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_request_for_more_than_there_are_waits_without_a_time() -> Result<()> {
    let (one, other) = two_clients();
    one.resize(&key(), 3, Resize::Remove(2)).await?;
    let all = permits(3, 3)?;
    assert_eq!(one.try_acquire(&all).await?, AcquireOutcome::Busy { retry_after: None });
    granted(&one, &permits(1, 3)?).await;
    assert_eq!(other.try_acquire(&all).await?, AcquireOutcome::Busy { retry_after: None });
    let one_more = AcquireOutcome::Busy { retry_after: Some(30 * SECOND) };
    assert_eq!(other.try_acquire(&permits(1, 3)?).await?, one_more);
    // So does a request for more permits than there ever were.
    assert_eq!(
        other.try_acquire(&permits(4, 3)?).await?,
        AcquireOutcome::Busy { retry_after: None }
    );
    let mut watch = other.watch(&key()).await?;
    queued(&other, permits(4, 3)?.queued()).await;
    heard(&mut watch);
    one.resize(&key(), 3, Resize::Add(4)).await?;
    assert!(matches!(heard(&mut watch)[..], [Hint::Released, Hint::Granted { .. }]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_most_permits_are_counted_exactly() -> Result<()> {
    const MAX: u32 = Permits::MAX;
    let (one, other) = two_clients();
    granted(&one, &permits(MAX - 1, MAX)?).await;
    let last = permits(1, MAX)?;
    granted(&other, &last).await;
    let attempt = other.try_acquire(&permits(1, MAX)?).await?;
    assert!(matches!(attempt, AcquireOutcome::Busy { .. }), "{attempt:?}");
    let all = other.permits(&key(), MAX).await?;
    assert_eq!((all.held, all.available()), (MAX, 0));
    other.release(&last.claim).await?;
    assert_eq!(one.permits(&key(), MAX).await?.available(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn closing_tells_all_clients_and_drops_only_claims_for_permits() -> Result<()> {
    let (holder, waiter) = two_clients();
    let mut watches = [holder.watch(&key()).await?, waiter.watch(&key()).await?];
    let held = permits(1, 1)?;
    granted(&holder, &held).await;
    queued(&waiter, permits(1, 1)?.queued()).await;
    let writer = request(Mode::Exclusive)?.queued();
    queued(&waiter, writer.clone()).await;
    watches.iter_mut().for_each(|watch| drop(heard(watch)));

    holder.close(&key(), 1).await?;
    for watch in &mut watches {
        assert_eq!(heard(watch), [Hint::Released]);
    }
    assert_eq!(waiter.permits(&key(), 1).await?.waiting, 1);
    holder.release(&held.claim).await?;
    let pushed = heard(&mut watches[1]);
    assert!(
        matches!(pushed[..], [Hint::Granted { owner, .. }] if owner == writer.claim.owner),
        "{pushed:?}"
    );
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_forced_release_tells_the_holders_and_the_heir() -> Result<()> {
    let (holder, waiter) = two_clients();
    let mut ours = holder.watch(&key()).await?;
    let mut theirs = waiter.watch(&key()).await?;
    granted(&holder, &request(Mode::Exclusive)?).await;
    queued(&waiter, request(Mode::Exclusive)?.queued()).await;
    heard(&mut ours);
    assert_eq!(waiter.force_release(&key()).await?, 1);
    assert_eq!(heard(&mut ours), [Hint::Released]);
    assert!(matches!(heard(&mut theirs)[..], [Hint::Released, Hint::Granted { .. }]));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_inspection_counts_what_it_does_not_list() -> Result<()> {
    const READERS: u64 = 1005;
    let (one, other) = two_clients();
    for _ in 0..READERS {
        granted(&one, &request(Mode::Shared)?).await;
    }
    let inspection = other.inspect(&key()).await?;
    assert_eq!((inspection.holders.len(), inspection.holding), (1000, READERS));
    assert!(inspection.holders.iter().all(|holder| holder.kind == Kind::Shared));
    assert!(inspection.holders.iter().all(|holder| holder.remaining == Some(30 * SECOND)));
    assert_eq!(other.force_release(&key()).await?, READERS);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn forgetting_everything_includes_limits_and_values() -> Result<()> {
    let (one, other) = two_clients();
    let held = request(Mode::Exclusive)?;
    let token = granted(&one, &held).await.tokens.first();
    assert_eq!(one.store(&held.claim, token, Some(b"value")).await?, Stored::Written);
    one.release(&held.claim).await?;
    one.close(&key(), 3).await?;
    MemoryBackend::forget(&one);
    assert_eq!(other.load(&key()).await?, None);
    assert_eq!(other.permits(&key(), 5).await?, Permits::new(5));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_value_keeps_its_key_from_being_swept_away() -> Result<()> {
    let (one, other) = two_clients();
    let held = request(Mode::Exclusive)?;
    let token = granted(&one, &held).await.tokens.first();
    let _written = one.store(&held.claim, token, Some(b"value")).await?;
    one.release(&held.claim).await?;
    for index in 0..1000 {
        let key = Key::new(format!("other {index}"))?;
        let claim = Claim::exclusive(key, OwnerToken::generate()?);
        granted(&one, &Acquire::new(claim.clone(), Ttl::DEFAULT)).await;
        one.release(&claim).await?;
    }
    let cell = other.load(&key()).await?.expect("it was stored");
    assert_eq!((cell.value.as_slice(), cell.token, cell.held), (&b"value"[..], token, false));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn of_several_keys_the_free_ones_are_refused_without_a_time() -> Result<()> {
    let (one, other) = two_clients();
    granted(&other, &request(Mode::Exclusive)?).await;
    let free =
        Acquire::new(Claim::exclusive(Key::new("free")?, OwnerToken::generate()?), Ttl::DEFAULT);
    let both = [free.clone(), request(Mode::Shared)?];
    let answers = one.try_acquire_all(&both).await?;
    let expected =
        [None, Some(30 * SECOND)].map(|retry_after| AcquireOutcome::Busy { retry_after });
    assert_eq!(answers, Some(expected.to_vec()));

    // In different modes.
    let second = Claim::exclusive(Key::new("second")?, OwnerToken::generate()?);
    let reader = Acquire::new(second.in_mode(Mode::Shared), Ttl::DEFAULT);
    let answers = one.try_acquire_all(&[free.clone(), reader.clone()]).await?.expect("it can");
    assert!(
        answers.iter().all(|answer| matches!(answer, AcquireOutcome::Granted(_))),
        "{answers:?}"
    );
    assert_eq!(one.try_acquire_all(&[]).await?, Some(Vec::new()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_capabilities_are_counted_and_fail_as_the_verbs_do() -> Result<()> {
    let (client, _) = two_clients();
    let held = request(Mode::Exclusive)?;
    let token = FencingToken::new(1);
    let faults = client.faults();
    for verb in [Verb::Count, Verb::Cell, Verb::Inspect] {
        faults.on(verb).fail_next(1, ErrorKind::Timeout);
    }
    let failures = [
        client.permits(&key(), 3).await.err(),
        client.load(&key()).await.err(),
        client.inspect(&key()).await.err(),
    ];
    for error in failures {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Timeout));
    }
    client.resize(&key(), 3, Resize::Add(1)).await?;
    PermitBackend::forget(&client, &permits(1, 3)?.claim).await?;
    client.close(&key(), 3).await?;
    assert_eq!(client.store(&held.claim, token, None).await?, Stored::NotHeld);
    client.force_release(&key()).await?;
    let mut expected = Stats::default();
    (expected.counts, expected.cells, expected.inspections) = (4, 2, 2);
    assert_eq!(client.stats(), expected);
    assert_eq!(client.stats().total(), 8);

    faults.cut();
    assert_eq!(client.permits(&key(), 3).await.map_err(|e| e.kind()), Err(ErrorKind::Unreachable));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn only_permits_are_forgotten() -> Result<()> {
    let (client, _) = two_clients();
    let held = request(Mode::Exclusive)?;
    granted(&client, &held).await;
    let error = PermitBackend::forget(&client, &held.claim).await.expect_err("a mutex");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert_eq!(client.live_leases(), 1);
    Ok(())
}
