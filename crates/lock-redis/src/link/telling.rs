//! What observers hear of a server: its connections, and the requests to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_core::observer::{Connected, Disconnected, Observers, Redirected, StoreAnswered};
use lock_core::{Clock, Error, Instant};

use crate::wire::Failure;

const CLOCK: Clock = Clock::boot();

/// The observers of one server. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telling {
    observers: Observers,
    /// Whether a connection has ended since the last one was opened.
    has_ended: Arc<AtomicBool>,
}

/// A connection of which observers have heard.
#[derive(Debug)]
pub(super) struct Told {
    telling: Telling,
    server: String,
}

impl Telling {
    pub(crate) fn new(observers: Observers) -> Self {
        Self { observers, has_ended: Arc::default() }
    }

    /// These observers, for another server.
    pub(crate) fn of_another(&self) -> Self {
        Self::new(self.observers.clone())
    }

    /// Whether there is an observer.
    pub(crate) fn is_heard(&self) -> bool {
        !self.observers.is_empty()
    }

    /// A connection was opened. `None` without observers.
    pub(super) fn connected(&self, server: impl ToString) -> Option<Arc<Told>> {
        self.is_heard().then(|| {
            let told = Told { telling: self.clone(), server: server.to_string() };
            let again = self.has_ended.swap(false, Ordering::AcqRel);
            let event = Connected { server: &told.server, again };
            self.observers.tell(|observer| observer.connected(&event));
            Arc::new(told)
        })
    }

    /// A connection could not be opened.
    pub(super) fn failed(&self, server: impl ToString, error: &Error) {
        if self.is_heard() {
            let server = server.to_string();
            let event = Disconnected { server: &server, error: Some(error) };
            self.observers.tell(|observer| observer.disconnected(&event));
        }
    }

    /// A request has to go to another server.
    pub(crate) fn redirected(&self, from: impl ToString, to: Option<impl ToString>) {
        if self.is_heard() {
            let (from, to) = (from.to_string(), to.map(|to| to.to_string()));
            let event = Redirected { from: &from, to: to.as_deref() };
            self.observers.tell(|observer| observer.redirected(&event));
        }
    }

    /// A request was not sent, because there is no connection.
    pub(super) fn unsent(
        &self,
        server: impl ToString,
        verb: &'static str,
        since: Instant,
        error: &Error,
    ) {
        if self.is_heard() {
            self.answered(&server.to_string(), verb, since, Some(error));
        }
    }

    fn answered(&self, server: &str, verb: &'static str, sent: Instant, error: Option<&Error>) {
        let took = CLOCK.now().saturating_duration_since(sent);
        let event = StoreAnswered { server, verb, error, took };
        self.observers.tell(|observer| observer.store_answered(&event));
    }
}

impl Told {
    /// A request is over.
    pub(super) fn answered<T>(
        &self,
        verb: &'static str,
        sent: Instant,
        outcome: &Result<T, Failure>,
    ) {
        let error = outcome.as_ref().err().map(Failure::error);
        self.telling.answered(&self.server, verb, sent, error);
    }

    /// The connection has ended.
    pub(super) fn disconnected(&self) {
        self.telling.has_ended.store(true, Ordering::Release);
        let event = Disconnected { server: &self.server, error: None };
        self.telling.observers.tell(|observer| observer.disconnected(&event));
    }
}
