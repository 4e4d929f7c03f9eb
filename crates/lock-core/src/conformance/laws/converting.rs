//! Conversions from one mode to another.

use super::super::Harness;
use super::super::line::{Request, queued, refused};
use super::super::scene::{Client, Held, Scene, granted, in_mode};
use super::super::verdict::{Check, ensure};
use crate::{Acquire, AcquireOutcome, Claim, Convert, ErrorKind, Grant, Key, Mode, Ttl};

pub(in super::super) async fn every_conversion_is_served<H: Harness>(scene: Scene<'_, H>) -> Check {
    let one = scene.client().await?;
    let ttl = scene.long();
    let permits = |take| Mode::Permits { take, of: 3 };
    let steps = [
        (Mode::Exclusive, Mode::Shared),
        (Mode::Exclusive, Mode::Upgradable),
        (Mode::Upgradable, Mode::Shared),
        (Mode::Upgradable, Mode::Exclusive),
        (permits(3), permits(2)),
    ];
    for (from, to) in steps {
        let held = in_mode(&scene.key()?, from)?;
        if !one.serves(from, ttl).await? || !one.serves(to, ttl).await? {
            continue;
        }
        one.obtains(&held, ttl).await?;
        let convert = Convert::new(held, to, ttl);
        let attempt = convert.send(&one.backend).await;
        ensure!(
            matches!(attempt, Ok(AcquireOutcome::Granted(_))),
            "{}: {attempt:?}",
            convert.lacking()
        );
        one.renewed(&convert.request.claim, ttl).await?;
        one.freed(&convert.request.claim).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_downgrade_leaves_no_gap<H: Harness>(scene: Scene<'_, H>) -> Check {
    let Held { holder: one, other, key, ttl, held: written, .. } = scene.held().await?;
    let downgrade = Convert::new(written.clone(), Mode::Shared, ttl);
    // A writer is first in the queue, and must not get in between.
    let mut writer = other.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    let mut reader = other.waits(queued(&key, Mode::Shared, ttl)?).await?;
    granted(one.ask(&downgrade).await?)?;
    writer.still_waits().await?;
    reader.still_waits().await?;
    // The former lease is over, and the new one is a lease like any other.
    one.lost(&written, ttl).await?;
    one.not_held(&written).await?;
    one.renewed(&downgrade.request.claim, ttl).await?;
    writer.still_waits().await?;
    one.freed(&downgrade.request.claim).await?;
    writer.hears_grant().await?;
    ensure!(writer.leaves().await?, "the lease was lost");
    reader.hears_grant().await?;
    reader.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_downgrade_lets_readers_in<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    // Only the second mode lets in the third.
    let steps = [
        (Mode::Exclusive, Mode::Shared, Mode::Upgradable),
        (Mode::Exclusive, Mode::Upgradable, Mode::Shared),
        (Mode::Upgradable, Mode::Shared, Mode::Upgradable),
    ];
    for (from, to, welcome) in steps {
        let key = scene.key()?;
        let held = in_mode(&key, from)?;
        let before = one.obtains(&held, ttl).await?;
        let mut reader = other.waits(queued(&key, welcome, ttl)?).await?;
        let downgrade = Convert::new(held.clone(), to, ttl);
        let after = granted(one.ask(&downgrade).await?)?;
        ensure!(
            after.tokens == before.tokens,
            "the tokens were {:?} and are {:?} after a downgrade",
            before.tokens,
            after.tokens
        );
        reader.hears_grant().await?;
        reader.claims().await?;
        one.renewed(&downgrade.request.claim, ttl).await?;
    }
    Ok(())
}

/// A key that one client holds in the upgradable mode, beside a reader of another client.
struct Beside<B> {
    one: Client<B>,
    other: Client<B>,
    key: Key,
    ttl: Ttl,
    upgradable: Claim,
    reader: Claim,
    before: Grant,
}

async fn beside<H: Harness>(scene: &Scene<'_, H>) -> Check<Beside<H::Client>> {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let upgradable = in_mode(&key, Mode::Upgradable)?;
    let reader = in_mode(&key, Mode::Shared)?;
    let before = one.obtains(&upgradable, ttl).await?;
    other.obtains(&reader, ttl).await?;
    Ok(Beside { one, other, key, ttl, upgradable, reader, before })
}

pub(in super::super) async fn an_upgrade_waits_for_readers<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Beside { one, other, key, ttl, upgradable, reader, before } = beside(&scene).await?;
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl);
    refused(one.ask(&upgrade).await?)?;
    one.renewed(&upgradable, ttl).await?;
    other.renewed(&reader, ttl).await?;
    other.freed(&reader).await?;
    let after = granted(one.ask(&upgrade).await?)?;
    let (highest, lowest) = (before.tokens.last(), after.tokens.first());
    ensure!(lowest > highest, "an upgrade brought {lowest} after {highest}");
    // The owner alone holds the key, and only in that mode.
    other.is_refused(&in_mode(&key, Mode::Shared)?, ttl).await?;
    one.lost(&upgradable, ttl).await?;
    one.freed(&upgrade.request.claim).await?;
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn an_upgrade_goes_before_those_in_line<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Beside { one, other, key, ttl, upgradable, reader, before } = beside(&scene).await?;
    let mut writer = other.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl).queued();
    let mut upgrade = one.waits(upgrade).await?;
    writer.still_waits().await?;
    other.freed(&reader).await?;
    let pushed = upgrade.hears_grant().await?;
    let claimed = upgrade.claims().await?;
    for grant in pushed.into_iter().chain([claimed]) {
        let (highest, lowest) = (before.tokens.last(), grant.tokens.first());
        ensure!(lowest > highest, "an upgrade brought {lowest} after {highest}");
    }
    one.lost(&upgradable, ttl).await?;
    writer.still_waits().await?;
    ensure!(upgrade.leaves().await?, "the lease was lost");
    writer.hears_grant().await?;
    writer.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_waiting_upgrade_keeps_its_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Beside { one, other, key, ttl, upgradable, .. } = beside(&scene).await?;
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl).queued();
    let mut upgrade = one.waits(upgrade).await?;
    one.renewed(&upgradable, ttl).await?;
    // Readers that come now wait for it, as for any writer.
    other.is_refused(&in_mode(&key, Mode::Shared)?, ttl).await?;
    let mut later = other.waits(queued(&key, Mode::Shared, ttl)?).await?;
    upgrade.still_waits().await?;
    // The owner gives up the upgrade, but not its lease.
    ensure!(!upgrade.leaves().await?, "it was granted beside a reader");
    one.renewed(&upgradable, ttl).await?;
    later.hears_grant().await?;
    later.claims().await?;
    other.is_refused(&in_mode(&key, Mode::Upgradable)?, ttl).await?;
    one.freed(&upgradable).await
}

pub(in super::super) async fn an_upgrade_never_shortens_the_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for waits in [false, true] {
        let key = scene.key()?;
        let upgradable = in_mode(&key, Mode::Upgradable)?;
        one.obtains(&upgradable, ttl).await?;
        // The upgrade asks for a shorter time than the lease has, and a handed-over lease lives only briefly.
        let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, scene.ttl());
        if waits {
            let reader = in_mode(&key, Mode::Shared)?;
            other.obtains(&reader, ttl).await?;
            let mut waiter = one.waits(upgrade.clone().queued()).await?;
            other.freed(&reader).await?;
            waiter.hears_grant().await?;
        } else {
            granted(one.ask(&upgrade).await?)?;
        }
        scene.outlast(scene.ttl().duration()).await;
        other.is_refused(&in_mode(&key, Mode::Shared)?, ttl).await?;
        one.renewed(&upgrade.request.claim, ttl).await?;
    }
    Ok(())
}

pub(in super::super) async fn an_upgrade_can_leave_the_line<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Beside { one, other, key, ttl, upgradable, reader, .. } = beside(&scene).await?;
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl);
    let waiting = one.waits(upgrade.clone().queued()).await?;
    let mut later = other.waits(queued(&key, Mode::Shared, ttl)?).await?;
    later.still_waits().await?;
    // The upgrade waits no more and holds up no waiter. The lease stays.
    refused(one.ask(&upgrade).await?)?;
    later.hears_grant().await?;
    later.claims().await?;
    one.renewed(&upgradable, ttl).await?;
    other.freed(&reader).await?;
    ensure!(later.leaves().await?, "the lease was lost");
    one.renewed(&upgradable, ttl).await?;
    one.lost(waiting.claim(), ttl).await?;
    // As the only holder, the owner is granted the upgrade.
    granted(one.ask(&upgrade).await?)?;
    one.freed(&upgrade.request.claim).await?;
    Ok(())
}

pub(in super::super) async fn an_upgradable_holder_hears_that_it_is_alone<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let upgradable = in_mode(&key, Mode::Upgradable)?;
    let readers = [in_mode(&key, Mode::Shared)?, in_mode(&key, Mode::Shared)?];
    one.obtains(&upgradable, ttl).await?;
    for reader in &readers {
        other.obtains(reader, ttl).await?;
    }
    other.freed(&readers[0]).await?;
    let mut watches = [(&one, one.watch(&key).await?), (&other, other.watch(&key).await?)];
    let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl);
    refused(one.ask(&upgrade).await?)?;
    other.freed(&readers[1]).await?;
    for (client, watch) in &mut watches {
        client.hears_release(watch).await?;
    }
    granted(one.ask(&upgrade).await?)?;
    one.freed(&upgrade.request.claim).await
}

pub(in super::super) async fn an_upgrade_ends_with_its_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (ttl, short) = (scene.long(), scene.ttl_with_rest());
    for expires in [false, true] {
        let key = scene.key()?;
        let upgradable = in_mode(&key, Mode::Upgradable)?;
        let reader = in_mode(&key, Mode::Shared)?;
        one.obtains(&upgradable, if expires { short } else { ttl }).await?;
        other.obtains(&reader, ttl).await?;
        let upgrade = Convert::new(upgradable.clone(), Mode::Exclusive, ttl).queued();
        let upgrade = one.waits(upgrade).await?;
        if expires {
            scene.outlast(short.duration()).await;
        } else {
            one.freed(&upgradable).await?;
        }
        // The upgrade holds back no claim any more, and is not granted when the key is free.
        let late = in_mode(&key, Mode::Shared)?;
        other.obtains(&late, ttl).await?;
        other.freed(&late).await?;
        other.freed(&reader).await?;
        one.lost(upgrade.request.claim(), ttl).await?;
        other.granted(&scene.claim(&key)?, ttl).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_repeated_conversion_returns_the_same_grant<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let steps = [
        (Mode::Exclusive, Mode::Shared),
        (Mode::Exclusive, Mode::Upgradable),
        (Mode::Upgradable, Mode::Exclusive),
    ];
    for (from, to) in steps {
        let key = scene.key()?;
        let held = in_mode(&key, from)?;
        one.obtains(&held, ttl).await?;
        let convert = Convert::new(held.clone(), to, ttl);
        let first = granted(one.ask(&convert).await?)?;
        for client in [&one, &other] {
            let again = granted(client.ask(&convert).await?)?;
            ensure!(
                again.tokens == first.tokens,
                "the repeated conversion got {:?}, the first {:?}",
                again.tokens,
                first.tokens
            );
        }
        one.freed(&convert.request.claim).await?;
        other.granted(&scene.claim(&key)?, ttl).await?;
    }
    Ok(())
}

pub(in super::super) async fn converting_what_is_not_held_fails<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for (from, to) in [(Mode::Exclusive, Mode::Shared), (Mode::Upgradable, Mode::Exclusive)] {
        let key = scene.key()?;
        let never = in_mode(&key, from)?;
        one.fails(&Convert::new(never.clone(), to, ttl).queued(), ErrorKind::NotHeld).await?;
        let over = in_mode(&key, from)?;
        one.obtains(&over, scene.ttl()).await?;
        scene.outlast(scene.ttl().duration()).await;
        one.fails(&Convert::new(over.clone(), to, ttl), ErrorKind::NotHeld).await?;
        // Nor can a client convert a lease of another owner.
        let held = in_mode(&key, from)?;
        other.obtains(&held, ttl).await?;
        for claim in [&never, &over] {
            one.fails(&Convert::new(claim.clone(), to, ttl), ErrorKind::NotHeld).await?;
        }
        other.renewed(&held, ttl).await?;
        other.freed(&held).await?;
        other.granted(&scene.claim(&key)?, ttl).await?;
    }
    Ok(())
}

pub(in super::super) async fn impossible_conversions_are_refused<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let permits = Mode::Permits { take: 1, of: 3 };
    let pairs = [
        (Mode::Shared, Mode::Exclusive),
        (Mode::Shared, Mode::Upgradable),
        (Mode::Exclusive, permits),
        (permits, Mode::Exclusive),
        (permits, Mode::Permits { take: 2, of: 3 }),
    ];
    for (from, to) in pairs {
        let key = scene.key()?;
        let held = in_mode(&key, from)?;
        one.obtains(&held, ttl).await?;
        one.fails(&Convert::new(held.clone(), to, ttl), ErrorKind::InvalidConfig).await?;
        one.renewed(&held, ttl).await?;
        other.refused(&key, ttl).await?;
        one.freed(&held).await?;
        let attempt = other.ask(&Acquire::new(scene.claim(&key)?, ttl)).await?;
        ensure!(
            matches!(attempt, AcquireOutcome::Granted(_)),
            "something was left behind: {attempt:?}"
        );
    }
    Ok(())
}
