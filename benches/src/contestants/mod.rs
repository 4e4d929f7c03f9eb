//! The ways to lock a key.
//!
//! The peers run with their own defaults, except for a lease of 30 s where one has to be given. Peers that wait poll,
//! so each has a second form for a contended key, with the shortest delay between two tries that it accepts.
//!
//! This module has the mutexes. Reader-writer locks are in [`rwlocks`], semaphores in [`semaphores`], and mutexes
//! over several servers in [`quorums`]. The backends of this workspace, and what each is compared with, are in
//! [`stores`].

/// A row with this many clients of one kind.
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
mod observers;
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
mod stored;
pub mod stores;

use std::time::Duration;

use lock_sync::Handoff;

pub use distributed_lock::DistributedLock;
pub use local::Local;
pub use observers::{Counts, metrics};
pub use ours::{Ending, Ours};
pub use plain::Plain;
pub use raw::Raw;
pub use redis_lock::RedisLock;
pub use redlock::Redlock;
pub use rlock::Rlock;
pub use rslock::Rslock;
pub use socket::Socket;
pub use stored::Stored;

use crate::{Entrant, Failure, Rule, Setting};

/// The length of the leases of peers that need one given.
pub const LEASE: Duration = Duration::from_secs(30);

/// The name of the row of [`Plain`]: the baseline of every lock on a server.
pub const PLAIN: &str = "bare client";

/// The name of our own row with an awaited release.
pub const RELEASED: &str = "ours, released";

/// The name of the row of [`Stored`].
pub const COMMITTED: &str = "ours, committed";

/// The name of the row of [`Rslock`]: the peer with whose CPU time ours is compared.
pub const RSLOCK: &str = "rslock";

/// The name of the row of `tokio::sync::Mutex`: the baseline of every lock inside one process.
pub const TOKIO: &str = "tokio::sync::Mutex";

/// All contestants that lock a free key on a server.
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

/// Our own lock, with both ways to end a guard, and the bare client as the reference.
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

/// Our own rows for a contended key: in turns of one holder each; with the default budget of a process; and with an
/// awaited release.
pub const OURS: [&str; 4] =
    ["ours, fair", "ours, default budget", "ours, fair, released", "ours, fair, on the runtime"];

/// The rows of the peers that wait while another client holds the lock: each as it comes, and with the shortest delay
/// between two tries that it accepts.
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

/// The row of this name, with this many clients.
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
        _ => stores::named(name, url, clients).await?,
    })
}

/// The row of this name among the locks that follow this rule, with one client.
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

/// The peers that wait while another client holds the lock, with `clients` clients each.
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

/// The reasons why some rows are missing from benches with waiters. Where possible, the bench first tries whether
/// the reason holds.
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
