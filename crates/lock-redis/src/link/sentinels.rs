//! Where the primary of a service is, by its sentinels.
//!
//! All sentinels are asked at once, whenever a connection is opened. The server that they name has to say itself that
//! it is a primary. A message of any sentinel that the primary has changed is a hint: connections to other servers are
//! given up, and the sentinels are asked again.

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
use super::settings::Settings;
use super::survey::{Survey, View};
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
    /// Has this runtime, on which this is called, listen, unless it does so already. Forgets the runtimes that have gone.
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

/// Asks the sentinels for the primary.
///
/// # Errors
///
/// The error of one of the sentinels, if none knows the primary.
pub(super) async fn locate(settings: &Settings, service: &Service) -> Result<Arc<Endpoint>, Error> {
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
    Ok(Arc::new(service.server.at(survey.outcome()?)))
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

/// Listens to all sentinels, and calls `switched` with the address of each new primary. Never ends.
pub(super) async fn listen(
    settings: Settings,
    service: Arc<Service>,
    switched: Arc<dyn Fn(&Address) + Send + Sync>,
) {
    let ears = service.sentinels.iter().map(|at| listen_to(&settings, &service, at, &switched));
    futures::future::join_all(ears).await;
}

async fn listen_to(
    settings: &Settings,
    service: &Arc<Service>,
    sentinel: &Endpoint,
    switched: &Arc<dyn Fn(&Address) + Send + Sync>,
) {
    let (heard_of, switched) = (Arc::clone(service), Arc::clone(switched));
    let asked = sentinel.address.clone();
    let hear: super::settings::Hear = Arc::new(move |push: Push<'_>| {
        if let Push::Message { channel, payload } = push
            && channel == SWITCHED.as_bytes()
            && let Some(primary) = primary_in(payload, &heard_of.name, &asked)
        {
            switched(&primary);
        }
    });
    let (endpoint, channel) = (Arc::new(sentinel.clone()), [Arc::from(SWITCHED.as_bytes())]);
    loop {
        if let Ok(ear) = Dedicated::open(settings, &endpoint, &hear).await {
            match ear.pubsub.subscribe(&channel).await {
                Ok(()) => ear.closed().await,
                Err(error) => tracing::debug!(%error, "cannot listen to a sentinel"),
            }
        }
        time::sleep(PAUSE).await;
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

    proptest! {
        #[test]
        fn no_message_does_harm(payload in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(primary_in(&payload, "main", &at("s", 1)), None);
        }
    }
}
