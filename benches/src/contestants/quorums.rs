//! The ways to lock a key on most of several servers.

use lock_core::AnyBackend;
use lock_redis::RedisBackend;
use lock_redlock::Redlock as Quorum;
use lock_sync::Handoff;
use tokio::runtime::Handle;

use super::{Ending, Ours, Raw, Redlock, Rslock};
use crate::{Entrant, Failure};

/// Our own rows: the backend by itself, the backend without a thread of its own, and a mutex over it.
pub const OURS: [&str; 3] = ["ours, backend", "ours, backend, on the runtime", "ours, mutex"];

/// The rows of the peers.
pub const PEERS: [&str; 2] = ["rslock", "redlock (spawn_blocking)"];

/// The contestants that wait while another client holds the lock.
pub const WAITING: [&str; 7] = [
    "ours, fair",
    "ours, fair, released",
    "ours, default budget",
    "rslock",
    "rslock, impatient",
    "redlock (spawn_blocking)",
    "redlock, impatient",
];

/// Makes a deployment of new servers ready for our quorum.
///
/// # Errors
///
/// If one of them does not answer.
pub async fn init(urls: &[String]) -> Result<(), Failure> {
    Ok(quorum(urls, false).await?.init().await?)
}

/// The row of this name, over these servers, with this many clients. Must be called on a runtime.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn named(name: &str, urls: &[String], clients: usize) -> Result<Entrant, Failure> {
    Ok(match name {
        "ours, backend" => entrants!(name, clients, Raw::new(quorum(urls, false).await?)),
        "ours, backend, on the runtime" => {
            entrants!(name, clients, Raw::new(quorum(urls, true).await?))
        }
        "ours, mutex" => {
            entrants!(name, clients, mutex(urls, Ending::Released, Handoff::default()).await?)
        }
        "ours, default budget" => {
            entrants!(name, clients, mutex(urls, Ending::Dropped, Handoff::default()).await?)
        }
        "ours, fair" => {
            entrants!(name, clients, mutex(urls, Ending::Dropped, Handoff::Fair).await?)
        }
        "ours, fair, released" => {
            entrants!(name, clients, mutex(urls, Ending::Released, Handoff::Fair).await?)
        }
        "rslock" => entrants!(name, clients, Rslock::quorum(urls)?),
        "rslock, impatient" => entrants!(name, clients, Rslock::quorum(urls)?.impatient()),
        "redlock (spawn_blocking)" => entrants!(name, clients, Redlock::quorum(urls)),
        "redlock, impatient" => entrants!(name, clients, Redlock::quorum(urls).impatient()),
        _ => return Err(format!("no lock over several servers is called {name}").into()),
    })
}

async fn mutex(urls: &[String], ending: Ending, handoff: Handoff) -> Result<Ours, Failure> {
    Ours::over(AnyBackend::new(quorum(urls, false).await?), ending, handoff)
}

/// A quorum with default options, which allows any number of servers. `here`: its background work runs on the current
/// runtime.
pub(super) async fn quorum(urls: &[String], here: bool) -> Result<Quorum<RedisBackend>, Failure> {
    let nodes: Result<Vec<_>, _> = urls.iter().map(RedisBackend::open).collect();
    let mut quorum = Quorum::builder().nodes(nodes?).allow_any_number();
    if here {
        quorum = quorum.on_runtime(Handle::current());
    }
    Ok(quorum.build().await?)
}
