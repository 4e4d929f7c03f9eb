//! The token of a quorum, at one of its nodes.

use super::super::Harness;
use super::super::ballots::{after, ballot, soon};
use super::super::scene::{Scene, in_mode};
use super::super::verdict::{Check, ensure};
use crate::{FencingToken, Mode, QuorumNode, Renew, Renewal};

const NONE: FencingToken = FencingToken::new(0);

pub(in super::super) async fn a_token_is_confirmed_while_its_lease_is_held<H>(
    scene: Scene<'_, H>,
) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let claim = scene.claim(&key)?;
    let far = after(soon(), 1_000_000);
    one.confirms(&claim, far, false).await?;
    let token = one.elected(&ballot(&claim, ttl, soon(), 4)).await?.tokens.last();
    // Another client may speak for the claim, as after a lost answer.
    for token in [token, token, after(token, 10)] {
        one.confirms(&claim, token, true).await?;
        other.confirms(&claim, token, true).await?;
    }
    other.confirms(&scene.claim(&key)?, far, false).await?;
    one.confirms(&claim.clone().in_mode(Mode::Shared), far, false).await?;
    one.freed(&claim).await?;
    one.confirms(&claim, far, false).await?;

    let dead = scene.claim(&key)?;
    let next = other.elected(&ballot(&dead, scene.ttl(), NONE, 1)).await?.tokens.last();
    ensure!(
        next == after(token, 11),
        "{next} came after {}, which was confirmed",
        after(token, 10)
    );
    scene.outlast(scene.ttl().duration()).await;
    other.confirms(&dead, far, false).await?;

    // A token that was not confirmed has no effect.
    let last = one.elected(&ballot(&scene.claim(&key)?, ttl, NONE, 1)).await?.tokens.last();
    ensure!(last == after(next, 1), "{last} came after {next}, and nothing was confirmed between");
    Ok(())
}

pub(in super::super) async fn a_stale_token_is_not_confirmed<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let claim = scene.claim(&key)?;
    let first = one.elected(&ballot(&claim, ttl, soon(), 1)).await?.tokens.last();
    one.confirms(&claim, after(first, 10), true).await?;
    one.confirms(&claim, after(first, 9), false).await?;
    one.confirms(&claim, after(first, 10), true).await?;

    // A delayed request takes the key once more after another owner had it.
    one.freed(&claim).await?;
    let rival = scene.claim(&key)?;
    let between = other.elected(&ballot(&rival, ttl, NONE, 1)).await?.tokens.last();
    other.freed(&rival).await?;
    let again = one.elected(&ballot(&claim, ttl, NONE, 1)).await?.tokens.last();
    for stale in [after(first, 10), between] {
        one.confirms(&claim, stale, false).await?;
    }
    one.confirms(&claim, again, true).await?;

    // Tokens of a renewal were given out as well.
    let renewal = one.renews(&Renew::new(claim.clone(), ttl).reserving(4)).await?;
    if let Renewal::Renewed { tokens: Some(tokens), .. } = renewal {
        one.confirms(&claim, again, false).await?;
        one.confirms(&claim, tokens.last(), true).await?;
    }
    one.freed(&claim).await?;

    // Likewise for readers, which hold the key at once.
    let readers = [in_mode(&key, Mode::Shared)?, in_mode(&key, Mode::Shared)?];
    let earlier = one.elected(&ballot(&readers[0], ttl, NONE, 1)).await?.tokens.last();
    let later = other.elected(&ballot(&readers[1], ttl, NONE, 1)).await?.tokens.last();
    one.confirms(&readers[0], earlier, false).await?;
    one.confirms(&readers[0], later, true).await?;
    other.confirms(&readers[1], later, true).await?;
    Ok(())
}

pub(in super::super) async fn a_confirmed_token_is_never_reissued<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: QuorumNode>,
{
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    for round in 0..3 {
        let claim = scene.claim(&key)?;
        let token = one.elected(&ballot(&claim, ttl, soon(), 2)).await?.tokens.last();
        let confirmed = after(token, 1000);
        one.confirms(&claim, confirmed, true).await?;
        let renewal = one.renews(&Renew::new(claim.clone(), ttl).reserving(3)).await?;
        if let Renewal::Renewed { tokens: Some(tokens), .. } = renewal {
            is_above(tokens.first(), confirmed)?;
        }
        one.freed(&claim).await?;
        // The next grant may come by a vote with an ignorant floor, or by an ordinary request.
        let next = scene.claim(&key)?;
        let grant = match round {
            0 => other.elected(&ballot(&next, ttl, NONE, 8)).await?,
            1 => other.elected(&ballot(&next, ttl, confirmed, 8)).await?,
            _ => other.granted(&next, ttl).await?,
        };
        is_above(grant.tokens.first(), confirmed)?;
        other.freed(&next).await?;
    }
    Ok(())
}

fn is_above(token: FencingToken, confirmed: FencingToken) -> Check {
    ensure!(token > confirmed, "{token} was given out after {confirmed} had been confirmed");
    Ok(())
}
