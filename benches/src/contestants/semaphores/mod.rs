//! The semaphores.

mod distributed;
mod local;
mod ours;

use lock_sync::Handoff;

pub use distributed::Distributed;
pub use local::Local;
pub use ours::Ours;

use super::Ending;
use crate::{Entrant, Failure};

/// The name of the row of `tokio::sync::Semaphore`.
pub const TOKIO: &str = "tokio::sync::Semaphore";

/// Our own rows in one process.
pub const IN_PROCESS: [&str; 3] = ["ours, dropped", "ours, released", "ours in memory, dropped"];

/// Our own rows where processes fight over permits: a permit goes back to the store while another process waits, or
/// stays within the default budget of a process.
pub const OURS: [&str; 2] = ["ours, fair", "ours, default budget"];

/// The rows of the peers.
pub const PEERS: [&str; 1] = ["distributed-lock-redis"];

/// The row of this name, with one client and this many permits for each key.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn named(name: &str, permits: u32, url: &str) -> Result<Entrant, Failure> {
    Ok(match name {
        TOKIO => Entrant::new(name, [Local::new(permits)]),
        "ours, dropped" | "ours, default budget" => {
            Entrant::new(name, [Ours::redis(url, permits, Ending::Dropped, Handoff::default())?])
        }
        "ours, released" => {
            Entrant::new(name, [Ours::redis(url, permits, Ending::Released, Handoff::default())?])
        }
        "ours, fair" => {
            Entrant::new(name, [Ours::redis(url, permits, Ending::Dropped, Handoff::Fair)?])
        }
        "ours in memory, dropped" => Entrant::new(name, [Ours::memory(permits, Ending::Dropped)]),
        "distributed-lock-redis" => Entrant::new(name, [Distributed::connect(url, permits).await?]),
        _ => return Err(format!("no semaphore is called {name}").into()),
    })
}
