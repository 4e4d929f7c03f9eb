//! Where the primary of a service is, by its sentinels.
//!
//! All sentinels are asked at once, whenever a connection is opened. The server that they name has to say itself that
//! it is a primary. A message of any sentinel that the primary has changed is a hint: connections to other servers are
//! given up, and the sentinels are asked again. A message may come while the client does not listen. So a client that
//! begins to listen to a sentinel asks it for the primary.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lock_core::{Error, ErrorKind};
use tokio::runtime;
use tokio::task::AbortHandle;
use tokio::time;

use super::connect::{Dedicated, enquire};
use super::live::Live;
use super::settings::{Hear, Settings};
use super::survey::{Named, Survey, View};
use crate::topology::Service;
use crate::wire::{Address, Command, Endpoint, Failure, Push, Reply};

/// How long the last sentinels may take once most of them have answered.
const GRACE: Duration = Duration::from_millis(50);
/// How long a sentinel that hangs up is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// The channel on which sentinels tell of a new primary.
pub(crate) const SWITCHED: &str = "+switch-master";

/// The tasks that listen to the sentinels: one on each runtime that has opened a connection. A task on a runtime that no
/// thread drives hears nothing, and looks like one that waits.
#[derive(Default)]
pub(super) struct Ears(Vec<(runtime::Id, Ear)>);

/// A task that ends when this value is dropped.
struct Ear(AbortHandle);

impl Drop for Ear {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Ears {
    /// Starts a task that listens on `here`, the current runtime, unless one does so. Forgets runtimes that have gone.
    pub(super) fn listen_on<L>(&mut self, here: runtime::Id, listening: impl FnOnce() -> L)
    where
        L: Future<Output = ()> + Send + 'static,
    {
        self.0.retain(|(_, ear)| !ear.0.is_finished());
        if self.0.iter().all(|(runtime, _)| *runtime != here) {
            self.0.push((here, Ear(tokio::spawn(listening()).abort_handle())));
        }
    }
}

/// What the sentinels have told of new primaries; pure.
#[derive(Debug, Default)]
pub(super) struct Switches {
    count: u64,
    /// The servers that the last one named.
    last: Vec<Address>,
    /// The most failovers of which sentinels have told that the client followed.
    epoch: u64,
}

impl Switches {
    /// The primary is one of these servers. All sentinels say so after a switch.
    pub(super) fn hear(&mut self, named: &[Address]) {
        self.count += 1;
        self.last = named.to_vec();
    }

    /// The client is at a primary that sentinels named after so many failovers.
    pub(super) fn saw(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Whether to follow sentinels that tell of so many failovers and were asked when the count of switches was `before`.
    /// Sentinels may be behind those that the client has followed, and a message may have come meanwhile.
    pub(super) fn follows(&self, epoch: u64, before: u64) -> bool {
        epoch >= self.epoch && before == self.count
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The primary that has replaced this server since the count of switches was `before`, if there is one.
    pub(super) fn successor(&self, server: &Address, before: u64) -> Option<&Address> {
        let is_replaced = self.count != before && !self.last.contains(server);
        self.last.first().filter(|_| is_replaced)
    }
}

/// A client that follows the primary.
pub(super) trait Follower: Send + Sync + 'static {
    /// Whether all connections lead to this server, and none is being opened.
    fn is_at(&self, primary: &Address) -> bool;

    /// How often sentinels have named a new primary.
    fn switches(&self) -> u64;

    /// A sentinel tells that this server is the primary now.
    fn follow(&self, primary: Address);

    /// All sentinels were asked, when the count of switches was `before`. The primary is one of these servers, and most
    /// likely the first one. Other servers have been replaced.
    fn follow_all(&self, named: &Named, before: u64);
}

/// Asks the sentinels for the primary, and for the number of failovers of which they know.
///
/// # Errors
///
/// The error of one of the sentinels, if none knows the primary.
pub(super) async fn locate(
    settings: &Settings,
    service: &Service,
) -> Result<(Arc<Endpoint>, u64), Error> {
    let Named { epoch, servers } = survey(settings, service).await.outcome()?;
    let unknown = || Error::new(ErrorKind::Unreachable, "no sentinel names a primary");
    let primary = servers.into_iter().next().ok_or_else(unknown)?;
    Ok((Arc::new(service.server.at(primary)), epoch))
}

async fn survey(settings: &Settings, service: &Service) -> Survey {
    let mut asked: FuturesUnordered<_> =
        service.sentinels.iter().map(|sentinel| view(settings, service, sentinel)).collect();
    let mut survey = Survey::of(asked.len());
    // A sentinel that does not answer must not use up the time for the connection.
    let mut limit = pin!(time::sleep(settings.connect_timeout / 2));
    loop {
        let was_decided = survey.is_decided();
        tokio::select! {
            answer = asked.next() => match answer {
                Some(answer) => survey.hear(answer),
                None => break,
            },
            () = &mut limit => break,
        }
        if survey.is_decided() && !was_decided {
            limit.set(time::sleep(GRACE));
        }
    }
    drop(asked);
    survey
}

async fn view(settings: &Settings, service: &Service, at: &Endpoint) -> Result<View, Error> {
    let question = Command::words(&["SENTINEL", "MASTER", &service.name]);
    let endpoint = Arc::new(at.clone());
    let reply =
        enquire(settings, &endpoint, &question).await.map_err(|error| match error.kind() {
            ErrorKind::Other => {
                let message = format!("{} knows no service {}", at.address, service.name);
                Error::with_source(ErrorKind::InvalidConfig, message, error)
            }
            _ => error,
        })?;
    View::read(&reply, &at.address).ok_or_else(|| {
        let message = format!("{} names no primary of {}", at.address, service.name);
        Error::new(ErrorKind::Protocol, message)
    })
}

/// Asks a server whether it is a primary.
///
/// # Errors
///
/// [`ErrorKind::NotReady`] if it is not.
pub(super) async fn check_role(live: &Live) -> Result<(), Error> {
    let reply = live.call(&Command::words(&["ROLE"])).await.map_err(Failure::into_error)?;
    match &reply {
        Reply::List(words) if words.first() == Some(&Reply::Text(b"master".to_vec())) => Ok(()),
        _ => {
            let message = format!("{} is not a primary", live.endpoint().address);
            Err(Error::new(ErrorKind::NotReady, message))
        }
    }
}

/// Listens to all sentinels on behalf of a follower. Never ends.
pub(super) async fn listen<F: Follower>(
    settings: Settings,
    service: Arc<Service>,
    follower: Arc<F>,
) {
    let ears = service.sentinels.iter().map(|sentinel| {
        let (settings, service, follower) = (&settings, &service, &follower);
        Listening { settings, service, sentinel, follower }.run()
    });
    futures::future::join_all(ears).await;
}

/// Listens to one sentinel.
struct Listening<'a, F> {
    settings: &'a Settings,
    service: &'a Arc<Service>,
    sentinel: &'a Endpoint,
    follower: &'a Arc<F>,
}

impl<F: Follower> Listening<'_, F> {
    async fn run(self) {
        let (endpoint, hear) = (Arc::new(self.sentinel.clone()), self.hear());
        loop {
            match self.subscribed(&endpoint, &hear).await {
                Ok(ear) => self.stay(&ear).await,
                Err(error) => tracing::debug!(%error, "cannot listen to a sentinel"),
            }
            time::sleep(PAUSE).await;
        }
    }

    fn hear(&self) -> Hear {
        let (service, follower) = (Arc::clone(self.service), Arc::clone(self.follower));
        let asked = self.sentinel.address.clone();
        Arc::new(move |push: Push<'_>| {
            if let Push::Message { channel, payload } = push
                && channel == SWITCHED.as_bytes()
                && let Some(primary) = primary_in(payload, &service.name, &asked)
            {
                follower.follow(primary);
            }
        })
    }

    /// Opens a connection and subscribes. Each takes no longer than the time limit of a connection.
    async fn subscribed(&self, endpoint: &Arc<Endpoint>, hear: &Hear) -> Result<Dedicated, Error> {
        let ear = Dedicated::open(self.settings, endpoint, hear).await?;
        let (channel, limit) = ([Arc::from(SWITCHED.as_bytes())], self.settings.connect_timeout);
        let confirmed = time::timeout(limit, ear.pubsub.subscribe(&channel)).await;
        confirmed.map_err(|_| {
            let message = format!("{endpoint} confirms no subscription within {limit:?}");
            Error::new(ErrorKind::Unreachable, message)
        })??;
        Ok(ear)
    }

    /// Returns when the connection has ended.
    async fn stay(&self, ear: &Dedicated) {
        while let Err(error) = self.catch_up().await {
            tracing::debug!(%error, "cannot ask a sentinel for the primary");
            if !error.is_retryable() || time::timeout(PAUSE, ear.closed()).await.is_ok() {
                break;
            }
        }
        ear.closed().await;
    }

    /// Makes up for messages that were missed. A sentinel that names another primary may be behind the others, or watch
    /// another service of that name, so all sentinels are asked then.
    async fn catch_up(&self) -> Result<(), Error> {
        let before = self.follower.switches();
        let view = view(self.settings, self.service, self.sentinel).await?;
        if !self.follower.is_at(view.primary()) {
            let named = survey(self.settings, self.service).await.outcome()?;
            self.follower.follow_all(&named, before);
        }
        Ok(())
    }
}

/// Reads `name host port host port`: the second pair is the new primary.
fn primary_in(payload: &[u8], name: &str, asked: &Address) -> Option<Address> {
    let mut words = std::str::from_utf8(payload).ok()?.split(' ');
    if words.next()? != name {
        return None;
    }
    let mut words = words.skip(2);
    let (host, port) = (words.next()?, words.next()?.parse().ok()?);
    Address::named(host, port, asked).filter(|_| words.next().is_none())
}

#[cfg(test)]
mod following;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn the_new_primary_of_this_service_is_read() {
        let read = |text: &str| primary_in(text.as_bytes(), "main", &at("s", 1));
        assert_eq!(read("main h1 6379 h2 6380"), Some(at("h2", 6380)));
        for other in [
            "mains h1 6379 h2 6380",
            "main h1 6379 h2",
            "main h1 6379 h2 x",
            "",
            "main h1 1 h2 2 3",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_server_is_replaced_only_by_another_one_and_only_since_then() {
        let mut switches = Switches::default();
        assert_eq!(switches.successor(&at("h1", 1), 0), None);
        switches.hear(&[at("h2", 1)]);
        let before = switches.count();
        assert_eq!(switches.successor(&at("h1", 1), before), None);
        // The other sentinels tell of the same switch.
        switches.hear(&[at("h2", 1)]);
        assert_eq!(switches.successor(&at("h2", 1), before), None);
        assert_eq!(switches.successor(&at("h1", 1), before), Some(&at("h2", 1)));
        switches.hear(&[at("h2", 1), at("h1", 1)]);
        assert_eq!(switches.successor(&at("h1", 1), before), None);
    }

    #[test]
    fn sentinels_that_are_behind_or_were_asked_before_a_message_are_not_followed() {
        let mut switches = Switches::default();
        assert!(switches.follows(0, 0));
        switches.saw(5);
        switches.saw(4);
        assert!(!switches.follows(4, 0) && switches.follows(5, 0));
        switches.hear(&[at("h2", 1)]);
        assert!(!switches.follows(6, 0) && switches.follows(6, 1));
    }

    proptest! {
        #[test]
        fn no_message_does_harm(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(primary_in(&payload, "main", &at("s", 1)), None);
        }
    }
}
