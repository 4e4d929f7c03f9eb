//! The way to the server: one connection per runtime, replaced when it breaks.
//!
//! There is no connection until the first request. It lives on the runtime in whose context that
//! request was polled, and serves the requests of that runtime: a reply that is read where it is
//! awaited wakes no other thread, which costs as much as the request itself. An app with a runtime
//! of its own and a driver for its locks has two.

mod calling;
mod connect;
mod live;
mod manner;
mod mover;
mod pulse;
mod respite;
mod settings;
mod stream;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Error, ErrorKind};
use tokio::runtime::{self, Handle};
use tokio::sync::watch;
use tokio::time;

pub(crate) use self::connect::Dedicated;
pub(crate) use self::live::{Answer, Live};
pub(crate) use self::respite::Respite;
use self::settings::Hear;
pub(crate) use self::settings::Settings;
#[cfg(feature = "tls")]
pub(crate) use self::tls::Tls;
use crate::wire::{Call, Endpoint, Failure};

/// The way to the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    settings: Settings,
    hear: Hear,
    state: Mutex<State>,
}

/// A process has few runtimes, so that looking through a list is the fastest way to find one.
#[derive(Default)]
struct State {
    lives: Vec<(runtime::Id, Arc<Live>)>,
    /// The attempts to connect that are under way, each shared by all requests of its runtime.
    attempts: Vec<(runtime::Id, Attempt)>,
    respite: Respite,
    /// Why the last attempt failed.
    trouble: Option<Error>,
}

/// Becomes `Some` when the attempt is over. It never does if the runtime went away under it.
type Attempt = watch::Receiver<Option<Result<Arc<Live>, Error>>>;

/// What a request that has no connection does.
enum Next {
    Use(Arc<Live>),
    Await(Attempt),
    Fail(Error),
}

impl Link {
    pub(crate) fn new(settings: Settings, hear: Hear) -> Self {
        Self(Arc::new(Shared { settings, hear, state: Mutex::default() }))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Calls a script, which is loaded first if the server does not know it.
    ///
    /// # Errors
    ///
    /// After a retryable error the script may have run.
    pub(crate) async fn run(&self, call: Call) -> Result<Answer, Error> {
        self.ask(call).await.map_err(Failure::into_error)
    }

    /// As [`run`](Self::run), and tells what kind of failure it was.
    pub(crate) async fn ask(&self, call: Call) -> Result<Answer, Failure> {
        self.connected().await?.run(call).await
    }

    /// The connection, which is opened if there is none.
    pub(crate) async fn connected(&self) -> Result<Arc<Live>, Error> {
        match self.live() {
            Some(live) => Ok(live),
            None => Box::pin(self.connect()).await,
        }
    }

    /// A connection that only listens.
    pub(crate) async fn listen(&self) -> Result<Dedicated, Error> {
        Dedicated::open(&self.0.settings, &self.0.hear).await
    }

    /// The connection of the present runtime. Outside any there is none: those of others are of no use
    /// while nobody drives them.
    fn live(&self) -> Option<Arc<Live>> {
        let here = Handle::try_current().ok()?.id();
        let state = self.lock();
        let mut lives = state.lives.iter();
        lives
            .find(|(runtime, live)| *runtime == here && !live.is_closed())
            .map(|(_, live)| Arc::clone(live))
    }

    /// Waits for the attempt that is under way, or makes one.
    async fn connect(&self) -> Result<Arc<Live>, Error> {
        // Each turn after the first means that a runtime has gone.
        for _ in 0..3 {
            let mut attempt = match self.next()? {
                Next::Use(live) => return Ok(live),
                Next::Await(attempt) => attempt,
                Next::Fail(error) => return Err(error),
            };
            let limit = self.settings().command_timeout;
            match time::timeout(limit, attempt.wait_for(Option::is_some)).await {
                Ok(Ok(outcome)) => {
                    if let Some(outcome) = outcome.clone() {
                        return outcome;
                    }
                }
                Ok(Err(_)) => {}
                Err(_) => return Err(self.unreachable("is still being connected to")),
            }
        }
        Err(self.unreachable("cannot be connected to: the tokio runtime is going away"))
    }

    fn next(&self) -> Result<Next, Error> {
        let runtime = Handle::try_current().map_err(|error| {
            let message = "a connection can be opened in the context of a tokio runtime only";
            Error::with_source(ErrorKind::InvalidConfig, message, error)
        })?;
        let here = runtime.id();
        let mut state = self.lock();
        state.bury(&self.0.settings.endpoint);
        if let Some((_, live)) = state.lives.iter().find(|(runtime, _)| *runtime == here) {
            return Ok(Next::Use(Arc::clone(live)));
        }
        // An attempt whose runtime went away under it never ends.
        state.attempts.retain(|(_, attempt)| attempt.has_changed().is_ok());
        if let Some((_, attempt)) = state.attempts.iter().find(|(runtime, _)| *runtime == here) {
            return Ok(Next::Await(attempt.clone()));
        }
        if !state.respite.remaining().is_zero() {
            let trouble = state.trouble.clone();
            return Ok(Next::Fail(trouble.unwrap_or_else(|| self.unreachable("keeps hanging up"))));
        }
        let (over, attempt) = watch::channel(None);
        state.attempts.push((here, attempt.clone()));
        runtime.spawn(self.clone().attempt(here, over));
        Ok(Next::Await(attempt))
    }

    async fn attempt(
        self,
        runtime: runtime::Id,
        over: watch::Sender<Option<Result<Arc<Live>, Error>>>,
    ) {
        let Shared { settings, hear, .. } = &*self.0;
        let outcome = connect::connect(settings, hear).await;
        let mut state = self.lock();
        state.attempts.retain(|(other, _)| *other != runtime);
        match &outcome {
            Ok(live) => {
                tracing::debug!(server = %settings.endpoint, "connected");
                state.lives.push((runtime, Arc::clone(live)));
                state.trouble = None;
            }
            Err(error) => {
                tracing::debug!(server = %settings.endpoint, %error, "cannot connect");
                state.respite.failed();
                state.trouble = Some(error.clone());
            }
        }
        drop(state);
        over.send_replace(Some(outcome));
    }

    fn unreachable(&self, what: &str) -> Error {
        let address = &self.settings().endpoint.address;
        Error::new(ErrorKind::Unreachable, format!("{address} {what}"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Forgets the connections that have ended.
    fn bury(&mut self, endpoint: &Endpoint) {
        for (_, live) in self.lives.extract_if(.., |(_, live)| live.is_closed()) {
            tracing::info!(server = %endpoint, "a connection has ended");
            if live.was_useless() {
                self.respite.relapsed();
            } else {
                self.respite.reset();
            }
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.settings().endpoint)
    }
}
