//! Nodes that may have forgotten something.

use std::time::Duration;

use super::super::Harness;
use super::super::ballots::{ballot, guarded, soon};
use super::super::scene::{Client, Scene};
use super::super::verdict::{Check, Failure, ensure};
use crate::{ErrorKind, Key, Quarantine, QuorumNode, Ttl};

pub(in super::super) async fn an_unknown_node_abstains<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let node = scene.other_server().await?;
    // Whether it is a vote or a question that is the first that it hears.
    let quarantine = node.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl())).await?;
    is_same(&node.quarantined().await?, &quarantine)?;
    let node = scene.other_server().await?;
    let quarantine = node.quarantined().await?;
    is_same(&node.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl())).await?, &quarantine)
}

pub(in super::super) async fn a_restarted_node_abstains<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let before = one.standing().await?;
    one.vouches(&before.quarantine, scene.long(), true).await?;
    votes(&other, &scene.key()?, scene.ttl()).await?;
    scene.restart().await?;
    for client in [&one, &other] {
        client.reaches_again(scene.patience()).await?;
        client.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl())).await?;
    }
    let quarantine = one.quarantined().await?;
    ensure!(quarantine != before.quarantine, "{quarantine:?} was the name before the restart");
    let server = other.standing().await?.server;
    ensure!(server != before.server, "{server:?} was the name before the restart");
    one.vouches(&before.quarantine, scene.long(), false).await?;
    one.vouches(&quarantine, scene.long(), true).await?;
    votes(&other, &scene.key()?, scene.ttl()).await
}

pub(in super::super) async fn a_node_that_forgot_abstains<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let before = one.standing().await?.quarantine;
    one.vouches(&before, scene.long(), true).await?;
    let held = scene.claim(&scene.key()?)?;
    one.elected(&guarded(&held, scene.long())).await?;
    scene.forget().await?;
    // The lease is one that it has forgotten.
    let quarantine = other.abstains(&guarded(&scene.claim(&held.key)?, scene.ttl())).await?;
    ensure!(quarantine != before, "{quarantine:?} was the name before it forgot");
    is_same(&one.abstains(&guarded(&held, scene.ttl())).await?, &quarantine)?;
    is_same(&one.quarantined().await?, &quarantine)
}

pub(in super::super) async fn an_abstention_holds_nothing<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    one.standing().await?;
    scene.forget().await?;
    let claim = scene.claim(&key)?;
    one.abstains(&guarded(&claim, ttl)).await?;
    one.lost(&claim, ttl).await?;
    one.not_held(&claim).await?;
    let held = scene.claim(&key)?;
    other.elected(&ballot(&held, ttl, soon(), 1)).await?;
    // Whether somebody else holds the key or who asks itself, the lease stays as it is.
    one.abstains(&guarded(&claim, ttl)).await?;
    other.abstains(&guarded(&held, ttl)).await?;
    other.renewed(&held, ttl).await?;
    one.refused(&key, ttl).await?;
    other.freed(&held).await?;
    one.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_quarantine_is_the_same_for_all<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    one.standing().await?;
    scene.forget().await?;
    let quarantine = one.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl())).await?;
    for client in [&other, &one, &scene.client().await?] {
        is_same(&client.quarantined().await?, &quarantine)?;
        let claim = scene.claim(&scene.key()?)?;
        is_same(&client.abstains(&guarded(&claim, scene.ttl())).await?, &quarantine)?;
        // One that is not guarded changes nothing.
        client.elected(&ballot(&claim, scene.ttl(), soon(), 1)).await?;
        client.freed(&claim).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_node_votes_once_vouched_for<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    one.standing().await?;
    scene.forget().await?;
    let quarantine = other.quarantined().await?;
    one.vouches(&quarantine, scene.long(), true).await?;
    // Those who come later need not vouch again.
    for client in [&one, &other, &scene.client().await?] {
        votes(client, &scene.key()?, scene.long()).await?;
        let standing = client.standing().await?;
        ensure!(standing.max_ttl == Some(scene.long()), "{standing:?} after vouching");
        is_same(&standing.quarantine, &quarantine)?;
    }
    Ok(())
}

pub(in super::super) async fn a_stale_vouch_has_no_effect<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    one.standing().await?;
    scene.forget().await?;
    let past = one.quarantined().await?;
    let unheard = Quarantine::new("nobody gave this name");
    one.vouches(&unheard, ttl, false).await?;
    is_same(&other.quarantined().await?, &past)?;
    scene.forget().await?;
    // Nobody has looked since, so nobody knows yet that another began.
    one.vouches(&past, ttl, false).await?;
    let claim = scene.claim(&scene.key()?)?;
    let present = other.abstains(&guarded(&claim, ttl)).await?;
    for stale in [&past, &unheard] {
        one.vouches(stale, ttl, false).await?;
        is_same(&other.abstains(&guarded(&claim, ttl)).await?, &present)?;
    }
    one.vouches(&present, ttl, true).await?;
    one.vouches(&past, Ttl::MAX, false).await?;
    votes(&other, &claim.key, ttl).await?;
    let max_ttl = other.standing().await?.max_ttl;
    ensure!(max_ttl == Some(ttl), "{max_ttl:?} after vouching for {ttl:?}");
    Ok(())
}

pub(in super::super) async fn a_lease_longer_than_vouched_for_is_refused<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (max, longer) = (seconds(17)?, seconds(41)?);
    one.standing().await?;
    scene.forget().await?;
    one.vouches(&one.quarantined().await?, max, true).await?;
    let key = scene.key()?;
    for client in [&one, &other] {
        is_too_long(client, &key, longer, max).await?;
        let by_little = Ttl::new(max.duration() + Duration::from_millis(1))?;
        is_too_long(client, &key, by_little, max).await?;
        votes(client, &key, max).await?;
    }
    // The guard is what forbids it.
    let claim = scene.claim(&key)?;
    other.elected(&ballot(&claim, longer, soon(), 1)).await?;
    other.renewed(&claim, longer).await?;
    Ok(())
}

pub(in super::super) async fn vouching_again_only_lengthens<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (first, longer, shorter) = (seconds(17)?, seconds(41)?, seconds(5)?);
    one.standing().await?;
    scene.forget().await?;
    let (key, quarantine) = (scene.key()?, one.quarantined().await?);
    one.vouches(&quarantine, first, true).await?;
    is_too_long(&other, &key, longer, first).await?;
    for (client, max_ttl) in [(&one, longer), (&other, shorter), (&one, first)] {
        client.vouches(&quarantine, max_ttl, true).await?;
        let standing = other.standing().await?;
        ensure!(standing.max_ttl == Some(longer), "{standing:?} after vouching for {longer:?}");
        votes(&other, &key, longer).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_server_is_told_from_another<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (ours, elsewhere) = (one.standing().await?, scene.other_server().await?);
    let again = other.standing().await?;
    ensure!(again == ours, "one client is told {ours:?}, another {again:?}");
    let foreign = elsewhere.standing().await?;
    ensure!(foreign.server != ours.server, "two servers are {:?}", ours.server);
    ensure!(foreign.quarantine != ours.quarantine, "two servers have {:?}", ours.quarantine);
    // What is done to one is done to it alone.
    one.vouches(&foreign.quarantine, scene.long(), false).await?;
    elsewhere.vouches(&foreign.quarantine, scene.long(), true).await?;
    let after = other.standing().await?;
    ensure!(after == ours, "it was {ours:?} until somebody vouched for another, now {after:?}");
    Ok(())
}

fn seconds(count: u64) -> Check<Ttl> {
    Ok(Ttl::new(Duration::from_secs(count))?)
}

fn is_same(quarantine: &Quarantine, expected: &Quarantine) -> Check {
    ensure!(quarantine == expected, "{expected:?} is called {quarantine:?} now");
    Ok(())
}

/// Checks that a node takes a guarded ballot, and leaves the key free.
async fn votes<B: QuorumNode>(client: &Client<B>, key: &Key, ttl: Ttl) -> Check {
    let claim = client.claim(key)?;
    client.elected(&guarded(&claim, ttl)).await?;
    client.freed(&claim).await
}

/// Checks that a guarded ballot is refused for its time, and holds nothing.
async fn is_too_long<B: QuorumNode>(client: &Client<B>, key: &Key, ttl: Ttl, max: Ttl) -> Check {
    let claim = client.claim(key)?;
    match client.try_vote(&guarded(&claim, ttl)).await? {
        Err(error) if error.kind() == ErrorKind::InvalidConfig => {
            let message = error.to_string();
            for time in [ttl, max] {
                let number = time.duration().as_secs().to_string();
                ensure!(message.contains(&number), "the message does not say {number}: {message}");
            }
        }
        other => return Err(Failure::Broken(format!("a lease of {ttl:?} came to {other:?}"))),
    }
    client.not_held(&claim).await
}

impl<B: QuorumNode> Client<B> {
    /// Asks until the server answers again.
    async fn reaches_again(&self, patience: Duration) -> Check {
        let clock = self.clock();
        let deadline = clock.now() + patience;
        loop {
            match self.bounded("standing", self.backend.standing()).await? {
                Err(error) if error.is_retryable() && clock.now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                answer => return Ok(answer.map(drop)?),
            }
        }
    }
}
