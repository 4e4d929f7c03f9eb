//! One node, as this process sees it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Clock, Error, ErrorKind};

use crate::owed::Debts;
use crate::quarantine::Lookout;

/// A store that votes, its name for people, and what it was like lately.
pub(crate) struct Node<N> {
    pub(crate) name: Box<str>,
    pub(crate) backend: N,
    pub(crate) debts: Debts,
    state: Mutex<State>,
    /// How many requests are not answered for which nobody waits any more.
    behind: AtomicUsize,
    /// The round trip in nanoseconds, smoothed; zero before the first answer.
    trip: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) lookout: Lookout,
    /// Whether somebody waits to vouch for it.
    pub(crate) is_watched: bool,
    /// What it last said instead of an answer.
    pub(crate) trouble: Option<Error>,
}

impl<N> Node<N> {
    pub(crate) fn new(name: Box<str>, backend: N) -> Self {
        Self {
            name,
            backend,
            debts: Debts::default(),
            state: Mutex::default(),
            behind: AtomicUsize::new(0),
            trip: AtomicU64::new(0),
        }
    }

    /// How far behind a node may be before it is not asked. One that is stopped would otherwise collect every
    /// request until each has timed out.
    const MAX_BEHIND: usize = 256;

    pub(crate) fn falls_behind(&self) {
        self.behind.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn catches_up(&self) {
        self.behind.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether it is of use to ask the node anything.
    ///
    /// # Errors
    ///
    /// If it is far behind with its answers.
    pub(crate) fn check_answers(&self) -> Result<(), Error> {
        let behind = self.behind.load(Ordering::Relaxed);
        if behind < Self::MAX_BEHIND {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Timeout, format!("not asked: {behind} answers are overdue")))
    }

    /// Makes a request, and notes how long its answer took.
    pub(crate) async fn timed<'a, F: Future>(
        &'a self,
        clock: Clock,
        request: impl FnOnce(&'a N) -> F,
    ) -> F::Output {
        let sent = clock.now();
        let answer = request(&self.backend).await;
        let took = clock.now().saturating_duration_since(sent);
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.trip.load(Ordering::Relaxed);
        let smoothed = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.trip.store(smoothed, Ordering::Relaxed);
        answer
    }

    /// How long an answer takes, if there was one.
    pub(crate) fn trip(&self) -> Option<Duration> {
        let nanos = self.trip.load(Ordering::Relaxed);
        (nanos > 0).then_some(Duration::from_nanos(nanos))
    }

    /// Passes an answer on, and says what it was to whoever looks after the nodes.
    pub(crate) fn noted<T>(&self, verb: &str, answer: Result<T, Error>) -> Result<T, Error> {
        let node = &*self.name;
        match &answer {
            Ok(_) => {
                tracing::trace!(target: "lock_redlock::node", node, verb, trip = ?self.trip());
                self.state().trouble = None;
            }
            Err(error) => {
                let kind = error.kind();
                tracing::debug!(target: "lock_redlock::node", node, verb, ?kind, %error);
                self.state().trouble = Some(error.clone());
            }
        }
        answer
    }

    /// Why it cannot be asked for a vote for what it has not released yet.
    pub(crate) fn unheard(&self) -> Error {
        let unknown = || Error::new(ErrorKind::NotReady, "it has not answered a release");
        self.state().trouble.clone().unwrap_or_else(unknown)
    }

    /// A panic under the lock leaves nothing half done.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
