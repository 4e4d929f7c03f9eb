//! Behaviours of features that no law of the contract covers.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::conformance::{Harness as _, Verdict};
use lock_core::{
    Acquire, AcquireOutcome, Backend as _, Claim, Convert, ConvertBackend as _, Error, Hint,
    InspectBackend as _, Key, List, Mode, OwnerToken, Released, Renew, Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_tests::eventually_async;

use super::world::World;

/// A behaviour that no law covers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scene {
    /// A claim in such a mode that cannot be granted keeps its place in the queue.
    PlaceIsPutBack(Mode),
    /// A place is kept even when the server has no memory for another one.
    PlaceIsKeptWithoutMemory,
    /// When a watch ends, the connection of the others stays.
    EndedWatchDisturbsNoClient,
    /// A lock that is held in such a mode is released by force, and the next claim gets it.
    IsReleasedByForce(Mode),
    /// A user that may inspect locks sees what a user with all rights sees.
    LooksAtOthers,
    /// A user that may list locks sees what a user with all rights sees.
    ListsOthers,
    /// Required notifications are found.
    RequiredNotificationsAreFound,
    /// Missing notifications are switched on.
    NotificationsAreSwitchedOn,
    /// A watch hears that another client deletes the key.
    HearsOfDeletions,
    /// A server on its first run sits out until a client says that it is new.
    ServerSitsOut,
}

type Outcome = Result<(), String>;

impl Scene {
    pub(super) async fn run(self, world: &World) -> Verdict {
        let outcome = match self {
            Self::PlaceIsPutBack(mode) => place_is_put_back(world, mode).await,
            Self::PlaceIsKeptWithoutMemory => place_is_kept_without_memory(world).await,
            Self::EndedWatchDisturbsNoClient => ended_watch_disturbs_no_client(world).await,
            Self::IsReleasedByForce(mode) => is_released_by_force(world, mode).await,
            Self::LooksAtOthers => looks_at_others(world).await,
            Self::ListsOthers => lists_others(world).await,
            Self::RequiredNotificationsAreFound => required_notifications_are_found(world).await,
            Self::NotificationsAreSwitchedOn => notifications_are_switched_on(world).await,
            Self::HearsOfDeletions => hears_of_deletions(world).await,
            Self::ServerSitsOut => server_sits_out(world).await,
        };
        match outcome {
            Ok(()) => Verdict::Holds,
            Err(why) => Verdict::Broken(why),
        }
    }
}

async fn place_is_put_back(world: &World, mode: Mode) -> Outcome {
    let (holder, waiter) = (client(world).await?, client(world).await?);
    let (held, waits) = (claim("a", mode), claim("a", waiting_beside(mode)));
    granted(&holder, &held).await?;
    let _watch = waiter.watch(&waits.key).await.map_err(said)?;
    queued(&waiter, &asked(&waits)).await?;
    // A client that overwrites the numbers of the tokens makes every grant fail.
    world.server().cli(&["SET", "lock:{a}:state", "no number"]);
    holder.release(&held).await.map_err(said)?;
    let places = world.server().cli(&["LLEN", "lock:{a}:queue"]).int();
    is(places == 1, || format!("{places} places"))
}

async fn place_is_kept_without_memory(world: &World) -> Outcome {
    let (holder, first, second) =
        (client(world).await?, client(world).await?, client(world).await?);
    granted(&holder, &claim("a", Mode::Exclusive)).await?;
    let claims = [claim("a", Mode::Exclusive), claim("a", Mode::Exclusive)];
    let mut watches = Vec::new();
    for (client, claim) in [&first, &second].into_iter().zip(&claims) {
        watches.push(client.watch(&claim.key).await.map_err(said)?);
        queued(client, &asked(claim)).await?;
    }
    world.server().cli(&["CONFIG", "SET", "maxmemory", "1"]);
    queued(&second, &asked(&claims[1])).await
}

async fn ended_watch_disturbs_no_client(world: &World) -> Outcome {
    let client = client(world).await?;
    let one = client.watch(&key("one")).await.map_err(said)?;
    let mut other = client.watch(&key("other")).await.map_err(said)?;
    let before = world.connections();
    drop(one);
    let ended = eventually_async("the subscription has ended", world.limit() * 2, async || {
        let channels = world.server().cli(&["PUBSUB", "CHANNELS", "*{one}*"]);
        channels.array().is_empty()
    });
    tokio::select! {
        hint = other.next() => return Err(format!("the other watch had {hint:?}")),
        _ = ended => {}
    }
    let after = world.connections();
    is(before == after, || format!("connections {before:?} became {after:?}"))
}

async fn is_released_by_force(world: &World, mode: Mode) -> Outcome {
    let (holder, waiter) = (client(world).await?, client(world).await?);
    let (held, waits) = (claim("a", mode), claim("a", waiting_beside(mode)));
    granted(&holder, &held).await?;
    let mut watch = waiter.watch(&waits.key).await.map_err(said)?;
    queued(&waiter, &asked(&waits)).await?;
    let ended = holder.force_release(&held.key).await.map_err(said)?;
    is(ended == 1, || format!("{ended} leases were ended"))?;
    let hint = tokio::time::timeout(world.limit(), watch.next()).await;
    let told =
        |hint: &_| matches!(hint, Ok(Some(Hint::Granted { owner, .. })) if *owner == waits.owner);
    is(told(&hint), || format!("the next heard {hint:?}"))?;
    granted(&waiter, &waits).await
}

/// Locks of every kind, with waiting claims, and more of one kind than are shown.
async fn looks_at_others(world: &World) -> Outcome {
    let (able, looker) = (world.able(), client(world).await?);
    let free = looker.inspect(&key("free")).await.map_err(said)?;
    is((free.holding, free.waiting) == (0, 0), || format!("free: {free:?}"))?;
    let group = Mode::Joint { group: OwnerToken::from_bytes([7; 16]) };
    let permits = Mode::Permits { take: 1, of: 5_000 };
    let kinds = [("x", Mode::Exclusive), ("s", Mode::Shared), ("p", permits), ("j", group)];
    for (name, mode) in kinds {
        let claims: Vec<_> = match mode {
            Mode::Permits { .. } => (0..1_001).map(|_| claim(name, mode)).collect(),
            mode => vec![claim(name, mode)],
        };
        for claim in &claims {
            granted(&able, claim).await?;
        }
        let _watch = able.watch(&key(name)).await.map_err(said)?;
        let waits = if mode == permits {
            Mode::Permits { take: 5_000, of: 5_000 }
        } else {
            waiting_beside(mode)
        };
        let waits = if mode == Mode::Shared { Mode::Exclusive } else { waits };
        queued(&able, &asked(&claim(name, waits))).await?;
        let seen = looker.inspect(&key(name)).await.map_err(said)?;
        let count = (seen.holding, seen.waiting);
        is(count == (claims.len() as u64, 1), || format!("{name}: {seen:?}"))?;
        is(seen.holders.iter().all(|holder| holder.token.is_some()), || {
            format!("{name}: {seen:?}")
        })?;
    }
    looks_at_an_upgrade(&able, &looker).await
}

async fn lists_others(world: &World) -> Outcome {
    looks_at_others(world).await?;
    let lister = client(world).await?;
    let mut list = List::of("");
    let mut names = BTreeSet::new();
    loop {
        let page = lister.list(&list).await.map_err(said)?;
        names.extend(page.locks.iter().map(|lock| lock.key.to_string()));
        let Some(next) = page.next else { break };
        list = list.from(next);
    }
    let expected = ["j", "p", "s", "u", "x"].map(str::to_owned);
    is(names == expected.into(), || format!("{names:?}"))
}

/// An upgrade that waits. It is shown only while its owner holds the lock.
async fn looks_at_an_upgrade(able: &RedisBackend, looker: &RedisBackend) -> Outcome {
    let reader = claim("u", Mode::Upgradable);
    granted(able, &reader).await?;
    granted(able, &claim("u", Mode::Shared)).await?;
    let _watch = able.watch(&key("u")).await.map_err(said)?;
    let upgrade =
        Convert::new(reader, Mode::Exclusive, asked(&claim("u", Mode::Shared)).ttl).queued();
    let attempt = able.convert(&upgrade).await.map_err(said)?;
    is(matches!(attempt, AcquireOutcome::Queued { .. }), || format!("{attempt:?}"))?;
    let seen = looker.inspect(&key("u")).await.map_err(said)?;
    is((seen.holding, seen.waiting) == (2, 1), || format!("{seen:?}"))
}

async fn required_notifications_are_found(world: &World) -> Outcome {
    client(world).await?.watch(&key("a")).await.map(drop).map_err(said)
}

async fn notifications_are_switched_on(world: &World) -> Outcome {
    world.server().cli(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    let _watch = client(world).await?.watch(&key("a")).await.map_err(said)?;
    let flags = world.server().cli(&["CONFIG", "GET", "notify-keyspace-events"]);
    let flags = flags.array()[1].text();
    is(flags.contains('K') && flags.contains('$'), || format!("the flags are {flags:?}"))
}

async fn hears_of_deletions(world: &World) -> Outcome {
    let client = client(world).await?;
    let mut watch = client.watch(&key("a")).await.map_err(said)?;
    granted(&client, &claim("a", Mode::Exclusive)).await?;
    world.server().cli(&["DEL", "lock:{a}"]);
    let hint = tokio::time::timeout(world.limit(), watch.next()).await;
    is(matches!(hint, Ok(Some(Hint::Released))), || format!("it heard {hint:?}"))
}

async fn server_sits_out(world: &World) -> Outcome {
    let (here, there) = (client(world).await?, client(world).await?);
    let (held, other) = (claim("a", Mode::Exclusive), claim("a", Mode::Exclusive));
    let refusal = here.try_acquire(&asked(&held)).await.err();
    is(refusal.as_ref().is_some_and(|it| it.retry_after().is_some()), || format!("{refusal:?}"))?;
    here.init().await.map_err(said)?;
    granted(&here, &held).await?;
    let attempt = there.try_acquire(&asked(&other)).await.map_err(said)?;
    is(matches!(attempt, AcquireOutcome::Busy { retry_after: Some(_) }), || {
        format!("{attempt:?}")
    })?;
    let renewal = here.renew(&Renew::new(held.clone(), asked(&held).ttl)).await;
    is(matches!(renewal, Renewal::Renewed { .. }), || format!("{renewal:?}"))?;
    for released in [Released::Freed { told: 0 }, Released::NotHeld] {
        let answer = here.release(&held).await.map_err(said)?;
        is(answer == released, || format!("{answer:?}"))?;
    }
    Ok(())
}

async fn client(world: &World) -> Result<RedisBackend, String> {
    world.client().await.map_err(said)
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str, mode: Mode) -> Claim {
    Claim::exclusive(key(name), OwnerToken::generate().unwrap()).in_mode(mode)
}

/// A mode of this kind of lock that does not fit beside this mode.
fn waiting_beside(mode: Mode) -> Mode {
    match mode {
        Mode::Joint { .. } => Mode::Joint { group: OwnerToken::generate().unwrap() },
        Mode::Permits { of, .. } => Mode::Permits { take: of, of },
        _ => Mode::Exclusive,
    }
}

fn asked(claim: &Claim) -> Acquire {
    Acquire::new(claim.clone(), Ttl::new(Duration::from_secs(60)).unwrap())
}

async fn granted(backend: &RedisBackend, claim: &Claim) -> Outcome {
    let attempt = backend.try_acquire(&asked(claim)).await.map_err(said)?;
    is(matches!(attempt, AcquireOutcome::Granted(_)), || format!("not granted: {attempt:?}"))
}

async fn queued(backend: &RedisBackend, request: &Acquire) -> Outcome {
    let attempt = backend.try_acquire(&request.clone().queued()).await.map_err(said)?;
    is(matches!(attempt, AcquireOutcome::Queued { .. }), || format!("not queued: {attempt:?}"))
}

fn is(it: bool, why: impl FnOnce() -> String) -> Outcome {
    if it { Ok(()) } else { Err(why()) }
}

fn said(error: Error) -> String {
    error.to_string()
}
