//! How a lease ends.

use super::super::Harness;
use super::super::scene::{Scene, Succeeded};
use super::super::verdict::{Check, ensure};
use super::slow::poll_and_drop;
use crate::{Acquire, Backend};

pub(in super::super) async fn an_expired_lease_is_free<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.ttl());
    let grant = holder.granted(&scene.claim(&key)?, ttl).await?;
    other.refused(&key, ttl).await?;
    scene.outlast(ttl.duration()).await;
    ensure!(other.clock().now() >= grant.valid_until, "the deadline is after the lease's end");
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_live_lease_stays<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let grant = holder.granted(&scene.claim(&key)?, scene.ttl()).await?;
    scene.refused_until(grant.valid_until, &other, &key).await
}

pub(in super::super) async fn release_frees_the_key<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    for (holder, next) in [(&one, &other), (&other, &one), (&one, &one)] {
        let claim = scene.claim(&key)?;
        holder.granted(&claim, scene.long()).await?;
        next.refused(&key, scene.long()).await?;
        holder.freed(&claim).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_repeated_release_is_no_error<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let claimed = scene.claim(&key)?;
    holder.granted(&claimed, scene.long()).await?;
    holder.freed(&claimed).await?;
    for client in [&holder, &other] {
        client.not_held(&claimed).await?;
        client.not_held(&scene.claim(&key)?).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_release_by_another_owner_is_harmless<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let held = scene.claim(&key)?;
    holder.granted(&held, scene.long()).await?;
    for client in [&holder, &other] {
        client.not_held(&scene.claim(&key)?).await?;
        other.refused(&key, scene.long()).await?;
    }
    holder.renewed(&held, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn a_stale_release_is_harmless<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Succeeded { former, holder, key, stale, current } = scene.succeeded().await?;
    former.not_held(&stale).await?;
    former.refused(&key, scene.long()).await?;
    holder.renewed(&current, scene.long()).await?;
    holder.freed(&current).await
}

pub(in super::super) async fn a_dropped_acquire_can_be_released<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    for polls in (0..10).chain([20, 40]) {
        let key = scene.key()?;
        let request = Acquire::new(scene.claim(&key)?, scene.long());
        poll_and_drop(polls, one.backend.try_acquire(&request)).await;
        // The request may have taken effect or not, so either answer is right.
        let _either = one.release(&request.claim).await??;
        other.granted(&scene.claim(&key)?, scene.long()).await?;
    }
    Ok(())
}
