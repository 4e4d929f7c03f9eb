//! The events that a backend tells observers about one server: connections and requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Connected, Disconnected, Observers, Redirected, StoreAnswered};
use crate::{Clock, Error, Instant};

const CLOCK: Clock = Clock::boot();

/// The observers of one server, for the author of a backend. A clone is cheap. Without observers, each method only
/// checks that there is no observer.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use std::time::Duration;
/// use lock_core::{Clock, Error, ErrorKind};
/// use lock_core::observer::{Connected, Disconnected, Observer, Observers, Redirected, StoreAnswered, Telling};
///
/// #[derive(Default)]
/// struct Diary(Mutex<Vec<String>>);
///
/// impl Observer for Diary {
///     fn connected(&self, event: &Connected<'_>) {
///         self.0.lock().unwrap().push(format!("{}, again: {}", event.server, event.again));
///     }
///     fn store_answered(&self, event: &StoreAnswered<'_>) {
///         self.0.lock().unwrap().push(event.verb.to_owned());
///     }
///     fn disconnected(&self, event: &Disconnected<'_>) {
///         self.0.lock().unwrap().push(format!("{} is gone", event.server));
///     }
///     fn redirected(&self, event: &Redirected<'_>) {
///         self.0.lock().unwrap().push(format!("from {} to {:?}", event.from, event.to));
///     }
/// }
///
/// let (diary, mut observers) = (Arc::new(Diary::default()), Observers::none());
/// observers.add(diary.clone());
/// let telling = Telling::new(observers);
/// let told = telling.connected("db:5432").expect("there is an observer");
/// told.answered("acquire", Clock::boot().now(), None);
/// told.disconnected();
/// telling.connected("db:5432");
/// assert_eq!(
///     *diary.0.lock().unwrap(),
///     ["db:5432, again: false", "acquire", "db:5432 is gone", "db:5432, again: true"],
/// );
///
/// // A second server, which does not answer, and a request that has to go elsewhere.
/// diary.0.lock().unwrap().clear();
/// let other = telling.of_another();
/// assert!(other.is_heard());
/// other.failed("db2:5432", &Error::new(ErrorKind::Unreachable, "refused"));
/// other.redirected("db:5432", Some("db2:5432"));
/// other.answered_after(Duration::from_millis(3), "db2:5432", "renew", None);
/// assert_eq!(*diary.0.lock().unwrap(), ["db2:5432 is gone", "from db:5432 to Some(\"db2:5432\")", "renew"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Telling {
    observers: Observers,
    /// Whether a connection has ended since the last one was opened.
    has_ended: Arc<AtomicBool>,
}

/// A connection whose opening the observers have heard.
///
/// The [example](Telling#examples) of the observers of a server has one.
#[derive(Debug)]
#[must_use = "observers expect the end of the connection"]
pub struct Told {
    telling: Telling,
    server: String,
}

impl Telling {
    /// These observers, for one server.
    pub fn new(observers: Observers) -> Self {
        Self { observers, has_ended: Arc::default() }
    }

    /// These observers, for another server.
    #[must_use]
    pub fn of_another(&self) -> Self {
        Self::new(self.observers.clone())
    }

    /// Whether there is an observer.
    pub fn is_heard(&self) -> bool {
        !self.observers.is_empty()
    }

    /// A connection was opened. `None` without observers.
    pub fn connected(&self, server: impl ToString) -> Option<Told> {
        self.is_heard().then(|| {
            let told = Told { telling: self.clone(), server: server.to_string() };
            let again = self.has_ended.swap(false, Ordering::AcqRel);
            let event = Connected { server: &told.server, again };
            self.observers.tell(|observer| observer.connected(&event));
            told
        })
    }

    /// A connection could not be opened.
    pub fn failed(&self, server: impl ToString, error: &Error) {
        if self.is_heard() {
            let server = server.to_string();
            let event = Disconnected { server: &server, error: Some(error) };
            self.observers.tell(|observer| observer.disconnected(&event));
        }
    }

    /// A request has to go to another server.
    pub fn redirected(&self, from: impl ToString, to: Option<impl ToString>) {
        if self.is_heard() {
            let (from, to) = (from.to_string(), to.map(|to| to.to_string()));
            let event = Redirected { from: &from, to: to.as_deref() };
            self.observers.tell(|observer| observer.redirected(&event));
        }
    }

    /// A request that was made at `since` is over.
    pub fn answered(
        &self,
        server: impl ToString,
        verb: &'static str,
        since: Instant,
        error: Option<&Error>,
    ) {
        if self.is_heard() {
            self.answered_after(CLOCK.now().saturating_duration_since(since), server, verb, error);
        }
    }

    /// A request is over, which took so long. Observers may hear of it later than at its end.
    pub fn answered_after(
        &self,
        took: Duration,
        server: impl ToString,
        verb: &'static str,
        error: Option<&Error>,
    ) {
        if self.is_heard() {
            self.tell_of_answer(took, &server.to_string(), verb, error);
        }
    }

    fn tell_of_answer(
        &self,
        took: Duration,
        server: &str,
        verb: &'static str,
        error: Option<&Error>,
    ) {
        let event = StoreAnswered { server, verb, error, took };
        self.observers.tell(|observer| observer.store_answered(&event));
    }
}

impl Told {
    /// A request on this connection, which was sent at `sent`, is over.
    pub fn answered(&self, verb: &'static str, sent: Instant, error: Option<&Error>) {
        let took = CLOCK.now().saturating_duration_since(sent);
        self.telling.tell_of_answer(took, &self.server, verb, error);
    }

    /// The connection has ended.
    pub fn disconnected(&self) {
        self.telling.has_ended.store(true, Ordering::Release);
        let event = Disconnected { server: &self.server, error: None };
        self.telling.observers.tell(|observer| observer.disconnected(&event));
    }
}
