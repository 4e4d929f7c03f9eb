//! The acquisition of a lock by one task.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use lock_core::Mode;

use super::gate::Way;
use super::machine::Entrance;
use super::observed::{Begun, Observed, Told};
use super::queue::WaiterId;
use super::{Denial, Entry, Hold, HoldId, Home, Manner, Patience, Running, Ticket, Wait};

/// A wait for the lock that can be dropped at any point.
///
/// It is not a future itself: the futures of the primitives [`poll`](Self::poll) it and have their own output types.
pub(crate) struct Acquiring {
    /// The entry; it moves into the hold.
    entry: Option<Arc<Entry>>,
    state: State,
    /// Set by the first poll. A limit does not begin anew.
    patience: Patience,
    mode: Mode,
    manner: Manner,
    home: Home,
    hears: Hears,
    /// From the first poll until there is an outcome, if there are observers.
    begun: Option<Begun>,
}

/// Whether observers hear of the acquisition. If none hears of it, a poll need not look for observers in the entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// There are no observers.
    NoObservers,
    /// There are observers. The first poll decides.
    Undecided,
    Yes,
    No,
}

enum State {
    New(Wait),
    /// As new, but the short way beside other holders is not open.
    Tried(Wait),
    /// About to enter.
    Entering,
    /// About to enter again: the lease was over before the caller began this hold.
    Again(HoldId),
    /// First in line: this task sends the request to the store itself.
    Asking {
        id: WaiterId,
        running: Running,
        /// The waiter has just left its waker, and there is no news yet.
        parked: bool,
    },
    Waiting(WaiterId),
    Done,
}

impl Acquiring {
    #[inline]
    pub(crate) fn new(entry: Arc<Entry>, mode: Mode, wait: Wait, manner: Manner) -> Self {
        let home = entry.shared.home;
        let hears = if entry.observed.is_some() { Hears::Undecided } else { Hears::NoObservers };
        let (state, patience) = (State::New(wait), Patience::Try);
        Self { entry: Some(entry), state, patience, mode, manner, home, hears, begun: None }
    }

    /// The caller has tried the short way, unless observers hear of acquisitions.
    pub(crate) fn has_tried_to_share(&mut self) {
        if let (State::New(wait), Hears::NoObservers) = (&self.state, self.hears) {
            self.state = State::Tried(*wait);
        }
    }

    /// For a caller that blocks its thread: perhaps no other thread drives its runtime.
    pub(crate) fn on_driver(&mut self) {
        self.home = Home::Driver;
    }

    #[inline]
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, Denial>> {
        if self.hears == Hears::Undecided {
            self.begin();
        }
        if self.hears == Hears::Yes {
            return self.poll_heard(context);
        }
        let way = ready!(self.poll_plainly(context))?;
        if self.hears == Hears::No {
            self.miss(&way);
        }
        Poll::Ready(Ok(self.hold(way, None)))
    }

    /// The outcome of the wait, without the observers.
    #[inline]
    fn poll_plainly(&mut self, context: &mut Context<'_>) -> Poll<Result<Way, Denial>> {
        if let Some(way) = self.share() {
            return Poll::Ready(Ok(way));
        }
        loop {
            let outcome = ready!(self.advance(context));
            self.state = State::Done;
            let mut ticket = outcome?;
            if ticket.begin().is_ok() {
                return Poll::Ready(Ok(Way::Ticket(ticket)));
            }
            self.state = State::Again(ticket.hold);
        }
    }

    /// The short way for one more holder beside others, if there is one.
    fn share(&self) -> Option<Way> {
        match (&self.state, &self.entry, self.mode) {
            (State::New(_), Some(entry), Mode::Shared | Mode::Permits { .. }) => {
                entry.share(self.mode, self.manner)
            }
            _ => None,
        }
    }

    #[inline]
    fn hold(&mut self, way: Way, told: Option<Told>) -> Hold {
        self.state = State::Done;
        // Moved rather than cloned: many tasks contend for the reference count.
        let Some(entry) = self.entry.take() else { completed() };
        Hold::new(entry, way.into(), self.mode.permits(), self.manner, told)
    }

    // ---- What observers hear ----

    fn observed(&self) -> Option<&Observed> {
        self.entry.as_ref()?.observed.as_deref()
    }

    /// The caller wants the lock, and observers may hear of that.
    fn begin(&mut self) {
        self.begun = self.observed().and_then(|observed| Begun::new(observed, self.mode));
        self.hears = if self.begun.is_some() { Hears::Yes } else { Hears::No };
    }

    /// The caller has got a hold, and observers have not heard of it.
    fn miss(&self, way: &Way) {
        if let (Some(observed), Way::Ticket(ticket)) = (self.observed(), way) {
            observed.has_missed(ticket.since);
        }
    }

    #[inline(never)]
    fn poll_heard(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, Denial>> {
        Poll::Ready(match self.poll_plainly(context) {
            Poll::Ready(Ok(way)) => {
                let begun = self.begun.take();
                let told = self.observed().and_then(|observed| observed.grants(begun, &way));
                Ok(self.hold(way, told))
            }
            Poll::Ready(Err(denial)) => {
                self.tell_end(|begun, observed| begun.denied(observed, &denial));
                Err(denial)
            }
            Poll::Pending => {
                self.tell_wait();
                return Poll::Pending;
            }
        })
    }

    fn tell_wait(&mut self) {
        let Some(begun) = &mut self.begun else { return };
        let observed = self.entry.as_ref().and_then(|entry| entry.observed.as_deref());
        if let (State::Waiting(_), Some(observed)) = (&self.state, observed) {
            begun.waits(observed);
        }
    }

    /// Tells of an end without a hold.
    fn tell_end(&mut self, end: impl FnOnce(Begun, &Observed)) {
        match (self.begun.take(), self.observed()) {
            (Some(begun), Some(observed)) => end(begun, observed),
            (None, Some(observed)) => observed.has_missed_now(),
            (_, None) => {}
        }
    }

    /// Goes on until there is an outcome.
    #[inline]
    fn advance(&mut self, context: &mut Context<'_>) -> Poll<Result<Ticket, Denial>> {
        loop {
            let Some(entry) = &self.entry else { completed() };
            match &mut self.state {
                State::New(wait) | State::Tried(wait) => {
                    self.patience = entry.shared.begin(*wait)?;
                    self.state = State::Entering;
                }
                State::Entering => {
                    let came = entry.come(self.mode, self.patience, self.manner, context);
                    if let Some(poll) = self.enter(came, context) {
                        return poll;
                    }
                }
                State::Again(hold) => {
                    let entered = entry.come_again(*hold, self.mode, self.patience, self.manner);
                    if let Some(poll) = self.enter((entered, false), context) {
                        return poll;
                    }
                }
                State::Asking { id, running, parked } => match running.poll_for(*id, context) {
                    Poll::Ready(Some(outcome)) => return Poll::Ready(outcome),
                    Poll::Ready(None) => {
                        let id = *id;
                        self.state = State::Waiting(id);
                        return entry.poll_first(id, context);
                    }
                    Poll::Pending if std::mem::take(parked) => return Poll::Pending,
                    // The limit may be reached before the store answers.
                    Poll::Pending => return entry.poll(*id, context),
                },
                State::Waiting(id) => return entry.poll(*id, context),
                State::Done => completed(),
            }
        }
    }

    /// The caller has come to the line, and may have left its waker. `None` if this task has to send a request.
    fn enter(
        &mut self,
        (entered, parked): (Entrance, bool),
        context: &mut Context<'_>,
    ) -> Option<Poll<Result<Ticket, Denial>>> {
        let Some(entry) = &self.entry else { completed() };
        match entered {
            Entrance::Done(outcome) => Some(Poll::Ready(outcome)),
            Entrance::Queued(id) => {
                self.state = State::Waiting(id);
                Some(if parked { Poll::Pending } else { entry.poll_first(id, context) })
            }
            Entrance::Attempt(id, request) => {
                if self.home == Home::Asker {
                    entry.shared.ears.ask_here();
                }
                let running = Running::attempt(entry, request, self.home);
                self.state = State::Asking { id, running, parked };
                None
            }
        }
    }
}

pub(crate) fn completed() -> ! {
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
        if self.hears != Hears::NoObservers {
            self.tell_end(Begun::abandoned);
        }
    }
}
