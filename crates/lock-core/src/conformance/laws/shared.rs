//! What a backend promises that knows readers from writers.

use super::super::Harness;
use super::super::line::conversion;
use super::super::scene::{Scene, granted, in_mode};
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
    let steps = [
        (Mode::Exclusive, Mode::Shared),
        (Mode::Exclusive, Mode::Upgradable),
        (Mode::Upgradable, Mode::Shared),
        (Mode::Upgradable, Mode::Exclusive),
    ];
    for (from, to) in steps {
        let held = in_mode(&scene.key()?, from)?;
        one.obtains(&held, ttl).await?;
        let convert = conversion(&held, to, ttl);
        granted(one.ask(&convert).await?)?;
        one.renewed(&convert.claim, ttl).await?;
        one.freed(&convert.claim).await?;
    }
    Ok(())
}
