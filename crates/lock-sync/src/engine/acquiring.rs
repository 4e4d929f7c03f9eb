//! The way of one task to the lock.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Mode;

use super::machine::Entered;
use super::queue::WaiterId;
use super::{Denial, Entry, Hold, Home, Manner, Patience, Running, Ticket};

/// A wait for the lock that can be dropped at any point.
///
/// Not a future itself, because it has no output type of its own to show: [`poll`](Self::poll) it.
pub(crate) struct Acquiring {
    /// Goes to the hold, when there is one.
    entry: Option<Arc<Entry>>,
    state: State,
    /// Fixed with the first poll: a limit does not begin anew.
    patience: Patience,
    mode: Mode,
    manner: Manner,
    home: Home,
}

#[allow(clippy::large_enum_variant, reason = "a box would be one more allocation for each request")]
enum State {
    New(Wait),
    /// About to enter, for the first time or because it came too late for its turn.
    Entering,
    /// First in line at a free lock: this task asks the store itself.
    Asking {
        id: WaiterId,
        running: Running,
        /// It has left its waker just now, and there is no news.
        parked: bool,
    },
    Waiting(WaiterId),
    Done,
}

/// What the caller is ready to wait for; a limit begins with the first poll.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Try,
    AtMost(std::time::Duration),
    Forever,
}

impl Wait {
    pub(super) fn begin(self, entry: &Entry) -> Result<Patience, Denial> {
        entry.shared.start().map_err(Denial::Failed)?;
        Ok(match self {
            Self::Try => Patience::Try,
            Self::AtMost(limit) => Patience::Until(entry.shared.clock.now() + limit),
            Self::Forever => Patience::Forever,
        })
    }
}

impl Acquiring {
    pub(crate) fn new(entry: Arc<Entry>, mode: Mode, wait: Wait, manner: Manner) -> Self {
        let home = entry.shared.home;
        let (state, patience) = (State::New(wait), Patience::Try);
        Self { entry: Some(entry), state, patience, mode, manner, home }
    }

    /// For a caller that blocks its thread: nobody else may be there to drive its runtime.
    pub(crate) fn on_driver(&mut self) {
        self.home = Home::Driver;
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, Denial>> {
        if let Some(ticket) = self.share() {
            return Poll::Ready(Ok(self.hold(ticket)));
        }
        loop {
            let outcome = ready!(self.advance(context));
            self.state = State::Done;
            let hold = self.hold(outcome?);
            if hold.check().is_ok() {
                return Poll::Ready(Ok(hold));
            }
            // The turn is over before it was used: the way begins anew.
            self.entry = Some(Arc::clone(hold.entry()));
            self.state = State::Entering;
        }
    }

    /// The short way to those who read already, if there is one.
    fn share(&self) -> Option<Ticket> {
        match (&self.state, &self.entry) {
            (State::New(_), Some(entry)) if self.mode == Mode::Shared => entry.share(self.manner),
            _ => None,
        }
    }

    fn hold(&mut self, ticket: Ticket) -> Hold {
        self.state = State::Done;
        // Moved rather than cloned: many tasks count those who have it.
        let Some(entry) = self.entry.take() else { completed() };
        Hold::new(entry, ticket, self.mode, self.manner)
    }

    /// Goes on until there is an outcome.
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Result<Ticket, Denial>> {
        let Some(entry) = &self.entry else { completed() };
        loop {
            match &mut self.state {
                State::New(wait) => {
                    self.patience = wait.begin(entry)?;
                    self.state = State::Entering;
                }
                State::Entering
                    if self.patience == Patience::Forever
                        && let Some(id) = entry.join(self.mode, context) =>
                {
                    self.state = State::Waiting(id);
                    return Poll::Pending;
                }
                State::Entering => {
                    match entry.come(self.mode, self.patience, self.manner, context) {
                        (Entered::Done(outcome), _) => return Poll::Ready(outcome),
                        (Entered::Queued(id), parked) => {
                            self.state = State::Waiting(id);
                            return if parked {
                                Poll::Pending
                            } else {
                                entry.poll_first(id, context)
                            };
                        }
                        (Entered::Attempt(id, request), parked) => {
                            if self.home == Home::Asker {
                                entry.shared.ears.ask_here();
                            }
                            let running = Running::attempt(entry, request, self.home);
                            self.state = State::Asking { id, running, parked };
                        }
                    }
                }
                State::Asking { id, running, parked } => match running.poll_for(*id, context) {
                    Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                    Poll::Ready(None) => self.state = State::Waiting(*id),
                    Poll::Pending if std::mem::take(parked) => return Poll::Pending,
                    // The limit may be reached before the store answers.
                    Poll::Pending => return entry.poll(*id, context),
                },
                State::Waiting(id) => return entry.poll(*id, context),
                State::Done => completed(),
            }
        }
    }
}

fn completed() -> ! {
    panic!("a lock future was polled after it had completed")
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        // A request under way goes to the driver when it is dropped.
        if let State::Asking { id, .. } | State::Waiting(id) = self.state
            && let Some(entry) = &self.entry
        {
            entry.cancel(id, self.manner);
        }
    }
}
