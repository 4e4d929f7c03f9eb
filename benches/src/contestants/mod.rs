//! The ways to lock a key.
//!
//! The peers run with the defaults that they have, but for the lease: 30 s where it has to be given.
//! Where they wait they poll, so each has a second form for a contended key, with the shortest delay
//! between two tries that it accepts.
//!
//! Those here are mutexes. Reader-writer locks are in [`rwlocks`], semaphores in [`semaphores`], and mutexes
//! over several servers in [`quorums`].

/// A row with so many clients of one kind.
macro_rules! entrants {
    ($name:expr, $clients:expr, $client:expr) => {{
        let mut all = Vec::with_capacity($clients);
        for _ in 0..$clients {
            all.push($client);
        }
        Entrant::new($name, all)
    }};
}

mod distributed_lock;
mod local;
mod ours;
mod plain;
pub mod quorums;
mod raw;
mod redis_lock;
mod redlock;
mod rlock;
mod rslock;
pub mod rwlocks;
pub mod semaphores;
mod socket;

use std::time::Duration;

use lock_sync::Handoff;

pub use distributed_lock::DistributedLock;
pub use local::Local;
pub use ours::{Ending, Ours};
pub use plain::Plain;
pub use raw::Raw;
pub use redis_lock::RedisLock;
pub use redlock::Redlock;
pub use rlock::Rlock;
pub use rslock::Rslock;
pub use socket::Socket;

use crate::{Entrant, Failure, Rule, Setting};

/// How long the leases of the peers live, where it has to be said.
pub const LEASE: Duration = Duration::from_secs(30);

/// What the row of [`Plain`] is called: the baseline of all that goes through a server.
pub const PLAIN: &str = "bare client";

/// What our own row is called whose release is awaited.
pub const RELEASED: &str = "ours, released";

/// What the row of [`Rslock`] is called: the peer with whose CPU time ours is compared.
pub const RSLOCK: &str = "rslock";

/// What the row of `tokio::sync::Mutex` is called: the baseline of all that stays in one process.
pub const TOKIO: &str = "tokio::sync::Mutex";

/// Everything that locks a free key on a server.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn all(url: &str) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = ours_and_plain(url).await?;
    entrants.extend([
        Entrant::new("rlock", [Rlock::connect(url).await?]),
        Entrant::new(RSLOCK, [Rslock::connect(url)?]),
        Entrant::new("redis-lock", [RedisLock::connect(url).await?]),
        Entrant::new("distributed-lock-redis", [DistributedLock::connect(url).await?]),
        Entrant::new("redlock (spawn_blocking)", [Redlock::connect(url)]),
    ]);
    Ok(entrants)
}

/// Our own lock, in both ways to end a guard, and the bare client that it has to keep up with.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn ours_and_plain(url: &str) -> Result<Vec<Entrant>, Failure> {
    Ok(vec![
        Entrant::new(PLAIN, [Plain::connect(url).await?]),
        Entrant::new(RELEASED, [Ours::redis(url, Ending::Released)?]),
        Entrant::new("ours, dropped", [Ours::redis(url, Ending::Dropped)?]),
    ])
}

/// These rows, and after our own `name` that of the [other build](crate::other_build), if there is one.
///
/// # Errors
///
/// If the other build does not start.
pub fn beside(
    mut entrants: Vec<Entrant>,
    name: &str,
    url: &str,
    setting: Setting,
) -> Result<Vec<Entrant>, Failure> {
    if let Some(other) = Entrant::of_other_build(name, url, setting)? {
        let place = entrants.iter().position(|entrant| entrant.name() == name);
        entrants.insert(place.map_or(entrants.len(), |place| place + 1), other);
    }
    Ok(entrants)
}

/// Our own rows where clients fight over a key: in turns of one holder each; with the budget that a
/// process has by default; and with an awaited release.
pub const OURS: [&str; 4] =
    ["ours, fair", "ours, default budget", "ours, fair, released", "ours, fair, on the runtime"];

/// The rows of the peers that wait for a lock which somebody else holds: each as it comes, and with
/// the shortest delay between two tries that it accepts.
pub const WAITING_PEERS: [&str; 8] = [
    "rlock",
    "rlock, impatient",
    "rslock",
    "rslock, impatient",
    "redis-lock",
    "redis-lock, impatient",
    "redlock (spawn_blocking)",
    "redlock, impatient",
];

/// The one of these rows that has this name, with so many clients.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn named(name: &str, url: &str, clients: usize) -> Result<Entrant, Failure> {
    Ok(match name {
        RELEASED => entrants!(name, clients, Ours::redis(url, Ending::Released)?),
        "ours, fair" => entrants!(name, clients, Ours::with(url, Ending::Dropped, Handoff::Fair)?),
        "ours, fair, released" => {
            entrants!(name, clients, Ours::with(url, Ending::Released, Handoff::Fair)?)
        }
        "ours, fair, on the runtime" => {
            entrants!(name, clients, Ours::on_this_runtime(url, Ending::Dropped, Handoff::Fair)?)
        }
        "ours, default budget" => entrants!(name, clients, Ours::redis(url, Ending::Dropped)?),
        "rlock" => entrants!(name, clients, Rlock::connect(url).await?),
        "rlock, impatient" => entrants!(name, clients, Rlock::connect(url).await?.impatient()?),
        "rslock" => entrants!(name, clients, Rslock::connect(url)?),
        "rslock, impatient" => entrants!(name, clients, Rslock::connect(url)?.impatient()),
        "redis-lock" => entrants!(name, clients, RedisLock::connect(url).await?),
        "redis-lock, impatient" => {
            entrants!(name, clients, RedisLock::connect(url).await?.impatient())
        }
        "redlock (spawn_blocking)" => entrants!(name, clients, Redlock::connect(url)),
        "redlock, impatient" => entrants!(name, clients, Redlock::connect(url).impatient()),
        _ => return Err(format!("nobody is called {name}").into()),
    })
}

/// The one that has this name among the locks that follow a rule, with one client.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn under(rule: Rule, name: &str, url: &str) -> Result<Entrant, Failure> {
    match rule {
        Rule::Exclusive => named(name, url, 1).await,
        Rule::ReadWrite { .. } => rwlocks::named(name, url).await,
        Rule::Permits(permits) => semaphores::named(name, permits, url).await,
    }
}

/// The peers that wait for a lock which somebody else holds, with `clients` clients each.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn waiting_peers(url: &str, clients: usize) -> Result<Vec<Entrant>, Failure> {
    let mut peers = Vec::new();
    for name in WAITING_PEERS {
        peers.push(named(name, url, clients).await?);
    }
    Ok(peers)
}

/// Why some are missing where they would have to wait. What can be shown is tried out first.
///
/// # Errors
///
/// If one of them does not connect, or does not lock a free key.
pub async fn absent_from_waiting(url: &str) -> Result<Vec<String>, Failure> {
    Ok(vec![
        format!("{PLAIN}: left out, it does not wait."),
        DistributedLock::connect(url).await?.why_absent("bench:probe").await?,
    ])
}
