//! How tasks leave their wakers with an entry.
//!
//! To clone or to drop a waker is code of others: see [`foreign`](crate::foreign). So a task brings its waker along
//! or comes back with it, and takes away the one that it left before.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use lock_core::Mode;

use super::machine::{Part, Return};
use super::queue::WaiterId;
use super::{Denial, Entry, HoldId, State, Ticket};
use crate::foreign::discard;

impl Entry {
    /// The short way into the line, if there is one: see [`Machine::join`](super::machine::Machine::join).
    pub(super) fn join(&self, want: Mode, context: &Context<'_>) -> Option<WaiterId> {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let mut waker = crowded.then(|| context.waker().clone());
        let joined = loop {
            let mut state = self.lock();
            if waker.is_some() || !state.machine.may_join(want) {
                break state.machine.join(want, &mut waker);
            }
            drop(state);
            waker = Some(context.waker().clone());
        };
        if joined.is_some() != crowded {
            self.crowded.store(joined.is_some(), Ordering::Relaxed);
        }
        discard(waker);
        joined
    }

    /// What became of a waiter that may have left this waker before.
    pub(super) fn poll(&self, id: WaiterId, context: &Context<'_>) -> Poll<Result<Ticket, Denial>> {
        self.poll_with(id, None, context)
    }

    /// What became of a waiter that has left no waker.
    pub(super) fn poll_first(
        &self,
        id: WaiterId,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, Denial>> {
        self.poll_with(id, Some(context.waker().clone()), context)
    }

    fn poll_with(
        &self,
        id: WaiterId,
        waker: Option<Waker>,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, Denial>> {
        let parked = |state: &State| wakes(state.machine.parked(id), context);
        self.wait(waker, context, parked, |state, waker| state.machine.poll(id, waker))
    }

    /// Takes back the waker that [`poll`](Self::poll) has left.
    pub(super) fn unpark(&self, id: WaiterId) {
        let parked = self.lock().machine.unpark(id);
        discard(parked);
    }

    /// Waits until it is known as what the store has the lease of this hold.
    pub(super) fn poll_settled(&self, hold: HoldId, context: &Context<'_>) -> Poll<()> {
        self.poll_news(context, |state| (!state.machine.is_converting(hold)).then_some(()))
    }

    /// Waits until the store has this part of a lease of permits back, or a holder of this process has it. `false`
    /// if the lease ended before.
    pub(super) fn poll_back(&self, part: &Part, context: &Context<'_>) -> Poll<bool> {
        self.poll_news(context, |state| state.machine.is_back(part))
    }

    /// Waits until none of these is on its way back to the store.
    pub(crate) fn poll_returned(&self, parts: &[Return], context: &Context<'_>) -> Poll<()> {
        self.poll_news(context, |state| {
            parts.iter().all(|part| state.machine.is_returned(part)).then_some(())
        })
    }

    /// Looks after every event.
    fn poll_news<R>(&self, context: &Context<'_>, look: impl Fn(&State) -> Option<R>) -> Poll<R> {
        let parked = |state: &State| state.settling.iter().any(|waker| wakes(Some(waker), context));
        self.wait(None, context, parked, |state, waker| {
            let outcome = look(state);
            if outcome.is_none() {
                state.settling.extend(waker.take());
            }
            outcome
        })
    }

    /// Asks for an outcome; leaves the waker of the task if there is none.
    ///
    /// `ask` leaves the waker that it is given, and returns the former one in its place. `parked` says whether
    /// the waker of the task is there already.
    fn wait<R>(
        &self,
        mut waker: Option<Waker>,
        context: &Context<'_>,
        parked: impl Fn(&State) -> bool,
        ask: impl Fn(&mut State, &mut Option<Waker>) -> Option<R>,
    ) -> Poll<R> {
        let outcome = loop {
            let brought = waker.is_some();
            let mut state = self.lock();
            if let Some(outcome) = ask(&mut state, &mut waker) {
                break Poll::Ready(outcome);
            }
            if brought || parked(&state) {
                break Poll::Pending;
            }
            drop(state);
            waker = Some(context.waker().clone());
        };
        discard(waker);
        outcome
    }
}

fn wakes(parked: Option<&Waker>, context: &Context<'_>) -> bool {
    parked.is_some_and(|parked| parked.will_wake(context.waker()))
}
