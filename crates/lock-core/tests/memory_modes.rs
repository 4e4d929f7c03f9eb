//! Readers and writers, permits, and dating on `MemoryBackend`.
#![cfg(feature = "memory")]

use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Grant, Hint, Key, Mode};
use lock_core::{OwnerToken, Released, Renew, Renewal, Result, Ttl};

const SECOND: Duration = Duration::from_secs(1);

fn claim(mode: Mode) -> Result<Claim> {
    Ok(Claim::exclusive(Key::new("key")?, OwnerToken::generate()?).in_mode(mode))
}

fn permits(take: u32, of: u32) -> Result<Claim> {
    claim(Mode::Permits { take, of })
}

fn seconds(count: u32) -> Ttl {
    Ttl::new(SECOND * count).expect("in range")
}

async fn attempt(backend: &MemoryBackend, claim: &Claim, ttl: Ttl) -> Result<AcquireOutcome> {
    backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await
}

async fn granted(backend: &MemoryBackend, claim: &Claim, ttl: Ttl) -> Grant {
    match attempt(backend, claim, ttl).await {
        Ok(AcquireOutcome::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

/// The number of whole seconds after which the request may be granted.
async fn refused(backend: &MemoryBackend, claim: &Claim) -> u64 {
    match attempt(backend, claim, seconds(1)).await {
        Ok(AcquireOutcome::Busy { retry_after: Some(time) }) => time.as_secs(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_keep_a_writer_out() -> Result<()> {
    let (one, other) = two_clients();
    let (reader, second, writer) =
        (claim(Mode::Shared)?, claim(Mode::Shared)?, claim(Mode::Exclusive)?);
    let first_token = granted(&one, &reader, seconds(10)).await.tokens.last();
    assert!(granted(&other, &second, seconds(20)).await.tokens.first() > first_token);
    // A writer waits for the reader that lasts longest.
    assert_eq!(refused(&other, &writer).await, 20);
    one.release(&reader).await?;
    assert_eq!(refused(&one, &writer).await, 20);
    other.release(&second).await?;
    granted(&one, &writer, seconds(10)).await;
    assert_eq!(refused(&other, &reader).await, 10);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn each_reader_has_its_own_lease() -> Result<()> {
    let (one, other) = two_clients();
    let (short, long) = (claim(Mode::Shared)?, claim(Mode::Shared)?);
    granted(&one, &short, seconds(1)).await;
    granted(&other, &long, seconds(5)).await;
    tokio::time::advance(2 * SECOND).await;
    assert!(matches!(one.renew(&Renew::new(short.clone(), seconds(1))).await, Renewal::Lost));
    assert!(matches!(
        other.renew(&Renew::new(long.clone(), seconds(5))).await,
        Renewal::Renewed { .. }
    ));
    assert_eq!(one.live_leases(), 1);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_reader_tells_when_it_leaves_an_upgradable_one_alone() -> Result<()> {
    let (one, other) = two_clients();
    let upgradable = claim(Mode::Upgradable)?;
    let readers = [claim(Mode::Shared)?, claim(Mode::Shared)?, claim(Mode::Shared)?];
    granted(&one, &upgradable, seconds(10)).await;
    let mut watch = one.watch(&upgradable.key).await?;
    for reader in &readers[..2] {
        granted(&other, reader, seconds(10)).await;
    }
    let freed = Released::Freed { told: 0 };
    assert_eq!(other.release(&readers[0]).await?, freed);
    assert_eq!(watch.next().now_or_never(), None);
    assert_eq!(other.release(&readers[1]).await?, freed);
    assert_eq!(watch.next().now_or_never(), Some(Some(Hint::Released)));

    // A hint would wake the writer in the queue for nothing.
    granted(&other, &readers[2], seconds(10)).await;
    let _watch = other.watch(&upgradable.key).await?;
    let writer = Acquire::new(claim(Mode::Exclusive)?, seconds(10)).queued();
    assert!(matches!(other.try_acquire(&writer).await?, AcquireOutcome::Queued { .. }));
    assert_eq!(watch.next().now_or_never(), Some(Some(Hint::Contended)));
    assert_eq!(other.release(&readers[2]).await?, freed);
    assert_eq!(watch.next().now_or_never(), None);

    // Nor is there a hint after an upgrade was served.
    one.release(&upgradable).await?;
    let next = Acquire::new(claim(Mode::Upgradable)?, seconds(10)).queued();
    assert!(matches!(one.try_acquire(&next).await?, AcquireOutcome::Queued { .. }));
    other.release(&writer.claim).await?;
    let owner = next.claim.owner;
    let told = watch.next().now_or_never();
    assert!(matches!(told, Some(Some(Hint::Granted { owner: it, .. })) if it == owner));
    assert_eq!(watch.next().now_or_never(), None);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn permits_add_up_and_not_beyond() -> Result<()> {
    let (one, other) = two_clients();
    let (two, one_more) = (permits(2, 3)?, permits(1, 3)?);
    granted(&one, &two, seconds(10)).await;
    granted(&other, &one_more, seconds(20)).await;
    // One permit is free when the first lease ends, all three only when both have.
    assert_eq!(refused(&other, &permits(1, 3)?).await, 10);
    assert_eq!(refused(&other, &permits(3, 3)?).await, 20);
    assert_eq!(one.release(&two).await?, Released::Freed { told: 0 });
    granted(&other, &permits(2, 3)?, seconds(1)).await;
    refused(&one, &permits(1, 3)?).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn two_limits_of_one_key_are_an_error() -> Result<()> {
    let (one, other) = two_clients();
    granted(&one, &permits(1, 3)?, seconds(1)).await;
    let error = attempt(&other, &permits(1, 5)?, seconds(1)).await.expect_err("two limits");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let message = error.to_string();
    assert!(message.contains('3') && message.contains('5'), "{message}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn kinds_of_locks_do_not_mix_on_a_key() -> Result<()> {
    let (one, other) = two_clients();
    let modes = [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 0, of: 2 }];
    for held in modes {
        let holder = claim(held)?;
        granted(&one, &holder, seconds(10)).await;
        for asked in modes.into_iter().filter(|asked| *asked != held) {
            assert_eq!(refused(&other, &claim(asked)?).await, 10, "{asked:?} beside {held:?}");
        }
        one.release(&holder).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_mode_is_part_of_the_claim() -> Result<()> {
    let (one, other) = two_clients();
    let held = claim(Mode::Exclusive)?;
    granted(&one, &held, seconds(10)).await;
    let in_other_mode = held.clone().in_mode(Mode::Shared);
    refused(&one, &in_other_mode).await;
    assert_eq!(other.release(&in_other_mode).await?, Released::NotHeld);
    assert!(matches!(
        one.renew(&Renew::new(in_other_mode.clone(), seconds(1))).await,
        Renewal::Lost
    ));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_repeated_request_moves_the_end_only_forward() -> Result<()> {
    let (one, other) = two_clients();
    let held = claim(Mode::Exclusive)?;
    let first = granted(&one, &held, seconds(10)).await;
    tokio::time::advance(4 * SECOND).await;
    assert_eq!(granted(&one, &held, seconds(1)).await, first);
    assert_eq!(refused(&other, &claim(Mode::Exclusive)?).await, 6);
    let again = granted(&one, &held, seconds(60)).await;
    assert_eq!(again.tokens, first.tokens);
    assert_eq!(again.valid_until, seconds(60).valid_until(one.clock().now()));
    assert_eq!(refused(&other, &claim(Mode::Exclusive)?).await, 60);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_dated_from_when_it_was_sent() -> Result<()> {
    let (slow, other) = two_clients();
    slow.faults().delay_requests(2 * SECOND);
    slow.faults().delay_replies(3 * SECOND);
    let sent = slow.clock().now();
    let grant = granted(&slow, &claim(Mode::Exclusive)?, seconds(10)).await;
    assert_eq!(grant.valid_until, seconds(10).valid_until(sent));
    // The store began to count when the request arrived: after two seconds, of five that passed.
    assert_eq!(refused(&other, &claim(Mode::Exclusive)?).await, 7);
    Ok(())
}

#[test]
fn no_runtime_is_needed() -> Result<()> {
    let (one, other) = two_clients();
    let held = claim(Mode::Exclusive)?;
    let all = async {
        let mut watch = other.watch(&held.key).await?;
        granted(&one, &held, seconds(10)).await;
        refused(&other, &claim(Mode::Exclusive)?).await;
        assert!(matches!(
            one.renew(&Renew::new(held.clone(), seconds(10))).await,
            Renewal::Renewed { .. }
        ));
        assert_eq!(one.release(&held).await?, Released::Freed { told: 1 });
        assert_eq!(watch.next().await, Some(lock_core::Hint::Released));
        Ok(())
    };
    all.now_or_never().expect("nothing is ever pending")
}

fn two_clients() -> (MemoryBackend, MemoryBackend) {
    let backend = MemoryBackend::new();
    (backend.client(), backend)
}
