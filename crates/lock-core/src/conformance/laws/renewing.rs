//! Renewing a lease.

use super::super::Harness;
use super::super::scene::{Scene, Succeeded, renewed};
use super::super::verdict::{Check, Failure, ensure};
use super::slow::{poll_and_drop, seen_late};
use crate::{Backend, Renew, Renewal, Ttl};

pub(in super::super) async fn renew_extends_the_lease<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let claim = scene.claim(&key)?;
    let first = holder.granted(&claim, ttl).await?.valid_until;
    // The store may be late to end the first lease, and the second one has to outlast that.
    let longer = Ttl::new(ttl.duration() + scene.rest() + holder.limits().lag)?;
    let second = holder.renewed(&claim, longer).await?;
    ensure!(second > first, "the renewed deadline is not after the first");
    scene.outlast(ttl.duration()).await;
    scene.refused_until(second, &other, &key).await
}

pub(in super::super) async fn renew_keeps_the_tokens<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    let before = holder.granted(&claim, scene.long()).await?;
    for client in [&holder, &other] {
        client.renewed(&claim, scene.long()).await?;
        let after = client.granted(&claim, scene.long()).await?;
        ensure!(
            after.tokens == before.tokens,
            "the tokens were {:?} and are {:?} after a renewal",
            before.tokens,
            after.tokens
        );
    }
    Ok(())
}

pub(in super::super) async fn a_renewal_is_dated_from_before_the_request<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl_with_rest());
    let claim = scene.claim(&key)?;
    holder.granted(&claim, scene.long()).await?;
    let slow = seen_late(holder.renew(&claim, ttl), scene.pause(ttl.duration() / 4)).await;
    let valid_until = renewed(slow?)?;
    let latest = ttl.valid_until(holder.clock().now());
    ensure!(valid_until <= latest, "the deadline leaves less than the drift to the store's");
    scene.refused_until(valid_until, &other, &key).await
}

pub(in super::super) async fn a_dropped_renewal_shortens_no_later_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let ttl = scene.ttl();
    let mut keys = Vec::new();
    for polls in (0..10).chain([20, 40]) {
        let key = scene.key()?;
        let claim = scene.claim(&key)?;
        holder.granted(&claim, ttl).await?;
        poll_and_drop(polls, holder.backend.renew(&Renew::new(claim.clone(), ttl))).await;
        holder.renewed(&claim, scene.long()).await?;
        keys.push(key);
    }
    scene.outlast(ttl.duration()).await;
    for key in &keys {
        other.refused(key, scene.long()).await?;
    }
    Ok(())
}

pub(in super::super) async fn renew_after_expiry_is_lost<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claim = scene.claim(&key)?;
    holder.granted(&claim, scene.ttl()).await?;
    scene.outlast(scene.ttl().duration()).await;
    for client in [&holder, &other] {
        client.lost(&claim, scene.long()).await?;
    }
    Ok(())
}

pub(in super::super) async fn renew_by_another_owner_is_lost<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Succeeded { former, holder, key, stale, current } = scene.succeeded().await?;
    former.lost(&stale, scene.long()).await?;
    // An owner that never held the key gets this answer, too. Neither request affects the holder.
    former.lost(&scene.claim(&key)?, scene.long()).await?;
    former.refused(&key, scene.long()).await?;
    holder.renewed(&current, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn renew_never_creates_a_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let never = scene.claim(&key)?;
    one.lost(&never, scene.long()).await?;
    one.not_held(&never).await?;

    let released = scene.claim(&key)?;
    one.granted(&released, scene.long()).await?;
    one.freed(&released).await?;
    one.lost(&released, scene.long()).await?;

    let expired = scene.claim(&key)?;
    other.granted(&expired, scene.ttl()).await?;
    scene.outlast(scene.ttl().duration()).await;
    other.lost(&expired, scene.long()).await?;

    one.granted(&scene.claim(&key)?, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn a_renewal_can_reserve_tokens<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    const WANTED: u32 = 16;
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = scene.claim(&key)?;
    let first = holder.granted(&held, ttl).await?.tokens;
    let mut highest = first.last();
    for client in [&holder, &other, &holder] {
        let renew = Renew::new(held.clone(), ttl).reserving(WANTED);
        let Renewal::Renewed { tokens: Some(tokens), .. } = client.renews(&renew).await? else {
            let reason = "this backend reserves no tokens when it renews";
            return Err(Failure::NotApplicable(reason.into()));
        };
        let count = tokens.count().get();
        ensure!(count <= WANTED, "{count} tokens were reserved, {WANTED} were asked for");
        ensure!(tokens.first() > highest, "{} was reserved after {highest}", tokens.first());
        highest = tokens.last();
    }
    let plain = holder.renews(&Renew::new(held.clone(), ttl)).await?;
    ensure!(
        matches!(plain, Renewal::Renewed { tokens: None, .. }),
        "no tokens were asked for, but it got {plain:?}"
    );
    ensure!(holder.granted(&held, ttl).await?.tokens == first, "the lease has other tokens now");
    holder.freed(&held).await?;
    let next = other.granted(&scene.claim(&key)?, ttl).await?.tokens.first();
    ensure!(next > highest, "{next} was granted, but up to {highest} was reserved");
    Ok(())
}
