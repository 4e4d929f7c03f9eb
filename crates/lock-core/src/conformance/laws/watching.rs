//! Hints about a key.

use super::super::Harness;
use super::super::scene::Scene;
use super::super::verdict::{Check, Failure};
use crate::Hint;

pub(in super::super) async fn a_release_wakes_a_watcher<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, waiter) = scene.two_clients().await?;
    let key = scene.key()?;
    let held = scene.claim(&key)?;
    holder.granted(&held, scene.long()).await?;
    let mut watch = waiter.watch(&key).await?;
    waiter.refused(&key, scene.long()).await?;
    holder.freed(&held).await?;
    waiter.hears_release(&mut watch).await?;

    // The watch goes on, because one release must not use it up.
    for _ in 0..3 {
        let held = scene.claim(&key)?;
        holder.granted(&held, scene.long()).await?;
        holder.freed(&held).await?;
        waiter.hears_release(&mut watch).await?;
    }
    Ok(())
}

pub(in super::super) async fn every_watcher_is_woken<H: Harness>(scene: Scene<'_, H>) -> Check {
    let holder = scene.client().await?;
    let waiters = scene.clients(4).await?;
    let key = scene.key()?;
    let held = scene.claim(&key)?;
    holder.granted(&held, scene.long()).await?;
    let mut watches = Vec::new();
    // Each waiter has two watches, and the holder has one.
    for waiter in waiters.iter().chain(&waiters).chain([&holder]) {
        watches.push((waiter, waiter.watch(&key).await?));
    }
    // Dropping one of them must not silence the others.
    drop(watches.swap_remove(1));
    holder.freed(&held).await?;
    for (waiter, watch) in &mut watches {
        waiter.hears_release(watch).await?;
    }
    Ok(())
}

pub(in super::super) async fn a_watch_sees_only_its_key<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, waiter) = scene.two_clients().await?;
    let (key, foreign) = (scene.key()?, scene.key()?);
    let (mine, other) = (scene.claim(&key)?, scene.claim(&foreign)?);
    holder.granted(&mine, scene.long()).await?;
    holder.granted(&other, scene.long()).await?;
    let mut watch = waiter.watch(&key).await?;
    let mut control = waiter.watch(&foreign).await?;
    holder.freed(&other).await?;
    // The hint about the other key has arrived. Even a while later there is none about this one.
    waiter.hears_release(&mut control).await?;
    let foreign_hint = async {
        loop {
            match watch.next().await {
                Some(Hint::Resync) => {}
                Some(hint) => return format!("a watch said {hint:?} of a key that is held"),
                None => return "a watch ended".into(),
            }
        }
    };
    tokio::select! {
        what = foreign_hint => Err(Failure::Broken(what)),
        () = scene.pause(scene.ttl().duration() / 4) => Ok(()),
    }
}

pub(in super::super) async fn a_cut_watch_says_so<H: Harness>(scene: Scene<'_, H>) -> Check {
    let waiter = scene.client().await?;
    let key = scene.key()?;
    let mut watch = waiter.watch(&key).await?;
    scene.cut(&waiter).await?;
    scene.heal(&waiter).await;
    waiter
        .bounded("the end of a watch that was cut", async {
            while !matches!(watch.next().await, None | Some(Hint::Resync)) {}
        })
        .await
}
