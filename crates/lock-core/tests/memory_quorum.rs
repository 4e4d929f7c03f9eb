//! `MemoryBackend` as a quorum's node, beyond the laws: exact answers, what a restart keeps, what is
//! counted.
#![cfg(feature = "memory")]

use std::time::Duration;

use futures::FutureExt;
use lock_core::Vote;
use lock_core::memory::{MemoryBackend, Stats, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, ErrorKind, FencingToken, Grant, Hint,
};
use lock_core::{
    Key, Membership, Mode, OwnerToken, QuorumNode, Renew, Renewal, Result, Terms, Ttl,
};

const SECOND: Duration = Duration::from_secs(1);
/// A token below every token that the store gives out itself.
const LOW: FencingToken = FencingToken::new(1000);

fn key() -> Key {
    Key::new("key").expect("short")
}

fn request(mode: Mode) -> Result<Acquire> {
    let claim = Claim::exclusive(key(), OwnerToken::generate()?).in_mode(mode);
    Ok(Acquire::new(claim, Ttl::new(30 * SECOND)?))
}

fn ballot(mode: Mode) -> Result<Ballot> {
    Ok(Ballot::new(request(mode)?, LOW))
}

async fn elected(client: &MemoryBackend, ballot: &Ballot) -> Grant {
    match client.vote(ballot).await {
        Ok(Vote::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

fn two_clients() -> (MemoryBackend, MemoryBackend) {
    let backend = MemoryBackend::new();
    (backend.client(), backend)
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_holder_and_the_rest_of_its_lease() -> Result<()> {
    let (one, other) = two_clients();
    let readers = [ballot(Mode::Shared)?, ballot(Mode::Shared)?];
    elected(&one, &readers[0]).await;
    tokio::time::advance(SECOND).await;
    elected(&other, &readers[1]).await;
    let busy = |ballot: &Ballot, retry_after| {
        let holder = Some(ballot.request.claim.owner.tag());
        Vote::Busy { holder, retry_after }
    };
    let writer = ballot(Mode::Exclusive)?;
    assert_eq!(one.vote(&writer).await?, busy(&readers[1], Some(30 * SECOND)));
    let claim = &readers[0].request.claim;
    assert!(matches!(
        other.renew(&Renew::new(claim.clone(), Ttl::MAX)).await,
        Renewal::Renewed { .. }
    ));
    assert_eq!(one.vote(&writer).await?, busy(&readers[0], Some(Ttl::MAX.duration())));
    for reader in &readers {
        one.release(&reader.request.claim).await?;
    }

    // The key is free, but a waiter wants more permits than there are.
    let _watch = other.watch(&key()).await?;
    let waiting = request(Mode::Permits { take: 4, of: 3 })?.queued();
    assert!(matches!(other.try_acquire(&waiting).await?, AcquireOutcome::Queued { .. }));
    let holder = Some(waiting.claim.owner.tag());
    assert_eq!(one.vote(&writer).await?, Vote::Busy { holder, retry_after: None });
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_votes_gives_up_its_place() -> Result<()> {
    let (one, other) = two_clients();
    let held = request(Mode::Exclusive)?;
    assert!(matches!(one.try_acquire(&held).await?, AcquireOutcome::Granted(_)));
    let mut watch = other.watch(&key()).await?;
    let waiting = request(Mode::Exclusive)?.queued();
    assert!(matches!(other.try_acquire(&waiting).await?, AcquireOutcome::Queued { .. }));
    let ballot = Ballot::new(waiting, LOW);
    assert!(matches!(other.vote(&ballot).await?, Vote::Busy { .. }));
    one.release(&held.claim).await?;
    assert_eq!(watch.next().now_or_never().flatten(), Some(Hint::Released));
    assert_eq!(one.live_leases(), 0);
    assert!(elected(&other, &ballot).await.tokens.last() > LOW);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_group_has_one_set_of_tokens_whatever_the_floors_are() -> Result<()> {
    let (one, other) = two_clients();
    let group = Mode::Joint { group: OwnerToken::generate()? };
    let tokens = elected(&one, &ballot(group)?).await.tokens;
    let mut second = ballot(group)?;
    second.floor = FencingToken::new(LOW.get() + 5);
    assert_eq!(elected(&other, &second).await.tokens, tokens);
    // Confirming brings a node into step that the first member did not reach.
    assert!(other.confirm(&second.request.claim, second.floor).await?);
    assert!(!one.confirm(&second.request.claim, tokens.last()).await?);
    Ok(())
}

fn terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), Ttl::DEFAULT)
}

#[tokio::test(start_paused = true)]
async fn a_restart_keeps_everything_but_connections() -> Result<()> {
    let (one, other) = two_clients();
    let mut watches = [one.watch(&key()).await?, other.watch(&key()).await?];
    let ballot = ballot(Mode::Exclusive)?;
    let tokens = elected(&one, &ballot).await.tokens;
    other.restart();
    for watch in &mut watches {
        assert_eq!(watch.next().now_or_never(), Some(None));
    }
    assert_eq!(elected(&one, &ballot).await.tokens, tokens);
    assert!(one.confirm(&ballot.request.claim, tokens.last()).await?);
    // No client sees the quarantine of a run that is over.
    let before = one.standing(&terms()).await?;
    other.restart();
    let after = one.standing(&terms()).await?;
    assert!(after.server != before.server && after.quarantine != before.quarantine);
    assert!(!one.vouch(&before.quarantine, Ttl::DEFAULT).await?);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_counter_that_was_swept_away_goes_on_above() -> Result<()> {
    let (one, _) = two_clients();
    let first = ballot(Mode::Exclusive)?;
    let last = elected(&one, &first).await.tokens.last();
    assert_eq!(last, LOW);
    one.release(&first.request.claim).await?;
    for index in 0..1000 {
        let claim = Claim::exclusive(Key::new(format!("other {index}"))?, OwnerToken::generate()?);
        elected(&one, &Ballot::new(Acquire::new(claim.clone(), Ttl::DEFAULT), LOW)).await;
        one.release(&claim).await?;
    }
    assert!(elected(&one, &ballot(Mode::Exclusive)?).await.tokens.first() > last);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_a_quorum_are_counted_and_fail_each_for_itself() -> Result<()> {
    let (client, _) = two_clients();
    let ballot = ballot(Mode::Exclusive)?;
    let claim = &ballot.request.claim;
    for verb in [Verb::Vote, Verb::Confirm, Verb::Standing] {
        client.faults().on(verb).fail_next(1, ErrorKind::Timeout);
    }
    let failures = [
        client.vote(&ballot).await.err(),
        client.confirm(claim, LOW).await.err(),
        client.standing(&terms()).await.err(),
    ];
    for error in failures {
        assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Timeout));
    }
    assert_eq!(client.live_leases(), 0);
    elected(&client, &ballot).await;
    assert!(client.confirm(claim, LOW).await?);
    let standing = client.standing(&terms()).await?;
    assert!(client.vouch(&standing.quarantine, Ttl::DEFAULT).await?);
    let mut expected = Stats::default();
    (expected.votes, expected.confirmations, expected.standings) = (2, 2, 3);
    assert_eq!(client.stats(), expected);
    assert_eq!(client.stats().since(Stats::default()).total(), 7);
    Ok(())
}
