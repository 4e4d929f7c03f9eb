//! The futures that wait for several locks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use lock_core::{Error, Mode};
use tokio::task::coop::poll_proceed;

use super::AllGuard;
use crate::bare::{Acquiring, BareLock, Bell, Denial, Gathering, Hold, Limit, Wait, unanswered};
use crate::error::{LockError, TryLockError};
use crate::lost::Lost;
use crate::waits::future;

future! {
    /// Waits for several locks: what [`Locks::lock_all`](crate::Locks::lock_all) returns.
    #[must_use = "futures do nothing unless polled"]
    LockAll[][](climbing: Climbing) -> Result<AllGuard, Denial => LockError>
    |context| climbing.poll(context).map_ok(AllGuard::new)
}

future! {
    /// Tries for several locks: what [`Locks::try_lock_all`](crate::Locks::try_lock_all) returns.
    #[must_use = "futures do nothing unless polled"]
    TryLockAll[][](climbing: Climbing) -> Result<AllGuard, Denial => TryLockError>
    |context| climbing.poll(context).map_ok(AllGuard::new)
}

/// The way to all of the locks: at once, and if that fails, one after the other in the order of their
/// keys.
pub(super) struct Climbing {
    /// Each once, in that order.
    locks: Vec<BareLock>,
    wait: Wait,
    /// Fixed with the first poll: a limit does not begin anew.
    limit: Limit,
    /// For a caller that blocks its thread: then no other thread may drive the runtime of the caller.
    on_driver: bool,
    state: State,
}

#[allow(clippy::large_enum_variant, reason = "one of them takes all the time that there is")]
enum State {
    Refused(Error),
    New,
    /// With the bell that rings at the limit.
    AtOnce(Gathering, Bell),
    InOrder(Rungs),
    Done,
}

/// The locks that are held, and the wait for the next.
struct Rungs {
    held: Vec<Hold>,
    next: Acquiring,
    /// That one of those that are held is lost.
    lost: Lost,
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
        // What is left of a wait that failed must not stand in others' way until the future is dropped.
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
                State::AtOnce(gathering, bell) => match gathering.poll(context) {
                    Poll::Ready(Ok(holds)) => return Poll::Ready(Ok(holds)),
                    Poll::Ready(Err(denial)) => {
                        let again = gathering.is_unable() || !matches!(self.wait, Wait::Try);
                        if !again || matches!(denial, Denial::Closed) {
                            return Poll::Ready(Err(denial));
                        }
                        self.climb_anew();
                    }
                    Poll::Pending => {
                        // If it is the driver that has gone, the answer says so.
                        ready!(Pin::new(bell).poll(context));
                        return Poll::Ready(Err(unanswered()));
                    }
                },
                State::InOrder(rungs) => {
                    if Pin::new(&mut rungs.lost).poll(context).is_ready() {
                        self.climb_anew();
                        continue;
                    }
                    rungs.held.push(ready!(rungs.next.poll(context))?);
                    if !rungs.held.iter().all(|hold| hold.check().is_ok()) {
                        self.climb_anew();
                        continue;
                    }
                    let held = std::mem::take(&mut rungs.held);
                    if held.len() == self.locks.len() {
                        return Poll::Ready(Ok(held));
                    }
                    self.climb_on(held);
                }
                State::Done => panic!("a lock future was polled after it had completed"),
            }
        }
    }

    fn begin(&mut self) -> Result<(), Denial> {
        let Some(first) = self.locks.first() else {
            self.state = State::AtOnce(BareLock::gather(&[])?, Bell::silent());
            return Ok(());
        };
        self.limit = Limit::of(self.wait, first);
        if self.locks.len() == 1 {
            self.climb_anew();
            return Ok(());
        }
        match BareLock::gather(&self.locks) {
            Ok(gathering) => {
                self.state = State::AtOnce(gathering, self.limit.bell(&self.locks[0]));
            }
            Err(Denial::WouldBlock) if !matches!(self.wait, Wait::Try) => self.climb_anew(),
            Err(denial) => return Err(denial),
        }
        Ok(())
    }

    /// Lets go of everything, and waits for the first.
    fn climb_anew(&mut self) {
        self.state = State::Done;
        self.climb_on(Vec::new());
    }

    /// Waits for the lock after these.
    fn climb_on(&mut self, held: Vec<Hold>) {
        let lock = &self.locks[held.len()];
        let mut next = lock.acquiring(Mode::Exclusive, self.limit.wait(lock));
        if self.on_driver {
            next.on_driver();
        }
        let lost = Lost::first_of(held.iter().map(Hold::lost).collect());
        self.state = State::InOrder(Rungs { held, next, lost });
    }
}
