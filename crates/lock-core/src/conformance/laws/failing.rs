//! A store that cannot be reached.

use std::time::Duration;

use super::super::Harness;
use super::super::scene::{Client, Held, Scene, retryable};
use super::super::verdict::{Check, Failure, ensure};
use crate::{Acquire, Backend, Claim, Renewal, Ttl};

pub(in super::super) async fn a_cut_client_recovers<H: Harness>(scene: Scene<'_, H>) -> Check {
    let Held { holder: client, other, key, ttl, held, .. } = scene.held().await?;

    scene.cut(&client).await?;
    let unheld = scene.key()?;
    while_cut(&client, &held, &scene.claim(&unheld)?, ttl).await?;
    other.refused(&key, ttl).await?;

    scene.heal(&client).await;
    let clock = client.clock();
    let deadline = clock.now() + scene.patience();
    while !works_again(&client, &held, &scene.claim(&unheld)?, ttl).await? {
        ensure!(clock.now() < deadline, "no recovery within {:?}", scene.patience());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    other.refused(&key, ttl).await?;
    client.freed(&held).await
}

/// Checks that requests fail only with retryable errors.
async fn while_cut<B: Backend>(
    client: &Client<B>,
    held: &Claim,
    unheld: &Claim,
    ttl: Ttl,
) -> Check {
    if let Err(error) = client.try_acquire(&Acquire::new(unheld.clone(), ttl)).await? {
        retryable("try_acquire", &error)?;
    }
    if let Err(error) = client.release(unheld).await? {
        retryable("release", &error)?;
    }
    still_held(client.renew(held, ttl).await?)?;
    Ok(())
}

/// Whether the client reaches the store again: it renews one lease, and acquires and releases another.
async fn works_again<B: Backend>(
    client: &Client<B>,
    held: &Claim,
    fresh: &Claim,
    ttl: Ttl,
) -> Check<bool> {
    if !still_held(client.renew(held, ttl).await?)? {
        return Ok(false);
    }
    // The store may refuse a new owner here, because the release of an earlier one may have failed.
    if let Err(error) = client.try_acquire(&Acquire::new(fresh.clone(), ttl)).await? {
        retryable("try_acquire", &error)?;
        return Ok(false);
    }
    if let Err(error) = client.release(fresh).await? {
        retryable("release", &error)?;
        return Ok(false);
    }
    Ok(true)
}

/// Whether a renewal succeeded. A lease that is held must never be reported as lost.
fn still_held(renewal: Renewal) -> Check<bool> {
    match renewal {
        Renewal::Renewed { .. } | Renewal::Held => Ok(true),
        Renewal::Unknown(error) => retryable("renew", &error).map(|()| false),
        Renewal::Lost => Err(Failure::Broken("a lease that is held was reported as lost".into())),
    }
}
