//! Votes of a node.

use std::time::Duration;

use super::super::Harness;
use super::super::ballots::{after, ballot, elected, from_now, soon};
use super::super::line::queued;
use super::super::scene::{Scene, granted, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use super::{ending, granting, renewing, sharing};
use crate::{Acquire, Ballot, ErrorKind, FencingToken, Hint, Mode, QuorumNode, Renew, Renewal};
use crate::{TokenRange, Vote};

/// Tests laws of leases with votes in the place of requests.
macro_rules! by_votes {
    ($scene:expr, $($group:ident::$law:ident),* $(,)?) => {
        let voters = $scene.voters();
        $($group::$law($scene.with(&voters)).await.map_err(|it| it.of(stringify!($law)))?;)*
    };
}

pub(in super::super) async fn a_vote_is_a_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    by_votes!(
        scene,
        granting::a_free_key_is_granted,
        granting::a_held_key_is_refused,
        granting::contenders_get_exactly_one_grant,
        granting::holders_never_overlap,
        granting::keys_are_independent,
        granting::a_repeated_acquire_never_shortens_the_lease,
        granting::a_repeated_acquire_extends_the_lease,
        granting::a_refusal_says_when_to_retry,
        granting::a_grant_is_dated_from_before_the_request,
        renewing::renew_extends_the_lease,
        renewing::renew_by_another_owner_is_lost,
        ending::an_expired_lease_is_free,
        ending::a_stale_release_is_harmless,
        ending::a_dropped_acquire_can_be_released,
    );
    Ok(())
}

pub(in super::super) async fn a_vote_keeps_to_its_mode<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    by_votes!(
        scene,
        sharing::readers_share_a_key,
        sharing::readers_and_writers_exclude_each_other,
        sharing::each_reader_has_its_own_lease,
        sharing::a_claim_names_its_mode,
        sharing::only_one_reader_is_upgradable,
    );
    Ok(())
}

pub(in super::super) async fn a_vote_gets_no_place<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let (held, rival) = (scene.claim(&key)?, scene.claim(&key)?);
    one.elected(&ballot(&held, ttl, soon(), 1)).await?;
    let mut watch = other.watch(&key).await?;
    let refused = Ballot::new(Acquire::new(rival.clone(), ttl).queued(), soon());
    let vote = other.vote(&refused).await?;
    ensure!(matches!(vote, Vote::Busy { .. }), "the key is held, but another owner got {vote:?}");
    one.freed(&held).await?;
    // Hints come in order, so one of a grant would have come before this.
    loop {
        match other.bounded("a hint of the release", watch.next()).await? {
            Some(Hint::Granted { .. }) => {
                return Err(Failure::Broken("a refused ballot was granted the key later".into()));
            }
            Some(Hint::Released) => break,
            Some(_) => {}
            None => return Err(Failure::Broken("the watch ended".into())),
        }
    }
    let newcomer = scene.claim(&key)?;
    one.granted(&newcomer, ttl).await?;
    one.freed(&newcomer).await?;
    Ok(())
}

pub(in super::super) async fn a_vote_overtakes_no_waiter<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, short) = (scene.key()?, scene.long(), scene.ttl_with_rest());
    // The first holder releases its lease, and the second lease expires.
    for lives in [true, false] {
        let held = scene.claim(&key)?;
        one.elected(&ballot(&held, if lives { ttl } else { short }, soon(), 1)).await?;
        let mut waiter = other.waits(scene.queued(&key, ttl)?).await?;
        one.outvoted(&scene.claim(&key)?, ttl).await?;
        if lives {
            one.freed(&held).await?;
        } else {
            scene.outlast(short.duration()).await;
        }
        let (holder, _) = one.outvoted(&scene.claim(&key)?, ttl).await?;
        ensure!(holder == Some(waiter.claim().owner.tag()), "{holder:?} is not the waiter");
        waiter.claims().await?;
        ensure!(waiter.leaves().await?, "the lease was lost");
    }
    let reader = in_mode(&key, Mode::Shared)?;
    one.elected(&ballot(&reader, ttl, soon(), 1)).await?;
    let mut writer = other.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    one.outvoted(&in_mode(&key, Mode::Shared)?, ttl).await?;
    one.freed(&reader).await?;
    writer.hears_grant().await?;
    writer.claims().await?;
    Ok(())
}

pub(in super::super) async fn votes_agree_on_their_tokens<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (ttl, floor) = (scene.long(), soon());
    // For tokens, each key stands for a node.
    for client in [&one, &other, &one] {
        let key = scene.key()?;
        let steps = [
            // The floor, the number of wanted tokens, and the expected last token.
            (floor, 1, floor),
            (after(floor, 100), 16, after(floor, 100)),
            (after(floor, 104), 16, after(floor, 104)),
            (after(floor, 104), 16, after(floor, 105)),
            (after(floor, 1), 1, after(floor, 106)),
            (FencingToken::new(0), 3, after(floor, 107)),
            (after(floor, 108), 3, after(floor, 108)),
        ];
        let mut highest = None;
        for (floor, wanted, last) in steps {
            let claim = scene.claim(&key)?;
            let tokens = client.elected(&ballot(&claim, ttl, floor, wanted)).await?.tokens;
            ensure!(tokens.last() == last, "{tokens:?} do not end with {last}, the floor: {floor}");
            ensure!(tokens.count().get() <= wanted, "{tokens:?} are more than {wanted}");
            above(&mut highest, tokens)?;
            client.freed(&claim).await?;
        }
    }
    // Tokens of ordinary grants count as well.
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let floor = one.granted(&claim, ttl).await?.tokens.last();
    one.freed(&claim).await?;
    let next = scene.claim(&key)?;
    let first = other.elected(&ballot(&next, ttl, floor, 1)).await?.tokens.last();
    ensure!(first == after(floor, 1), "{first} does not come next after {floor}");
    Ok(())
}

pub(in super::super) async fn tokens_increase_from_vote_to_vote<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, floor) = (scene.key()?, scene.long(), soon());
    let mut highest = None;
    for (steps, wanted) in [(0, 1), (0, 64), (50, 1000), (49, 7), (1, 1), (100_000, 64)] {
        for client in [&one, &other] {
            let claim = scene.claim(&key)?;
            let ballot = ballot(&claim, ttl, after(floor, steps), wanted);
            above(&mut highest, client.elected(&ballot).await?.tokens)?;
            let renewal = client.renews(&Renew::new(claim.clone(), ttl).reserving(5)).await?;
            if let Renewal::Renewed { tokens: Some(tokens), .. } = renewal {
                above(&mut highest, tokens)?;
            }
            client.freed(&claim).await?;
        }
        let claim = scene.claim(&key)?;
        above(&mut highest, other.granted(&claim, ttl).await?.tokens)?;
        other.freed(&claim).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_wild_floor_is_bounded<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    const HOUR: Duration = Duration::from_secs(60 * 60);
    /// How much the clocks of the node and of this test may differ.
    const SKEW: Duration = Duration::from_secs(60);
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for wild in [FencingToken::new(u64::MAX), from_now(2 * HOUR), from_now(1000 * HOUR)] {
        let (key, mut highest) = (scene.key()?, None);
        for client in [&one, &other, &one] {
            let claim = scene.claim(&key)?;
            let tokens = client.elected(&ballot(&claim, ttl, wild, 8)).await?.tokens;
            let (earliest, latest) = (from_now(HOUR - SKEW), from_now(HOUR + SKEW));
            let is_bounded = earliest < tokens.last() && tokens.last() < latest;
            ensure!(is_bounded, "for the floor {wild}, {tokens:?} are not an hour ahead");
            above(&mut highest, tokens)?;
            client.freed(&claim).await?;
        }
        above(&mut highest, one.granted(&scene.claim(&key)?, ttl).await?.tokens)?;
    }
    Ok(())
}

pub(in super::super) async fn a_repeated_vote_is_the_same<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl, floor) = (scene.key()?, scene.long(), soon());
    let claim = scene.claim(&key)?;
    let tokens = one.elected(&ballot(&claim, ttl, floor, 8)).await?.tokens;
    let same = |again: TokenRange| {
        ensure!(again == tokens, "the repeated vote got {again:?}, the first {tokens:?}");
        Check::Ok(())
    };
    for (client, floor, wanted) in [(&one, floor, 8), (&other, after(floor, 500), 64)] {
        same(client.elected(&ballot(&claim, ttl, floor, wanted)).await?.tokens)?;
    }
    // Confirmations make no difference, nor which of the two requests is repeated.
    one.confirms(&claim, after(floor, 700), true).await?;
    same(one.elected(&ballot(&claim, ttl, floor, 8)).await?.tokens)?;
    same(other.granted(&claim, ttl).await?.tokens)?;
    one.freed(&claim).await?;
    let again = other.elected(&ballot(&claim, ttl, floor, 8)).await?.tokens;
    ensure!(again.first() > tokens.last(), "{again:?} came after {tokens:?}, which were released");
    Ok(())
}

pub(in super::super) async fn a_late_release_ends_no_other_ballot<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    // One client, whose requests take two ways.
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let dead = scene.claim(&key)?;
    let mut next = dead.clone();
    next.owner = dead.owner.sibling()?;
    // All that follows a vote comes before it, and has no effect. The release is repeated after the vote.
    other.lost(&dead, ttl).await?;
    other.confirms(&dead, soon(), false).await?;
    other.not_held(&dead).await?;
    one.elected(&ballot(&dead, ttl, soon(), 1)).await?;
    other.freed(&dead).await?;
    // The release of the dead ballot comes once more after the next vote, and so does its vote.
    one.elected(&ballot(&next, ttl, soon(), 1)).await?;
    other.not_held(&dead).await?;
    one.renewed(&next, ttl).await?;
    let late = other.try_vote(&ballot(&dead, ttl, soon(), 1)).await??;
    ensure!(matches!(late, Vote::Busy { .. }), "two ballots have the key: {late:?}");
    other.not_held(&dead).await?;
    one.renewed(&next, ttl).await?;
    one.freed(&next).await?;
    // A renewal and a confirmation come after the release.
    other.lost(&next, ttl).await?;
    other.confirms(&next, soon(), false).await
}

pub(in super::super) async fn a_refusal_names_the_holder<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, short, long) = (scene.key()?, scene.ttl(), scene.long());
    for by_vote in [true, false] {
        let held = scene.claim(&key)?;
        if by_vote {
            one.elected(&ballot(&held, long, soon(), 1)).await?;
        } else {
            granted(one.ask(&Acquire::new(held.clone(), long)).await?)?;
        }
        for client in [&one, &other] {
            let (holder, time) = client.outvoted(&scene.claim(&key)?, long).await?;
            ensure!(holder == Some(held.owner.tag()), "{holder:?} is not the holder");
            let is_plausible = time.is_some_and(|time| short.duration() < time);
            ensure!(is_plausible, "a lease of {long:?} seems to end after {time:?}");
        }
        one.freed(&held).await?;
    }
    // Of several holders, it names the one whose lease ends last, whichever came first.
    for (first, second) in [(short, long), (long, short)] {
        let key = scene.key()?;
        let readers = [in_mode(&key, Mode::Shared)?, in_mode(&key, Mode::Shared)?];
        one.elected(&ballot(&readers[0], first, soon(), 1)).await?;
        other.elected(&ballot(&readers[1], second, soon(), 1)).await?;
        let last = if first > second { &readers[0] } else { &readers[1] };
        for client in [&one, &other] {
            let (holder, _) = client.outvoted(&scene.claim(&key)?, long).await?;
            ensure!(holder == Some(last.owner.tag()), "{holder:?} does not hold longest");
        }
    }
    Ok(())
}

pub(in super::super) async fn a_vote_for_the_shortest_lease<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let client = scene.client().await?;
    let ttl = client.backend.shortest_ttl();
    client.elected(&ballot(&scene.claim(&scene.key()?)?, ttl, soon(), 1)).await?;
    Ok(())
}

pub(in super::super) async fn permits_are_not_voted_on<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let of = 3;
    for take in [1, 3] {
        let claim = in_mode(&key, Mode::Permits { take, of })?;
        match one.try_vote(&ballot(&claim, ttl, soon(), 1)).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            answer => return Err(Failure::Broken(format!("a ballot for permits got {answer:?}"))),
        }
    }
    elected(other.vote(&ballot(&scene.claim(&key)?, ttl, soon(), 1)).await?)?;
    Ok(())
}

/// Checks that all of these tokens are above all earlier ones.
fn above(highest: &mut Option<FencingToken>, tokens: TokenRange) -> Check {
    let before = highest.replace(tokens.last());
    ensure!(before < Some(tokens.first()), "{} came after {before:?}", tokens.first());
    Ok(())
}
