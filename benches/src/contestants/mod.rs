//! The ways to lock a key.
//!
//! The peers run with the defaults that they have, but for the lease: 30 s where it has to be given.
//! Where they wait they poll, so each has a second form for a contended key, with the shortest delay
//! between two tries that it accepts.

mod distributed_lock;
mod driver;
mod local;
mod ours;
mod redis_lock;
mod redlock;
mod rlock;
mod rslock;
mod socket;

use std::time::Duration;

pub use distributed_lock::DistributedLock;
pub use driver::Driver;
pub use local::Local;
pub use ours::{Ending, Ours};
pub use redis_lock::RedisLock;
pub use redlock::Redlock;
pub use rlock::Rlock;
pub use rslock::Rslock;
pub use socket::Socket;

use crate::{Entrant, Failure};

/// How long the leases of the peers live, where it has to be said.
pub const LEASE: Duration = Duration::from_secs(30);

/// What the driver's row is called: the baseline of all that goes through a server.
pub const DRIVER: &str = "bare driver";

/// What the row of `tokio::sync::Mutex` is called: the baseline of all that stays in one process.
pub const TOKIO: &str = "tokio::sync::Mutex";

/// Everything that locks a free key on a server.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn all(url: &str) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = ours_and_driver(url).await?;
    entrants.extend([
        Entrant::new("rlock", [Rlock::connect(url).await?]),
        Entrant::new("rslock", [Rslock::connect(url)?]),
        Entrant::new("redis-lock", [RedisLock::connect(url).await?]),
        Entrant::new("distributed-lock-redis", [DistributedLock::connect(url).await?]),
        Entrant::new("redlock (spawn_blocking)", [Redlock::connect(url)]),
    ]);
    Ok(entrants)
}

/// Our own lock, in both ways to end a guard, and the driver that it has to keep up with.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn ours_and_driver(url: &str) -> Result<Vec<Entrant>, Failure> {
    Ok(vec![
        Entrant::new(DRIVER, [Driver::connect(url).await?]),
        Entrant::new("ours, released", [Ours::redis(url, Ending::Released)?]),
        Entrant::new("ours, dropped", [Ours::redis(url, Ending::Dropped)?]),
    ])
}

/// The peers that wait for a lock which somebody else holds, with `clients` clients each.
///
/// # Errors
///
/// If one of them does not connect.
pub async fn waiting_peers(url: &str, clients: usize) -> Result<Vec<Entrant>, Failure> {
    let mut rlock = (Vec::new(), Vec::new());
    let mut rslock = (Vec::new(), Vec::new());
    let mut redis_lock = (Vec::new(), Vec::new());
    let mut redlock = (Vec::new(), Vec::new());
    for _ in 0..clients {
        rlock.0.push(Rlock::connect(url).await?);
        rlock.1.push(Rlock::connect(url).await?.impatient()?);
        rslock.0.push(Rslock::connect(url)?);
        rslock.1.push(Rslock::connect(url)?.impatient());
        redis_lock.0.push(RedisLock::connect(url).await?);
        redis_lock.1.push(RedisLock::connect(url).await?.impatient());
        redlock.0.push(Redlock::connect(url));
        redlock.1.push(Redlock::connect(url).impatient());
    }
    Ok(vec![
        Entrant::new("rlock", rlock.0),
        Entrant::new("rlock, impatient", rlock.1),
        Entrant::new("rslock", rslock.0),
        Entrant::new("rslock, impatient", rslock.1),
        Entrant::new("redis-lock", redis_lock.0),
        Entrant::new("redis-lock, impatient", redis_lock.1),
        Entrant::new("redlock (spawn_blocking)", redlock.0),
        Entrant::new("redlock, impatient", redlock.1),
    ])
}

/// Why some are missing where they would have to wait. What can be shown is tried out first.
///
/// # Errors
///
/// If one of them does not connect, or does not lock a free key.
pub async fn absent_from_waiting(url: &str) -> Result<Vec<String>, Failure> {
    Ok(vec![
        format!("{DRIVER}: left out, it does not wait."),
        DistributedLock::connect(url).await?.why_absent("bench:probe").await?,
    ])
}
