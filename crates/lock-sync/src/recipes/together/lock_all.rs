//! The futures that wait for several locks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_core::{Error, Mode};
use tokio::task::coop::poll_proceed;

use super::MultiGuard;
use crate::bare::{Acquiring, Alarm, BareLock, Denial, Gathering, Hold, Limit, Wait, completed};
use crate::error::{LockError, TryLockError};
use crate::lease::Lease;
use crate::lost::Lost;
use crate::waits::future;

future! {
    /// The future that [`Locks::lock_all`](crate::Locks::lock_all) returns.
    #[must_use = "futures do nothing unless polled"]
    LockAll[][](climbing: Climbing) -> Result<MultiGuard, Denial => LockError>
    |context| climbing.poll(context).map_ok(MultiGuard::new)
}

future! {
    /// The future that [`Locks::try_lock_all`](crate::Locks::try_lock_all) returns.
    #[must_use = "futures do nothing unless polled"]
    TryLockAll[][](climbing: Climbing) -> Result<MultiGuard, Denial => TryLockError>
    |context| climbing.poll(context).map_ok(MultiGuard::new)
}

/// The wait for all of the locks: at once, and if that fails, one after the other in the order of their keys.
pub(super) struct Climbing {
    /// Each lock once, in the order of the keys.
    locks: Vec<BareLock>,
    wait: Wait,
    /// Set with the first poll, so that the limit counts for the whole wait.
    limit: Limit,
    /// Sends the requests from the driver. A caller that blocks its thread needs this, because no other thread may
    /// be running the caller's runtime.
    on_driver: bool,
    state: State,
}

#[allow(clippy::large_enum_variant, reason = "one of them takes all the time that there is")]
enum State {
    Refused(Error),
    New,
    /// With the alarm that rings at the limit.
    AtOnce(Gathering, Alarm),
    InOrder(Rungs),
    Done,
}

/// The held locks, and the wait for the next lock.
struct Rungs {
    held: Vec<Hold>,
    next: Acquiring,
    /// Resolves when one of the held leases is lost.
    lost: Lost,
}

impl Rungs {
    /// The held locks, once the next lock is among them. `None` if a lease was lost before.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Vec<Hold>>, Denial>> {
        if Pin::new(&mut self.lost).poll(context).is_ready() {
            return Poll::Ready(Ok(None));
        }
        self.held.push(ready!(self.next.poll(context))?);
        let valid = self.held.iter().all(|hold| hold.check().is_ok());
        Poll::Ready(Ok(valid.then(|| std::mem::take(&mut self.held))))
    }
}

impl Climbing {
    pub(super) fn new(locks: Result<Vec<BareLock>, Error>, wait: Wait) -> Self {
        let (locks, state) = match locks {
            Ok(locks) => (locks, State::New),
            Err(error) => (Vec::new(), State::Refused(error)),
        };
        Self { locks, wait, limit: Limit::none(), on_driver: false, state }
    }

    fn on_driver(&mut self) {
        self.on_driver = true;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Hold>, Denial>> {
        let coop = ready!(poll_proceed(context));
        let outcome = ready!(self.poll_holds(context));
        // The rest of a failed wait must not delay other callers until the future is dropped.
        self.state = State::Done;
        coop.made_progress();
        Poll::Ready(outcome)
    }

    fn poll_holds(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<Hold>, Denial>> {
        loop {
            match &mut self.state {
                State::Refused(error) => return Poll::Ready(Err(Denial::Failed(error.clone()))),
                State::New => {
                    if let Err(denial) = self.begin() {
                        return Poll::Ready(Err(denial));
                    }
                }
                State::AtOnce(gathering, alarm) => match gathering.poll(context) {
                    Poll::Ready(Ok(holds)) => return Poll::Ready(Ok(holds)),
                    Poll::Ready(Err(denial)) => {
                        let again = gathering.is_unable() || !matches!(self.wait, Wait::Try);
                        if !again || matches!(denial, Denial::Closed) {
                            return Poll::Ready(Err(denial));
                        }
                        self.climb_anew();
                    }
                    // If the driver has ended, the answer says so.
                    Poll::Pending => return alarm.unanswered(context).map(Err),
                },
                State::InOrder(rungs) => match ready!(rungs.poll(context))? {
                    Some(held) if held.len() == self.locks.len() => return Poll::Ready(Ok(held)),
                    Some(held) => self.climb_on(held),
                    None => self.climb_anew(),
                },
                State::Done => completed(),
            }
        }
    }

    fn begin(&mut self) -> Result<(), Denial> {
        let Some(first) = self.locks.first() else {
            self.state = State::AtOnce(BareLock::gather(&[])?, Alarm::silent());
            return Ok(());
        };
        self.limit = Limit::of(self.wait, first);
        if self.locks.len() == 1 {
            self.climb_anew();
            return Ok(());
        }
        match BareLock::gather(&self.locks) {
            Ok(gathering) => {
                self.state = State::AtOnce(gathering, self.limit.alarm(&self.locks[0]));
            }
            Err(Denial::WouldBlock) if !matches!(self.wait, Wait::Try) => self.climb_anew(),
            Err(denial) => return Err(denial),
        }
        Ok(())
    }

    /// Gives all locks up, and waits for the first lock again.
    fn climb_anew(&mut self) {
        self.state = State::Done;
        self.climb_on(Vec::new());
    }

    /// Waits for the lock after the held locks.
    fn climb_on(&mut self, held: Vec<Hold>) {
        let lock = &self.locks[held.len()];
        let mut next = lock.acquiring(Mode::Exclusive, self.limit.wait(lock));
        if self.on_driver {
            next.on_driver();
        }
        let lost = Lease::of_all(None, held.iter()).lost();
        self.state = State::InOrder(Rungs { held, next, lost });
    }
}
