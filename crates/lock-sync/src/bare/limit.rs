//! Waits with a limit. The driver measures the time, so the task needs no runtime.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use lock_core::{Error, ErrorKind, Instant};
use tokio::sync::oneshot;

use super::BareLock;
use crate::engine::{Command, Denial, Shared, Wait};
use crate::foreign::Shielded;

/// How much longer than its limit a wait lasts, so that the part of the wait that knows the reason for the delay can
/// report the reason.
const LAST_WORD: Duration = Duration::from_millis(5);

/// The limit of a wait, from its begin. All parts of the wait share the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    wait: Wait,
    end: Option<Instant>,
}

impl Limit {
    pub(crate) fn none() -> Self {
        Self { wait: Wait::Forever, end: None }
    }

    /// A limit that begins now.
    pub(crate) fn of(wait: Wait, lock: &BareLock) -> Self {
        let end = match wait {
            Wait::AtMost(limit) => Some(lock.now() + limit),
            Wait::Try | Wait::Forever => None,
        };
        Self { wait, end }
    }

    /// Whether the caller does not wait at all.
    pub(super) fn is_try(self) -> bool {
        matches!(self.wait, Wait::Try)
    }

    /// How long the next part of the wait may take.
    pub(crate) fn wait(self, lock: &BareLock) -> Wait {
        self.left(lock).map_or(self.wait, Wait::AtMost)
    }

    /// The remaining time, if there is a limit.
    pub(crate) fn left(self, lock: &BareLock) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(lock.now()))
    }

    /// Rings when the limit is reached, and never without a limit. The driver must have been started.
    pub(crate) fn alarm(self, lock: &BareLock) -> Alarm {
        self.left(lock).map_or(Alarm::silent(), |left| lock.alarm(left))
    }

    /// Waits for this future, unless the limit is reached or the locks shut down first.
    pub(crate) async fn bound<T, E: From<Denial>>(
        self,
        lock: &BareLock,
        waiting: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        lock.start().map_err(Denial::Failed)?;
        let reached = self.left(lock).map_or(Alarm::silent(), |left| lock.alarm(left + LAST_WORD));
        tokio::select! {
            biased;
            outcome = waiting => outcome,
            () = lock.shared().closed() => Err(Denial::Closed.into()),
            () = reached => Err(Denial::Timeout(None).into()),
        }
    }
}

impl BareLock {
    /// Starts the driver if there is none yet.
    pub(crate) fn start(&self) -> Result<(), Error> {
        self.shared().start()
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared().clock.now()
    }

    /// Rings after this time.
    pub(crate) fn alarm(&self, after: Duration) -> Alarm {
        alarm(self.shared(), after)
    }
}

/// Resolves after a time, and at once if the driver has gone. When the timer is dropped, the driver removes it.
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Alarm(Option<Shielded<oneshot::Receiver<()>>>);

impl Alarm {
    /// Never resolves.
    pub(crate) fn silent() -> Self {
        Self(None)
    }

    /// The denial for a limit that is reached before the store has answered.
    pub(crate) fn unanswered(&mut self, context: &mut Context<'_>) -> Poll<Denial> {
        let silent = "the backend has not answered yet";
        let denial = |()| Denial::Timeout(Some(Error::new(ErrorKind::Timeout, silent)));
        Pin::new(self).poll(context).map(denial)
    }
}

impl Future for Alarm {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Some(bell) => Pin::new(bell).poll(context).map(drop),
            None => Poll::Pending,
        }
    }
}

/// Rings after this time.
pub(crate) fn alarm(shared: &Shared, after: Duration) -> Alarm {
    let (ring, bell) = oneshot::channel();
    shared.send(Command::Alarm(after, ring));
    Alarm(Some(Shielded::new(bell)))
}
