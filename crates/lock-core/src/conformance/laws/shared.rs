//! The promise of a backend that tells readers from writers.

use super::super::Harness;
use super::super::scene::{Scene, in_mode};
use super::super::verdict::Check;
use crate::{Mode, SharedBackend};

pub(in super::super) async fn every_way_to_share_is_served<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: SharedBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for mode in [Mode::Shared, Mode::Upgradable, Mode::Exclusive] {
        let held = in_mode(&scene.key()?, mode)?;
        one.obtains(&held, ttl).await?;
        other.is_refused(&in_mode(&held.key, Mode::Exclusive)?, ttl).await?;
        one.freed(&held).await?;
    }
    Ok(())
}
