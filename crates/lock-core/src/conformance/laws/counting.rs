//! Permits.

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Scene, in_mode};
use super::super::verdict::{Check, ensure};
use super::arena::contest;
use crate::{ErrorKind, Mode};

/// `take` of three permits.
fn permits(take: u32) -> Mode {
    Mode::Permits { take, of: 3 }
}

pub(in super::super) async fn permits_add_up_to_their_limit<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    // Permits may be added, so a request for more than there are is like any other.
    one.is_refused(&in_mode(&key, permits(4))?, ttl).await?;
    let (two, last) = (in_mode(&key, permits(2))?, in_mode(&key, permits(1))?);
    one.obtains(&two, ttl).await?;
    other.is_refused(&in_mode(&key, permits(2))?, ttl).await?;
    other.obtains(&last, ttl).await?;
    for client in [&one, &other] {
        client.is_refused(&in_mode(&key, permits(1))?, ttl).await?;
    }
    one.freed(&two).await?;
    one.is_refused(&in_mode(&key, permits(3))?, ttl).await?;
    one.obtains(&in_mode(&key, permits(1))?, ttl).await?;
    other.obtains(&in_mode(&key, permits(1))?, ttl).await?;
    other.is_refused(&in_mode(&key, permits(1))?, ttl).await?;
    other.renewed(&last, ttl).await?;
    Ok(())
}

pub(in super::super) async fn permits_never_exceed_their_limit<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    contest(&scene, 3, &[1, 2, 1, 3, 1, 2].map(permits), 60).await
}

pub(in super::super) async fn an_expired_holders_permits_return<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let (dead, live) = (in_mode(&key, permits(2))?, in_mode(&key, permits(1))?);
    one.obtains(&dead, scene.ttl()).await?;
    other.obtains(&live, scene.long()).await?;
    other.is_refused(&in_mode(&key, permits(2))?, scene.long()).await?;
    scene.outlast(scene.ttl().duration()).await;
    other.obtains(&in_mode(&key, permits(2))?, scene.long()).await?;
    // Releasing a lease that is over gives back nothing.
    one.not_held(&dead).await?;
    one.is_refused(&in_mode(&key, permits(1))?, scene.long()).await?;
    other.renewed(&live, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn differing_limits_are_refused<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = in_mode(&key, Mode::Permits { take: 1, of: 31 })?;
    one.obtains(&held, ttl).await?;
    let request = queued(&key, Mode::Permits { take: 1, of: 57 }, ttl)?;
    let message = other.fails(&request, ErrorKind::InvalidConfig).await?;
    let names_both = message.contains("31") && message.contains("57");
    ensure!(names_both, "the limits 31 and 57 are not in {message:?}");
    one.renewed(&held, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_large_request_is_not_starved<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let small = [in_mode(&key, permits(1))?, in_mode(&key, permits(1))?];
    one.obtains(&small[0], ttl).await?;
    other.obtains(&small[1], ttl).await?;
    let mut large = other.waits(queued(&key, permits(3), ttl)?).await?;
    // There is a permit for each of these, but another waiter comes before them.
    one.is_refused(&in_mode(&key, permits(1))?, ttl).await?;
    let mut later = one.waits(queued(&key, permits(1), ttl)?).await?;
    let mut latest = other.waits(queued(&key, permits(2), ttl)?).await?;
    one.freed(&small[0]).await?;
    later.still_waits().await?;
    latest.still_waits().await?;
    large.still_waits().await?;
    other.freed(&small[1]).await?;
    large.hears_grant().await?;
    large.claims().await?;
    later.still_waits().await?;
    ensure!(large.leaves().await?, "the lease was lost");
    // There is room for both of the next waiters.
    for waiter in [&mut later, &mut latest] {
        waiter.hears_grant().await?;
        waiter.claims().await?;
    }
    one.refused(&key, ttl).await?;
    ensure!(later.leaves().await? && latest.leaves().await?, "a lease was lost");
    one.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}
