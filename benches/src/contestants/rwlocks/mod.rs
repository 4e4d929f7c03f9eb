//! The reader-writer locks.

mod distributed;
mod local;
mod ours;
mod rlock;

use lock_sync::Handoff;

pub use distributed::Distributed;
pub use local::Local;
pub use ours::Ours;
pub use rlock::Rlock;

use super::Ending;
use super::rlock::Rlock as Client;
use crate::{Entrant, Failure};

/// The name of the row of `tokio::sync::RwLock`.
pub const TOKIO: &str = "tokio::sync::RwLock";

/// Our own rows in one process.
pub const IN_PROCESS: [&str; 3] = ["ours, dropped", "ours, released", "ours in memory, dropped"];

/// Our own rows where processes fight over a key: in turns, each of one writer or of the present readers; and with the
/// default budget of a process.
pub const OURS: [&str; 2] = ["ours, fair", "ours, default budget"];

/// The rows of the peers.
pub const PEERS: [&str; 3] = ["rlock", "rlock, impatient", "distributed-lock-redis"];

/// The row of this name, with one client.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn named(name: &str, url: &str) -> Result<Entrant, Failure> {
    Ok(match name {
        TOKIO => Entrant::new(name, [Local::default()]),
        "ours, dropped" | "ours, default budget" => {
            Entrant::new(name, [Ours::redis(url, Ending::Dropped, Handoff::default())?])
        }
        "ours, released" => {
            Entrant::new(name, [Ours::redis(url, Ending::Released, Handoff::default())?])
        }
        "ours, fair" => Entrant::new(name, [Ours::redis(url, Ending::Dropped, Handoff::Fair)?]),
        "ours in memory, dropped" => Entrant::new(name, [Ours::memory(Ending::Dropped)]),
        "rlock" => Entrant::new(name, [Rlock(Client::connect(url).await?)]),
        "rlock, impatient" => Entrant::new(name, [Rlock(Client::connect(url).await?.impatient()?)]),
        "distributed-lock-redis" => Entrant::new(name, [Distributed::connect(url).await?]),
        _ => return Err(format!("no reader-writer lock is called {name}").into()),
    })
}
