//! The queue of `MemoryBackend` beyond the laws: exact times, exact messages, its limit.
#![cfg(feature = "memory")]

use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Contention, ErrorKind, Grant, Hint, Key, Mode,
};
use lock_core::{OwnerToken, Released, Renew, Renewal, Result, Ttl, Watch};

const SECOND: Duration = Duration::from_secs(1);

fn key() -> Key {
    Key::new("key").expect("short")
}

fn request() -> Result<Acquire> {
    let claim = Claim::exclusive(key(), OwnerToken::generate()?);
    Ok(Acquire::new(claim, Ttl::new(30 * SECOND)?).queued())
}

async fn granted(client: &MemoryBackend, request: &Acquire) -> Grant {
    match client.try_acquire(request).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

async fn queued(client: &MemoryBackend, request: &Acquire) -> Duration {
    match client.try_acquire(request).await {
        Ok(AcquireOutcome::Queued { retry_after: Some(time) }) => time,
        other => panic!("{other:?}"),
    }
}

/// The hints that a watch has now.
fn heard(watch: &mut Watch) -> Vec<Hint> {
    std::iter::from_fn(|| watch.next().now_or_never().flatten()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_says_all_and_to_one_client_alone() -> Result<()> {
    let (holder, first, second) = three_clients();
    let (held, mine, theirs) = (request()?, request()?, request()?);
    let mut watches =
        (holder.watch(&key()).await?, first.watch(&key()).await?, second.watch(&key()).await?);
    assert_eq!(granted(&holder, &held).await.contention, Contention::Quiet);
    queued(&first, &mine).await;
    queued(&second, &theirs).await;
    assert_eq!(heard(&mut watches.0), [Hint::Contended], "once, when the queue ceased to be empty");

    assert_eq!(holder.release(&held.claim).await?, Released::Freed { told: 0 });
    assert_eq!(heard(&mut watches.0), []);
    let next = Hint::Next { owner: theirs.claim.owner, after: SECOND };
    assert_eq!(heard(&mut watches.2), [next]);
    let pushed = heard(&mut watches.1);
    let [Hint::Granted { owner, grant: Some(grant) }] = &pushed[..] else { panic!("{pushed:?}") };
    assert_eq!(*owner, mine.claim.owner);
    assert_eq!(grant.contention, Contention::Contended);
    let claim_time = mine.ttl.for_grant();
    assert_eq!(grant.valid_until, claim_time.valid_until(first.clock().now()));

    // Once claimed, the lease lives as long as any other.
    let claimed = granted(&first, &mine).await;
    assert_eq!(claimed.tokens, grant.tokens);
    assert_eq!(claimed.valid_until, mine.ttl.valid_until(first.clock().now()));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_first_waiter_that_listens_hears_that_it_is_next() -> Result<()> {
    let (holder, gone, heir) = three_clients();
    let other = holder.client();
    let (held, unaware, lost, mine) = (request()?, request()?, request()?, request()?);
    let _silent = other.watch(&key()).await?;
    let watch = gone.watch(&key()).await?;
    let mut hints = heir.watch(&key()).await?;
    granted(&holder, &held).await;
    queued(&other, &unaware).await;
    queued(&gone, &lost).await;
    queued(&heir, &mine).await;
    drop(watch);
    holder.release(&held.claim).await?;
    let next = Hint::Next { owner: mine.claim.owner, after: SECOND };
    assert_eq!(heard(&mut hints), [next]);
    tokio::time::advance(SECOND).await;
    granted(&heir, &mine).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_answer_says_when_to_ask_and_so_needs_no_hint() -> Result<()> {
    let (holder, silent, heir) = three_clients();
    let (held, unaware, mine) = (request()?, request()?, request()?);
    let _watch = silent.watch(&key()).await?;
    let mut hints = heir.watch(&key()).await?;
    granted(&holder, &held).await;
    queued(&silent, &unaware).await;
    queued(&heir, &mine).await;
    // The lease of the holder ends, and the request of the heir hands the key over.
    tokio::time::advance(10 * SECOND).await;
    queued(&silent, &unaware).await;
    tokio::time::advance(20 * SECOND).await;
    assert_eq!(queued(&heir, &mine).await, SECOND);
    assert_eq!(heard(&mut hints), []);
    tokio::time::advance(SECOND).await;
    granted(&heir, &mine).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_requeues_last_is_told_when_to_ask() -> Result<()> {
    let (holder, silent, _) = three_clients();
    let (held, unaware, again) = (request()?, request()?, request()?);
    let _watches = (holder.watch(&key()).await?, silent.watch(&key()).await?);
    granted(&holder, &held).await;
    queued(&silent, &unaware).await;
    let (released, attempt) = holder.release_and_requeue(&held.claim, &again).await?;
    assert_eq!(released, Released::Freed { told: 0 });
    assert_eq!(attempt, Some(AcquireOutcome::Queued { retry_after: Some(SECOND) }));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_queued_request_is_to_be_repeated_in_time() -> Result<()> {
    let (holder, waiter, _) = three_clients();
    let _watch = waiter.watch(&key()).await?;
    let mut held = request()?;
    let waiting = request()?;
    granted(&holder, &held).await;
    assert_eq!(queued(&waiter, &waiting).await, 10 * SECOND, "a third of the place");
    tokio::time::advance(25 * SECOND).await;
    assert_eq!(queued(&waiter, &waiting).await, 5 * SECOND, "when the lease ends");
    // Even a request for a short lease has a place for three seconds.
    held.ttl = Ttl::MIN;
    held.claim.owner = OwnerToken::generate()?;
    assert_eq!(queued(&waiter, &held).await, SECOND);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_says_its_limit_and_forgets_the_dead() -> Result<()> {
    let holder = MemoryBackend::with_queue_limit(NonZeroU32::new(3).expect("not 0"));
    let waiter = holder.client();
    let _watch = waiter.watch(&key()).await?;
    let mut held = request()?;
    held.ttl = Ttl::MAX;
    granted(&holder, &held).await;
    let waiting = [request()?, request()?, request()?];
    for request in &waiting {
        queued(&waiter, request).await;
    }
    let error = waiter.try_acquire(&request()?).await.expect_err("one too many");
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert!(error.to_string().contains('3') && !error.is_retryable(), "{error}");
    queued(&waiter, &waiting[1]).await;

    // All but the first let their places lapse.
    tokio::time::advance(20 * SECOND).await;
    queued(&waiter, &waiting[0]).await;
    tokio::time::advance(20 * SECOND).await;
    queued(&waiter, &request()?).await;
    queued(&waiter, &request()?).await;
    assert!(waiter.try_acquire(&request()?).await.is_err());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_muted_waiter_is_served_although_it_does_not_hear_it() -> Result<()> {
    let (holder, waiter, other) = three_clients();
    let (held, waiting) = (request()?, request()?);
    let mut watch = waiter.watch(&key()).await?;
    granted(&holder, &held).await;
    queued(&waiter, &waiting).await;
    waiter.faults().mute_hints(true);
    holder.release(&held.claim).await?;
    assert_eq!(heard(&mut watch), []);
    let busy = other.try_acquire(&request()?).await?;
    assert_eq!(
        busy,
        AcquireOutcome::Busy { retry_after: Some(waiting.ttl.for_grant().duration()) }
    );
    granted(&waiter, &waiting).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_watches_no_longer_is_passed_over() -> Result<()> {
    let (holder, gone, waiter) = three_clients();
    let (held, lost, waiting) = (request()?, request()?, request()?);
    let watch = gone.watch(&key()).await?;
    let mut heir = waiter.watch(&key()).await?;
    granted(&holder, &held).await;
    queued(&gone, &lost).await;
    queued(&waiter, &waiting).await;
    drop(watch);
    holder.release(&held.claim).await?;
    assert!(matches!(heard(&mut heir)[..], [Hint::Granted { .. }]));
    assert_eq!(holder.live_leases(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn forgetting_empties_the_queue() -> Result<()> {
    let (holder, waiter, newcomer) = three_clients();
    let mut watch = waiter.watch(&key()).await?;
    granted(&holder, &request()?).await;
    queued(&waiter, &request()?).await;
    holder.forget();
    granted(&newcomer, &request()?).await;
    assert_eq!(heard(&mut watch), []);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn only_a_client_that_listens_knows_the_contention() -> Result<()> {
    let (holder, waiter, _) = three_clients();
    let (held, waiting) = (request()?, request()?);
    assert_eq!(granted(&holder, &held).await.contention, Contention::Unknown);
    let _watch = holder.watch(&key()).await?;
    assert_eq!(contention(&holder, &held).await, Contention::Quiet);
    let _watch = waiter.watch(&key()).await?;
    queued(&waiter, &waiting).await;
    assert_eq!(contention(&holder, &held).await, Contention::Contended);
    waiter.release(&waiting.claim).await?;
    assert_eq!(contention(&holder, &held).await, Contention::Quiet);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_client_that_holds_twice_hears_once_that_it_is_wanted() -> Result<()> {
    let (reader, writer, _) = three_clients();
    let mut watch = reader.watch(&key()).await?;
    let _watch = writer.watch(&key()).await?;
    for _ in 0..2 {
        let mut request = request()?;
        request.claim.mode = Mode::Shared;
        granted(&reader, &request).await;
    }
    queued(&writer, &request()?).await;
    assert_eq!(heard(&mut watch), [Hint::Contended]);
    Ok(())
}

async fn contention(client: &MemoryBackend, request: &Acquire) -> Contention {
    match client.renew(&Renew::new(request.claim.clone(), request.ttl)).await {
        Renewal::Renewed { contention, .. } => contention,
        other => panic!("{other:?}"),
    }
}

fn three_clients() -> (MemoryBackend, MemoryBackend, MemoryBackend) {
    let backend = MemoryBackend::new();
    (backend.client(), backend.client(), backend)
}
