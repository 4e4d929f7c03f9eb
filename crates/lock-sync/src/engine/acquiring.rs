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
    entry: Arc<Entry>,
    state: State,
    /// Fixed with the first poll: a limit does not begin anew.
    patience: Patience,
    mode: Mode,
    manner: Manner,
    home: Home,
}

enum State {
    New(Wait),
    /// About to enter, for the first time or because it came too late for its turn.
    Entering,
    /// First in line at a free lock: this task asks the store itself.
    Asking(WaiterId, Box<Running>),
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

impl Acquiring {
    pub(crate) fn new(entry: Arc<Entry>, mode: Mode, wait: Wait, manner: Manner) -> Self {
        let home = entry.shared.home;
        Self { entry, state: State::New(wait), patience: Patience::Try, mode, manner, home }
    }

    /// For a caller that blocks its thread: nobody else may be there to drive its runtime.
    pub(crate) fn on_driver(&mut self) {
        self.home = Home::Driver;
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, Denial>> {
        loop {
            match &mut self.state {
                State::New(wait) => {
                    let wait = *wait;
                    self.state = State::Done;
                    if self.mode == Mode::Shared
                        && let Some(ticket) = self.entry.share(self.manner)
                    {
                        return Poll::Ready(Ok(self.hold(ticket)));
                    }
                    if let Err(error) = self.entry.shared.start() {
                        return Poll::Ready(Err(Denial::Failed(error)));
                    }
                    self.patience = self.patience(wait);
                    self.state = State::Entering;
                }
                State::Entering
                    if self.patience == Patience::Forever
                        && let Some(id) = self.entry.join(self.mode, context) =>
                {
                    self.state = State::Waiting(id);
                    return Poll::Pending;
                }
                State::Entering => match self.entry.enter(self.mode, self.patience, self.manner) {
                    Entered::Done(outcome) => {
                        if let Some(result) = self.finish(outcome) {
                            return Poll::Ready(result);
                        }
                    }
                    Entered::Queued(id) => self.state = State::Waiting(id),
                    Entered::Attempt(id, request) => {
                        let running = Running::attempt(&self.entry, request, self.home);
                        self.state = State::Asking(id, Box::new(running));
                    }
                },
                State::Asking(id, running) => {
                    let id = *id;
                    // The answer would wake this very task while it is polled, and cost it its turn.
                    self.entry.unpark(id);
                    match running.poll(context) {
                        Poll::Ready(_) => self.state = State::Waiting(id),
                        Poll::Pending => {
                            // The limit may be reached before the store answers.
                            let outcome = ready!(self.entry.poll(id, context));
                            if let Some(result) = self.finish(outcome) {
                                return Poll::Ready(result);
                            }
                        }
                    }
                }
                State::Waiting(id) => {
                    let outcome = ready!(self.entry.poll(*id, context));
                    if let Some(result) = self.finish(outcome) {
                        return Poll::Ready(result);
                    }
                }
                State::Done => panic!("a lock future was polled after it had completed"),
            }
        }
    }

    fn patience(&self, wait: Wait) -> Patience {
        match wait {
            Wait::Try => Patience::Try,
            Wait::AtMost(limit) => Patience::Until(self.entry.shared.clock.now() + limit),
            Wait::Forever => Patience::Forever,
        }
    }

    fn hold(&self, ticket: Ticket) -> Hold {
        Hold::new(Arc::clone(&self.entry), ticket, self.mode, self.manner)
    }

    /// Turns the outcome into a result, unless the turn is over before it was used: then the way
    /// begins anew.
    fn finish(&mut self, outcome: Result<Ticket, Denial>) -> Option<Result<Hold, Denial>> {
        self.state = State::Done;
        let hold = match outcome {
            Ok(ticket) => self.hold(ticket),
            Err(denial) => return Some(Err(denial)),
        };
        if hold.check().is_ok() {
            return Some(Ok(hold));
        }
        self.state = State::Entering;
        None
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        // A request under way goes to the driver when it is dropped.
        if let State::Asking(id, _) | State::Waiting(id) = self.state {
            self.entry.cancel(id, self.manner);
        }
    }
}
