//! Nodes that may have forgotten leases.

use std::time::Duration;

use super::super::Harness;
use super::super::ballots::{ballot, guarded, soon, terms};
use super::super::scene::{Client, Scene};
use super::super::verdict::{Check, Failure, ensure};
use crate::{Ending, ErrorKind, Key, Quarantine, QuorumNode, Ttl, Vote};

pub(in super::super) async fn an_unknown_node_abstains<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, node) = (scene.client().await?, scene.other_server().await?);
    // The first request that a new server gets may be a ballot that another server was to get.
    let known = one.standing().await?;
    node.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl(), &known)).await?;
    for _ in 0..2 {
        let standing = node.out().await?;
        node.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl(), &standing)).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_restarted_node_abstains<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let before = one.standing().await?;
    one.vouches(&before.quarantine, scene.long(), true).await?;
    votes(&other, &scene.key()?, scene.ttl()).await?;
    let known = other.standing().await?;
    scene.restart().await?;
    for client in [&one, &other] {
        client.reaches_again(scene.patience()).await?;
        client.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl(), &known)).await?;
        let out = client.out().await?;
        client.abstains(&guarded(&scene.claim(&scene.key()?)?, scene.ttl(), &out)).await?;
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
    let known = one.standing().await?;
    let held = scene.claim(&scene.key()?)?;
    one.elected(&guarded(&held, scene.long(), &known)).await?;
    scene.forget().await?;
    // The server has forgotten this lease.
    other.abstains(&guarded(&scene.claim(&held.key)?, scene.ttl(), &known)).await?;
    one.abstains(&guarded(&held, scene.ttl(), &known)).await?;
    let quarantine = one.quarantined().await?;
    ensure!(quarantine != before, "{quarantine:?} was the name before it forgot");
    other.abstains(&guarded(&scene.claim(&held.key)?, scene.ttl(), &known)).await?;
    is_same(&other.quarantined().await?, &quarantine)
}

pub(in super::super) async fn an_abstention_holds_nothing<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    one.standing().await?;
    scene.forget().await?;
    let out = one.out().await?;
    let claim = scene.claim(&key)?;
    one.abstains(&guarded(&claim, ttl, &out)).await?;
    one.lost(&claim, ttl).await?;
    one.not_held(&claim).await?;
    let held = scene.claim(&key)?;
    other.elected(&ballot(&held, ttl, soon(), 1)).await?;
    // The lease stays as it is, whether another owner holds the key or the owner of the ballot.
    one.abstains(&guarded(&claim, ttl, &out)).await?;
    other.abstains(&guarded(&held, ttl, &out)).await?;
    other.renewed(&held, ttl).await?;
    one.refused(&key, ttl).await?;
    other.freed(&held).await?;
    one.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_ballot_for_another_record_gets_no_vote<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, elsewhere) = (scene.key()?, scene.other_server().await?);
    let foreign = elsewhere.out().await?;
    elsewhere.vouches(&foreign.quarantine, scene.long(), true).await?;
    let foreign = elsewhere.standing().await?;
    one.standing().await?;
    scene.forget().await?;
    let out = one.out().await?;
    one.vouches(&out.quarantine, scene.ttl(), true).await?;
    let shorter = other.standing().await?;
    one.vouches(&out.quarantine, scene.long(), true).await?;
    // These standings are of another server, of the quarantine, and of a time before the last vouch.
    for stale in [&foreign, &out, &shorter] {
        for client in [&one, &other] {
            client.abstains(&guarded(&scene.claim(&key)?, scene.ttl(), stale)).await?;
        }
    }
    votes(&other, &key, scene.ttl()).await
}

pub(in super::super) async fn a_quarantine_is_the_same_for_all<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    one.standing().await?;
    scene.forget().await?;
    let out = one.out().await?;
    for client in [&other, &one, &scene.client().await?] {
        is_same(&client.quarantined().await?, &out.quarantine)?;
        let claim = scene.claim(&scene.key()?)?;
        client.abstains(&guarded(&claim, scene.ttl(), &out)).await?;
        // A ballot that expects no standing changes nothing.
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
    // Clients that come later need not vouch again.
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
    let out = one.out().await?;
    let past = out.quarantine.clone();
    let unheard = Quarantine::new("no server gave this name");
    one.vouches(&unheard, ttl, false).await?;
    is_same(&other.quarantined().await?, &past)?;
    scene.forget().await?;
    // No client has looked since, so no client knows yet that another quarantine began.
    one.vouches(&past, ttl, false).await?;
    let claim = scene.claim(&scene.key()?)?;
    other.abstains(&guarded(&claim, ttl, &out)).await?;
    let present = other.quarantined().await?;
    for stale in [&past, &unheard] {
        one.vouches(stale, ttl, false).await?;
        is_same(&other.quarantined().await?, &present)?;
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
    // Only the record forbids it.
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
    ensure!(again == ours, "one client gets {ours:?}, another {again:?}");
    let foreign = elsewhere.standing().await?;
    ensure!(foreign.server != ours.server, "two servers are {:?}", ours.server);
    ensure!(foreign.quarantine != ours.quarantine, "two servers have {:?}", ours.quarantine);
    // Vouching for one server has no effect on another.
    one.vouches(&foreign.quarantine, scene.long(), false).await?;
    elsewhere.vouches(&foreign.quarantine, scene.long(), true).await?;
    let after = other.standing().await?;
    ensure!(after == ours, "it was {ours:?}, now {after:?} by a vouch for another");
    Ok(())
}

pub(in super::super) async fn a_quarantine_ends_by_the_clock_of_the_node<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let [short, long] = [scene.ttl(), scene.long()].map(|ttl| terms(["a", "b", "c"], ttl));
    one.standing().await?;
    for longest in [&short, &long] {
        scene.forget().await?;
        let begun = one.standing_under(&short).await?;
        ensure!(begun.max_ttl.is_none(), "no time has passed, and it votes: {begun:?}");
        // The longest lease that any client names counts.
        let named = other.standing_under(longest).await?;
        is_same(&named.quarantine, &begun.quarantine)?;
        scene.outlast(2 * short.max_ttl.duration()).await;
        let still = one.standing_under(&short.clone().ending(Ending::Later)).await?;
        ensure!(still.max_ttl.is_none(), "a client that puts the end off ended it: {still:?}");
        let after = one.standing_under(&short).await?;
        is_same(&after.quarantine, &begun.quarantine)?;
        let expected = (longest == &short).then_some(short.max_ttl);
        ensure!(after.max_ttl == expected, "{after:?} after {short:?}, where {longest:?} counts");
    }
    scene.forget().await?;
    one.standing_under(&short).await?;
    scene.outlast(2 * short.max_ttl.duration()).await;
    let standing = other.standing_under(&short).await?;
    let claim = scene.claim(&scene.key()?)?;
    other.elected(&guarded(&claim, scene.ttl(), &standing)).await?;
    other.freed(&claim).await
}

pub(in super::super) async fn a_quarantine_without_a_clock_goes_on<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let usual = terms(["a", "b", "c"], scene.ttl());
    let strict = usual.clone().ending(Ending::Never);
    one.standing().await?;
    // One client is enough, whichever looks first.
    for clients in [[&strict, &usual], [&usual, &strict]] {
        scene.forget().await?;
        for terms in clients {
            one.standing_under(terms).await?;
        }
        scene.outlast(2 * usual.max_ttl.duration()).await;
        let standing = other.standing_under(&usual).await?;
        ensure!(standing.max_ttl.is_none(), "it has ended by the clock: {standing:?}");
    }
    let quarantine = other.standing_under(&usual).await?.quarantine;
    one.vouches(&quarantine, scene.long(), true).await?;
    votes(&other, &scene.key()?, scene.ttl()).await
}

pub(in super::super) async fn a_reassigned_node_votes_for_its_new_members<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let [old, new] = [["a", "b", "c"], ["a", "b", "d"]].map(|nodes| terms(nodes, scene.long()));
    let (key, ttl) = (scene.key()?, scene.ttl());
    one.standing().await?;
    scene.forget().await?;
    let begun = one.standing_under(&old).await?;
    one.vouches(&begun.quarantine, scene.long(), true).await?;
    let before = one.standing_under(&old).await?;
    let held = scene.claim(&key)?;
    one.elected(&guarded(&held, scene.long(), &before)).await?;
    for _ in 0..2 {
        let after = other.reassigns(&old, &new).await?;
        ensure!(after.membership == new.membership, "it is reassigned, and has {after:?}");
        is_same(&after.quarantine, &before.quarantine)?;
        ensure!(after.max_ttl == before.max_ttl, "{after:?} follows {before:?}");
        // Its leases are as they were.
        one.abstains(&guarded(&held, ttl, &before)).await?;
        one.abstains(&guarded(&scene.claim(&scene.key()?)?, ttl, &before)).await?;
        one.renewed(&held, scene.long()).await?;
        let rival = other.vote(&guarded(&scene.claim(&key)?, ttl, &after)).await?;
        ensure!(matches!(rival, Vote::Busy { .. }), "the key is held, and another got {rival:?}");
        let claim = scene.claim(&scene.key()?)?;
        other.elected(&guarded(&claim, ttl, &after)).await?;
        other.freed(&claim).await?;
        ensure!(one.standing_under(&old).await? == after, "looking changes the membership");
    }
    one.freed(&held).await
}

pub(in super::super) async fn only_the_named_membership_is_replaced<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let [first, second, third] =
        [["a", "b", "c"], ["a", "b", "d"], ["a", "b", "e"]].map(|nodes| terms(nodes, scene.long()));
    one.standing().await?;
    scene.forget().await?;
    let begun = one.standing_under(&first).await?;
    one.vouches(&begun.quarantine, scene.long(), true).await?;
    let before = one.standing_under(&first).await?;
    let after = other.reassigns(&second, &third).await?;
    ensure!(after == before, "{before:?} became {after:?}, although another quorum was named");
    // A node without a record has none that could be replaced.
    scene.forget().await?;
    let after = other.reassigns(&first, &second).await?;
    ensure!(after.membership == second.membership, "it has forgotten, and has {after:?}");
    ensure!(after.max_ttl.is_none(), "it votes although it has forgotten: {after:?}");
    Ok(())
}

pub(in super::super) async fn an_admitted_node_is_quarantined<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let [old, new] = [["a", "b", "c"], ["a", "b", "d"]].map(|nodes| terms(nodes, scene.long()));
    one.standing().await?;
    scene.forget().await?;
    let begun = one.standing_under(&old).await?;
    one.vouches(&begun.quarantine, scene.long(), true).await?;
    let before = one.standing_under(&old).await?;
    let after = one.bounded("admit", one.backend.admit(&new)).await??;
    ensure!(after.membership == new.membership, "it is admitted, and has {after:?}");
    ensure!(after.max_ttl.is_none(), "it is admitted, and votes: {after:?}");
    ensure!(after.quarantine != before.quarantine, "{after:?} is the quarantine of {before:?}");
    for standing in [&before, &after] {
        let claim = scene.claim(&scene.key()?)?;
        other.abstains(&guarded(&claim, scene.ttl(), standing)).await?;
    }
    one.vouches(&before.quarantine, scene.long(), false).await?;
    one.vouches(&after.quarantine, scene.long(), true).await?;
    votes(&other, &scene.key()?, scene.ttl()).await
}

fn seconds(count: u64) -> Check<Ttl> {
    Ok(Ttl::new(Duration::from_secs(count))?)
}

fn is_same(quarantine: &Quarantine, expected: &Quarantine) -> Check {
    ensure!(quarantine == expected, "{expected:?} is called {quarantine:?} now");
    Ok(())
}

/// Checks that a node votes, and leaves the key free.
async fn votes<B: QuorumNode>(client: &Client<B>, key: &Key, ttl: Ttl) -> Check {
    let claim = client.claim(key)?;
    let standing = client.standing().await?;
    client.elected(&guarded(&claim, ttl, &standing)).await?;
    client.freed(&claim).await
}

/// Checks that a ballot is refused because its ttl is too long, and holds nothing.
async fn is_too_long<B: QuorumNode>(client: &Client<B>, key: &Key, ttl: Ttl, max: Ttl) -> Check {
    let claim = client.claim(key)?;
    let standing = client.standing().await?;
    match client.try_vote(&guarded(&claim, ttl, &standing)).await? {
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
