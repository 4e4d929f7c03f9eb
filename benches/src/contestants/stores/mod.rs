//! The backends of this workspace, side by side.
//!
//! A backend is one [`Store`] in [`ALL`]: its name, how its servers start, how a client is opened, and its rivals. A
//! [`Rival`] shows what the store itself costs, or is another way to lock with the store. Everything else follows from
//! these entries: the rows of each table, and the members of a team in other processes.

mod etcd;
mod memory;
mod postgres;
mod quorum;
mod redis;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use lock_core::AnyBackend;
use lock_sync::Handoff;

use super::{Ending, Ours};
use crate::{Entrant, Failure, Site};

/// All backends.
pub const ALL: [Store; 8] = [
    memory::STORE,
    redis::STORE,
    redis::CONFIRMED,
    quorum::STORE,
    postgres::STORE,
    postgres::FAST_DISK,
    etcd::STORE,
    etcd::FAST_DISK,
];

/// The name of the row of one server, with which the other backends are compared.
pub const ONE_SERVER: &str = redis::STORE.name;

/// A backend.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Store {
    /// The name of its row.
    pub name: &'static str,
    /// Where its locks hold.
    pub reach: Reach,
    /// Whether it stands for another of these stores on a disk that takes no time.
    pub has_fast_disk: bool,
    /// What it is compared with, on its own servers.
    pub rivals: &'static [Rival],
    start: fn() -> Result<Arc<dyn Site>, Failure>,
    open: fn(String) -> BoxFuture<'static, Result<AnyBackend, Failure>>,
}

/// Where the locks of a store hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Reach {
    /// Within one process.
    Process,
    /// Across processes and machines.
    Machines,
}

/// What a store is compared with.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Rival {
    /// The name of its row.
    pub name: &'static str,
    /// Whether it does the least that a lock on this store must do. A ratio to it is the cost of everything else.
    pub is_floor: bool,
    /// Whether it waits for a key that is held.
    pub waits: bool,
    /// How many callers it may have at a time. Each may cost it a connection or a process.
    pub most: usize,
    open: fn(&'static str, String, usize) -> BoxFuture<'static, Result<Entrant, Failure>>,
}

/// How a pass ends, and when a process lets another one have the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Style {
    /// The release is awaited.
    Released,
    /// The guard is dropped. While other processes wait, the lock stays in the process within the default budget.
    Dropped,
    /// The guard is dropped. While other processes wait, each holder gives the lock to another process.
    Fair,
}

impl Store {
    /// Starts its servers.
    ///
    /// # Errors
    ///
    /// If they do not answer. The kit panics if one does not start.
    pub fn start(&self) -> Result<Arc<dyn Site>, Failure> {
        (self.start)()
    }

    /// The name of its row in this style.
    pub fn row(&self, style: Style) -> String {
        format!("{}{}", self.name, style.suffix())
    }
}

impl Style {
    const ALL: [Self; 3] = [Self::Released, Self::Dropped, Self::Fair];

    fn suffix(self) -> &'static str {
        match self {
            Self::Released => "",
            Self::Dropped => ", dropped",
            Self::Fair => ", fair",
        }
    }

    fn ending(self) -> Ending {
        match self {
            Self::Released => Ending::Released,
            Self::Dropped | Self::Fair => Ending::Dropped,
        }
    }

    fn handoff(self) -> Handoff {
        match self {
            Self::Released | Self::Dropped => Handoff::default(),
            Self::Fair => Handoff::Fair,
        }
    }
}

/// The row of this name, at the site of this URL, with this many clients. Must be called on a runtime.
///
/// # Errors
///
/// If there is none, or it does not connect.
pub async fn named(name: &str, url: &str, clients: usize) -> Result<Entrant, Failure> {
    for (store, style) in ALL.iter().flat_map(|store| Style::ALL.map(|style| (store, style))) {
        if store.row(style) == name {
            let mut all = Vec::with_capacity(clients);
            for _ in 0..clients {
                let backend = (store.open)(url.to_owned()).await?;
                all.push(Ours::over(backend, style.ending(), style.handoff())?);
            }
            return Ok(Entrant::new(name, all));
        }
    }
    let rival = ALL.iter().flat_map(|store| store.rivals).find(|rival| rival.name == name);
    let rival = rival.ok_or_else(|| format!("no contestant is called {name}"))?;
    (rival.open)(rival.name, url.to_owned(), clients).await
}

/// Runs a future that sets up a site, on a runtime of its own.
fn set_up<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.name).finish()
    }
}

impl fmt::Debug for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rival").field(&self.name).finish()
    }
}

/// Servers of which the benches need no more than their processor time.
struct Deployment<S> {
    url: String,
    meters: Vec<String>,
    /// They end with this value.
    _servers: S,
}

impl<S: Send + Sync> Site for Deployment<S> {
    fn url(&self) -> String {
        self.url.clone()
    }

    fn meters(&self) -> Vec<String> {
        self.meters.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let rows = ALL.iter().flat_map(|store| {
            let ours = Style::ALL.into_iter().map(|style| store.row(style));
            ours.chain(store.rivals.iter().map(|rival| rival.name.to_owned()))
        });
        let rows: Vec<String> = rows.collect();
        assert_eq!(rows.iter().collect::<HashSet<_>>().len(), rows.len(), "{rows:?}");
    }

    #[test]
    fn every_store_and_every_rival_locks() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for store in ALL {
            let site = store.start().unwrap();
            let ours = Style::ALL.map(|style| store.row(style));
            let rivals = store.rivals.iter().map(|rival| rival.name.to_owned());
            for name in ours.into_iter().chain(rivals) {
                let url = site.url();
                runtime.block_on(async move {
                    let entrant = named(&name, &url, 1).await.unwrap();
                    let took = entrant.pairs(&entrant.keys(2), 4).await;
                    assert!(took.is_ok(), "{name}: {took:?}");
                });
            }
        }
    }
}
