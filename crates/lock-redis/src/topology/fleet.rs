//! The way from a key to the server that has it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::observer::Telling;
use lock_core::{Clock, Error, ErrorKind};
use tokio::time;

use super::node::{Common, Node, Site};
use super::patience::{Next, Patience};
use super::roster::Roster;
use super::url::Target;
use crate::link::{Origin, Settings};
use crate::slot;
use crate::wire::Failure;

const CLOCK: Clock = Clock::boot();

/// The servers of a deployment. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Fleet(Arc<Shared>);

struct Shared {
    way: Way,
    /// Hosts, ports and database, without the credentials.
    name: String,
    /// How long a request may be sent again.
    limit: Duration,
    telling: Telling,
}

enum Way {
    /// One server. The caller repeats a request.
    Server(Site),
    /// The primary of a service. A request that was not run is repeated.
    Service(Site),
    /// The primaries of a cluster.
    Cluster(Arc<Roster>),
}

impl Fleet {
    /// Sends nothing and starts nothing.
    ///
    /// # Errors
    ///
    /// If the operating system gives no random bytes.
    pub(crate) fn new(target: Target, settings: Settings, common: Common) -> Result<Self, Error> {
        let (name, limit) = (target.to_string(), settings.command_timeout);
        let telling = settings.telling.clone();
        let way = match target {
            Target::Cluster(seeds) => Way::Cluster(Arc::new(Roster::new(settings, common, seeds))),
            Target::Single(endpoint) => {
                Way::Server(only(Origin::Server(Arc::new(endpoint)), settings, &common)?)
            }
            Target::Sentinel(service) => {
                Way::Service(only(Origin::Service(Arc::new(service)), settings, &common)?)
            }
        };
        Ok(Self(Arc::new(Shared { way, name, limit, telling })))
    }

    /// Sends a request to the server that has the key.
    ///
    /// In a cluster, and behind sentinels, a request that no server ran is sent again, up to the time limit of a
    /// command: to the server to which it is redirected, or after a pause.
    ///
    /// # Errors
    ///
    /// As those of the request.
    ///
    /// # Cancel safety
    ///
    /// As that of the request.
    pub(crate) async fn route<T, F>(
        &self,
        key: &[u8],
        request: impl Fn(Site) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let Shared { way, limit, telling, .. } = &*self.0;
        if let Way::Server(site) = way {
            return request(site.clone()).await.map_err(Failure::into_error);
        }
        let patience = Patience::new(CLOCK.now(), *limit);
        match way.attempt(None, telling, key, &request).await {
            Ok(answer) => Ok(answer),
            // Few requests need more than one attempt, so the others have no room for it.
            Err(failed) => Box::pin(way.roam(failed, patience, telling, key, request)).await,
        }
    }

    /// The servers of a cluster.
    pub(super) fn roster(&self) -> Option<&Arc<Roster>> {
        match &self.0.way {
            Way::Cluster(roster) => Some(roster),
            Way::Server(_) | Way::Service(_) => None,
        }
    }

    /// Whether the servers form a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.roster().is_some()
    }

    /// All servers that have keys, and the number of slots that they serve, if they form a cluster.
    ///
    /// # Errors
    ///
    /// If the servers of a cluster cannot be found out.
    pub(crate) async fn all(&self) -> Result<(Vec<Site>, Option<usize>), Error> {
        match &self.0.way {
            Way::Server(site) | Way::Service(site) => Ok((vec![site.clone()], None)),
            Way::Cluster(roster) => {
                roster.refresh().await?;
                let (sites, covered) = roster.all()?;
                Ok((sites, Some(covered)))
            }
        }
    }

    /// How long a request may take once there is a connection.
    pub(crate) fn command_timeout(&self) -> Duration {
        self.0.limit
    }

    /// Whether another server may take over from one of these.
    pub(crate) fn fails_over(&self) -> bool {
        !matches!(self.0.way, Way::Server(_))
    }

    /// The server that has a key.
    ///
    /// # Errors
    ///
    /// If the servers of a cluster cannot be found out.
    pub(crate) async fn home(&self, key: &[u8]) -> Result<Site, Error> {
        self.0.way.site(key).await.map_err(Failure::into_error)
    }

    /// A slot of this server, if it has any. `None` if the servers form no cluster.
    pub(crate) fn slot_of(&self, site: &Site) -> Option<u16> {
        self.roster()?.first_slot(site)
    }

    /// Whether two keys can be in one request.
    pub(crate) fn are_together(&self, one: &[u8], other: &[u8]) -> bool {
        match self.0.way {
            Way::Cluster(_) => slot::slot(one) == slot::slot(other),
            Way::Server(_) | Way::Service(_) => true,
        }
    }
}

/// The only server.
fn only(origin: Origin, settings: Settings, common: &Common) -> Result<Site, Error> {
    Ok(Site::new(Arc::new(Node::new(settings.at(origin), common, false)?)))
}

impl Way {
    /// Sends a request once: to this server, or else to the one that has the key. If it fails, the server comes with
    /// the failure, if an observer wants to know it.
    async fn attempt<T, F>(
        &self,
        site: Option<Site>,
        telling: &Telling,
        key: &[u8],
        request: &impl Fn(Site) -> F,
    ) -> Result<T, (Failure, Option<Site>)>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let site = match site {
            Some(site) => site,
            None => self.site(key).await.map_err(|failure| (failure, None))?,
        };
        let asked = telling.is_heard().then(|| site.clone());
        request(site).await.map_err(|failure| (failure, asked))
    }

    /// Sends a request that has failed once again, until a server has run it, or its time is over.
    async fn roam<T, F>(
        &self,
        (mut failure, mut asked): (Failure, Option<Site>),
        mut patience: Patience,
        telling: &Telling,
        key: &[u8],
        request: impl Fn(Site) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        loop {
            if let (Some(to), Some(asked)) = (failure.leads_on(), &asked) {
                telling.redirected(&asked.link().settings().origin, to);
            }
            self.learn(&failure);
            let followed = match patience.after(&failure, CLOCK.now()) {
                Next::Fail => return Err(outcome_of(failure)),
                Next::Follow => self.follow(&failure),
                Next::Pause(pause) => {
                    time::sleep(pause).await;
                    None
                }
            };
            match self.attempt(followed, telling, key, &request).await {
                Ok(answer) => return Ok(answer),
                Err(failed) => (failure, asked) = failed,
            }
        }
    }

    async fn site(&self, key: &[u8]) -> Result<Site, Failure> {
        match self {
            Self::Server(site) | Self::Service(site) => Ok(site.clone()),
            Self::Cluster(roster) => roster.site(slot::slot(key)).await,
        }
    }

    fn learn(&self, failure: &Failure) {
        if let Self::Cluster(roster) = self {
            roster.learn(failure);
        }
    }

    fn follow(&self, failure: &Failure) -> Option<Site> {
        match self {
            Self::Cluster(roster) => roster.follow(failure),
            Self::Server(_) | Self::Service(_) => None,
        }
    }
}

/// The error of a request that was redirected until its time was over: it may work later.
fn outcome_of(failure: Failure) -> Error {
    match failure {
        Failure::Moved(_, error) | Failure::Asks(_, error) | Failure::Moving(error) => {
            let message = "the slot of the key is being moved to another server of the cluster";
            Error::with_source(ErrorKind::NotReady, message, error)
        }
        failure => failure.into_error(),
    }
}

/// Hosts, ports and database, without the credentials.
impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.name)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
