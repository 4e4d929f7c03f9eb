//! Readers and writers.

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Held, Scene, in_mode};
use super::super::verdict::{Check, ensure};
use crate::Mode;

pub(in super::super) async fn readers_share_a_key<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let mut highest = None;
    let mut readers = Vec::new();
    for client in [&one, &other, &one] {
        let reader = in_mode(&key, Mode::Shared)?;
        let tokens = client.obtains(&reader, ttl).await?.tokens;
        let before = highest.replace(tokens.last());
        ensure!(before < Some(tokens.first()), "{} came after {before:?}", tokens.first());
        readers.push((client, reader));
    }
    for (client, reader) in &readers {
        client.renewed(reader, ttl).await?;
        client.freed(reader).await?;
    }
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn readers_and_writers_exclude_each_other<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let readers = [in_mode(&key, Mode::Shared)?, in_mode(&key, Mode::Shared)?];
    one.obtains(&readers[0], ttl).await?;
    other.obtains(&readers[1], ttl).await?;
    for reader in &readers {
        one.refused(&key, ttl).await?;
        other.refused(&key, ttl).await?;
        one.freed(reader).await?;
    }
    let writer = scene.claim(&key)?;
    other.granted(&writer, ttl).await?;
    for client in [&one, &other] {
        client.is_refused(&in_mode(&key, Mode::Shared)?, ttl).await?;
    }
    other.freed(&writer).await?;
    one.obtains(&readers[0], ttl).await?;
    Ok(())
}

pub(in super::super) async fn each_reader_has_its_own_lease<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    each_holder_has_its_own_lease(scene, Mode::Shared).await
}

/// Holders in this mode hold a key together.
pub(super) async fn each_holder_has_its_own_lease<H: Harness>(
    scene: Scene<'_, H>,
    mode: Mode,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let key = scene.key()?;
    let (dead, live) = (in_mode(&key, mode)?, in_mode(&key, mode)?);
    one.obtains(&dead, scene.ttl()).await?;
    other.obtains(&live, scene.long()).await?;
    scene.outlast(scene.ttl().duration()).await;
    one.lost(&dead, scene.long()).await?;
    one.not_held(&dead).await?;
    other.renewed(&live, scene.long()).await?;
    one.refused(&key, scene.long()).await?;
    // The dead holder holds back no claim.
    other.freed(&live).await?;
    one.granted(&scene.claim(&key)?, scene.long()).await?;
    Ok(())
}

pub(in super::super) async fn a_claim_names_its_mode<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    for (held, another) in [(Mode::Shared, Mode::Exclusive), (Mode::Exclusive, Mode::Shared)] {
        let key = scene.key()?;
        let held = in_mode(&key, held)?;
        let another = held.clone().in_mode(another);
        one.obtains(&held, ttl).await?;
        for client in [&one, &other] {
            client.lost(&another, ttl).await?;
            client.not_held(&another).await?;
            client.renewed(&held, ttl).await?;
        }
        other.refused(&key, ttl).await?;
        other.freed(&held).await?;
        one.granted(&scene.claim(&key)?, ttl).await?;
    }
    Ok(())
}

pub(in super::super) async fn readers_in_line_are_granted_together<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder: one, other, key, ttl, held, .. } = scene.held().await?;
    let mut readers = Vec::new();
    for client in [&other, &one, &other] {
        readers.push(client.waits(queued(&key, Mode::Shared, ttl)?).await?);
    }
    let mut writer = one.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    let mut last = other.waits(queued(&key, Mode::Shared, ttl)?).await?;
    one.freed(&held).await?;
    for reader in &mut readers {
        reader.hears_grant().await?;
        reader.claims().await?;
    }
    // The readers are granted together up to the next writer.
    for reader in readers {
        writer.still_waits().await?;
        last.still_waits().await?;
        ensure!(reader.leaves().await?, "the lease was lost");
    }
    writer.hears_grant().await?;
    writer.claims().await?;
    last.still_waits().await?;
    ensure!(writer.leaves().await?, "the lease was lost");
    last.hears_grant().await?;
    last.claims().await?;
    Ok(())
}

pub(in super::super) async fn a_waiting_writer_holds_back_later_readers<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let reader = in_mode(&key, Mode::Shared)?;
    one.obtains(&reader, ttl).await?;
    let mut writer = other.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    one.is_refused(&in_mode(&key, Mode::Shared)?, ttl).await?;
    let mut later = one.waits(queued(&key, Mode::Shared, ttl)?).await?;
    one.freed(&reader).await?;
    writer.hears_grant().await?;
    writer.claims().await?;
    later.still_waits().await?;
    ensure!(writer.leaves().await?, "the lease was lost");
    later.hears_grant().await?;
    // A writer that gives up no longer holds back a reader.
    later.claims().await?;
    let writer = other.waits(queued(&key, Mode::Exclusive, ttl)?).await?;
    let mut latest = one.waits(queued(&key, Mode::Shared, ttl)?).await?;
    ensure!(!writer.leaves().await?, "a writer was granted the key beside a reader");
    latest.hears_grant().await?;
    latest.claims().await?;
    Ok(())
}

pub(in super::super) async fn only_one_reader_is_upgradable<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let upgradable = in_mode(&key, Mode::Upgradable)?;
    one.obtains(&upgradable, ttl).await?;
    for client in [&one, &other] {
        client.is_refused(&in_mode(&key, Mode::Upgradable)?, ttl).await?;
        client.refused(&key, ttl).await?;
    }
    // Plain readers get in, whichever came first.
    let reader = in_mode(&key, Mode::Shared)?;
    other.obtains(&reader, ttl).await?;
    one.freed(&upgradable).await?;
    one.refused(&key, ttl).await?;
    other.obtains(&in_mode(&key, Mode::Upgradable)?, ttl).await?;
    one.obtains(&in_mode(&key, Mode::Shared)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_key_is_one_kind_of_lock<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (one, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let kinds = [Mode::Exclusive, Mode::Shared, Mode::Permits { take: 1, of: 3 }];
    for held in kinds {
        let holder = in_mode(&key, held)?;
        one.obtains(&holder, ttl).await?;
        for asked in kinds.into_iter().filter(|asked| *asked != held) {
            other.is_refused(&in_mode(&key, asked)?, ttl).await?;
        }
        one.freed(&holder).await?;
    }
    // A free key can become another kind of lock.
    other.obtains(&in_mode(&key, Mode::Exclusive)?, ttl).await?;
    Ok(())
}
