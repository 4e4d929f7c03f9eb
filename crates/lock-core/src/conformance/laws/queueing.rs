//! Places in the queue.

use std::num::NonZeroU32;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::super::Harness;
use super::super::line::refused;
use super::super::scene::{Held, Scene};
use super::super::verdict::{Check, Failure, ensure};
use super::arena::Arena;
use crate::{Acquire, AcquireOutcome, ErrorKind, Hint};

pub(in super::super) async fn a_refused_watcher_is_queued<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, ttl) = (scene.key()?, scene.long());
    holder.granted(&scene.claim(&key)?, ttl).await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    // Every later request is queued as well, also from the holder's own client.
    let mut line = Vec::new();
    for client in [&holder, &other, &holder] {
        let waiter = client.joins(scene.queued(&key, ttl)?).await?;
        let Some(waiter) = waiter else {
            return Err(Failure::Broken("one waiter was queued, the next was not".into()));
        };
        line.push(waiter);
    }
    first.still_waits().await?;
    for waiter in &mut line {
        waiter.still_waits().await?;
        let place = ttl.for_place().duration();
        ensure!(
            waiter.retry_after.is_some_and(|time| time < place),
            "to ask again after {:?} is too late for a place of {place:?}",
            waiter.retry_after
        );
    }
    Ok(())
}

pub(in super::super) async fn only_a_client_that_asks_and_watches_is_queued<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let stranger = scene.client().await?;
    let waiter = other.waits(scene.queued(&key, ttl)?).await?;
    ensure!(!waiter.leaves().await?, "a waiter held the key of another");

    // One client watches another key, and one watches the key but does not ask for a place.
    let _elsewhere = stranger.watch(&scene.key()?).await?;
    refused(stranger.ask(&scene.queued(&key, ttl)?).await?)?;
    let _watch = other.watch(&key).await?;
    refused(other.ask(&Acquire::new(scene.claim(&key)?, ttl)).await?)?;

    // So none of them is in the queue.
    holder.freed(&held).await?;
    holder.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn waiters_are_granted_in_order<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let clients = scene.clients(4).await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let mut holder = (&clients[0], scene.claim(&key)?);
    holder.0.granted(&holder.1, ttl).await?;
    let mut line = Vec::new();
    // The first client comes again at the end, with another owner.
    for client in clients.iter().skip(1).chain([&clients[0], &clients[1]]) {
        line.push(client.waits(scene.queued(&key, ttl)?).await?);
    }
    for index in 0..line.len() {
        holder.0.freed(&holder.1).await?;
        let (next, behind) = line[index..].split_first_mut().ok_or_else(empty_line)?;
        next.hears_grant().await?;
        next.claims().await?;
        for waiter in behind {
            waiter.still_waits().await?;
        }
        holder = (next.client, next.claim().clone());
    }
    Ok(())
}

fn empty_line() -> Failure {
    Failure::Broken("the line is empty".into())
}

pub(in super::super) async fn a_newcomer_does_not_overtake<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let newcomer = scene.client().await?;
    let (key, short) = (scene.key()?, scene.ttl_with_rest());
    // The holder dies, and so the key is free, but there is a waiter.
    holder.granted(&scene.claim(&key)?, short).await?;
    let mut waiter = other.waits(scene.queued(&key, scene.long())?).await?;
    scene.outlast(short.duration()).await;
    newcomer.is_refused(&scene.claim(&key)?, scene.long()).await?;
    let late = newcomer.joins(scene.queued(&key, scene.long())?).await?;
    waiter.hears_grant().await?;
    waiter.claims().await?;
    ensure!(late.is_some(), "the first request was queued, but not the later one");
    Ok(())
}

pub(in super::super) async fn a_repeated_request_keeps_its_place<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let mut first = other.waits(scene.queued(&key, ttl)?).await?;
    let mut second = holder.waits(scene.queued(&key, ttl)?).await?;
    for _ in 0..3 {
        second.still_waits().await?;
        first.still_waits().await?;
    }
    holder.freed(&held).await?;
    first.hears_grant().await?;
    first.claims().await?;
    second.still_waits().await?;
    // The first waiter has one place, however often it asked.
    ensure!(first.leaves().await?, "the lease was lost");
    second.hears_grant().await?;
    ensure!(second.leaves().await?, "the lease was lost");
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_waiter_that_leaves_is_passed_over<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let mut line = Vec::new();
    for client in [&other, &holder, &other, &holder] {
        line.push(client.waits(scene.queued(&key, ttl)?).await?);
    }
    let last = line.pop();
    let mut heir = line.remove(1);
    for waiter in line {
        ensure!(!waiter.leaves().await?, "a waiter held the key of another");
    }
    holder.freed(&held).await?;
    heir.hears_grant().await?;
    heir.claims().await?;
    // The last waiter leaves as well, and then the queue is empty.
    if let Some(last) = last {
        ensure!(!last.leaves().await?, "a waiter held the key of another");
    }
    ensure!(heir.leaves().await?, "the lease was lost");
    other.granted(&scene.claim(&key)?, ttl).await?;
    Ok(())
}

pub(in super::super) async fn a_place_that_is_not_kept_lapses<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    let Held { holder, other, key, ttl, held, .. } = scene.held().await?;
    let mut lapsed = other.waits(scene.queued(&key, scene.ttl())?).await?;
    let mut heir = holder.waits(scene.queued(&key, ttl)?).await?;
    scene.outlast(scene.ttl().for_place().duration()).await;
    heir.still_waits().await?;
    holder.renewed(&held, ttl).await?;
    holder.freed(&held).await?;
    heir.hears_grant().await?;
    heir.claims().await?;
    lapsed.still_waits().await
}

pub(in super::super) async fn a_queue_belongs_to_one_key<H: Harness>(scene: Scene<'_, H>) -> Check {
    let (holder, other) = scene.two_clients().await?;
    let (key, foreign, ttl) = (scene.key()?, scene.key()?, scene.long());
    let (mine, theirs) = (scene.claim(&key)?, scene.claim(&foreign)?);
    holder.granted(&mine, ttl).await?;
    holder.granted(&theirs, ttl).await?;
    let mut waiter = other.waits(scene.queued(&key, ttl)?).await?;
    let mut elsewhere = other.waits(scene.queued(&foreign, ttl)?).await?;
    holder.freed(&theirs).await?;
    elsewhere.hears_grant().await?;
    ensure!(elsewhere.leaves().await?, "the hint of a grant was wrong");
    // The queue of that key is empty, but not the queue of this one.
    holder.granted(&scene.claim(&foreign)?, ttl).await?;
    waiter.still_waits().await?;
    let mine_was_said = async {
        loop {
            match waiter.watch.next().await {
                Some(Hint::Granted { .. }) => return "a grant of another key was announced",
                Some(_) => {}
                None => return "the watch ended",
            }
        }
    };
    tokio::select! {
        what = mine_was_said => Err(Failure::Broken(what.into())),
        () = scene.pause(scene.ttl().duration() / 4) => Ok(()),
    }
}

pub(in super::super) async fn a_full_queue_is_an_error<H: Harness>(scene: Scene<'_, H>) -> Check {
    const LIMIT: NonZeroU32 = NonZeroU32::new(3).unwrap();
    let client = scene.limited_client(LIMIT).await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let held = scene.claim(&key)?;
    client.granted(&held, ttl).await?;
    let mut line = Vec::new();
    for _ in 0..LIMIT.get() {
        line.push(client.waits(scene.queued(&key, ttl)?).await?);
    }
    let one_more = scene.queued(&key, ttl)?;
    let message = client.fails(&one_more, ErrorKind::QueueFull).await?;
    ensure!(message.contains(&LIMIT.to_string()), "the limit of {LIMIT} is not in {message:?}");
    // Waiters keep their places, and a waiter that leaves makes room.
    for waiter in &mut line {
        waiter.still_waits().await?;
    }
    if let Some(waiter) = line.pop() {
        waiter.leaves().await?;
    }
    let attempt = client.ask(&one_more).await?;
    ensure!(
        matches!(attempt, AcquireOutcome::Queued { .. }),
        "there is room, but it got {attempt:?}"
    );
    Ok(())
}

pub(in super::super) async fn queued_holders_never_overlap<H: Harness>(
    scene: Scene<'_, H>,
) -> Check {
    const ROUNDS: usize = 15;
    let clients = scene.clients(6).await?;
    let (key, ttl) = (scene.key()?, scene.long());
    let arena = Arc::new(Arena::new(1));
    let mut tasks = JoinSet::new();
    for client in clients {
        let (arena, key) = (Arc::clone(&arena), key.clone());
        tasks.spawn(async move {
            for _ in 0..ROUNDS {
                let mut waiter = client.in_line(client.queued(&key, ttl)?).await?;
                let grant = waiter.arrives().await?;
                arena.hold(&client, waiter.claim(), ttl, grant).await?;
            }
            Check::Ok(())
        });
    }
    arena.emptied_by(tasks, scene.patience()).await
}
