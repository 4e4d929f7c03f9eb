//! Fencing tokens.

use std::num::NonZeroU32;

use super::super::Harness;
use super::super::scene::{Scene, granted};
use super::super::verdict::{Check, ensure};
use crate::{Acquire, Grant};

pub(in super::super) async fn tokens_increase_with_every_grant<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let mut before = None;
    for round in 0..20 {
        let client = if round % 2 == 0 { &one } else { &other };
        let claim = scene.claim(&key)?;
        let grant = client.granted(&claim, scene.long()).await?;
        above(before.replace(grant.clone()), grant)?;
        client.freed(&claim).await?;
    }
    Ok(())
}

pub(in super::super) async fn tokens_increase_after_expiry<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let before = one.granted(&scene.claim(&key)?, scene.ttl()).await?;
    scene.outlast(scene.ttl().duration()).await;
    let after = other.granted(&scene.claim(&key)?, scene.ttl()).await?;
    above(Some(before), after)
}

pub(in super::super) async fn tokens_increase_after_the_store_forgot<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    // Several grants, so that a counter that begins anew is far below its last token.
    let mut before = None;
    for _ in 0..5 {
        let claim = scene.claim(&key)?;
        before = Some(one.granted(&claim, scene.long()).await?);
        one.freed(&claim).await?;
    }
    scene.forget().await?;
    let after = other.granted(&scene.claim(&key)?, scene.long()).await?;
    above(before, after)
}

pub(in super::super) async fn a_reserved_range_is_never_reissued<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let mut before = None;
    for wanted in [64, 1, 1000, 64, 7, 1].into_iter().filter_map(NonZeroU32::new) {
        for client in [&one, &other] {
            let request = Acquire::new(scene.claim(&key)?, scene.long()).reserving(wanted);
            let grant = granted(client.try_acquire(&request).await??)?;
            let count = grant.tokens.count();
            ensure!(count <= wanted, "{count} tokens were granted, {wanted} were asked for");
            above(before.replace(grant.clone()), grant)?;
            client.freed(&request.claim).await?;
        }
    }
    Ok(())
}

/// Checks that all tokens of `after` are above all of `before`.
fn above(before: Option<Grant>, after: Grant) -> Check {
    let Some(before) = before else { return Ok(()) };
    let (highest, lowest) = (before.tokens.last(), after.tokens.first());
    ensure!(lowest > highest, "a grant of {lowest} came after one up to {highest}");
    Ok(())
}
