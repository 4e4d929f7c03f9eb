//! How tasks leave their wakers with an entry.
//!
//! To clone or to drop a waker is code of others: see [`foreign`](crate::foreign). So a task brings its waker along
//! or comes back with it, and takes away the one that it left before.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use lock_core::{Attempt, Claim, Error, Mode};

use super::machine::{Entered, Manner, Part, Return};
use super::queue::{Patience, WaiterId};
use super::{Denial, Entry, HoldId, State, Ticket};
use crate::foreign::{discard, wake};

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

    /// A waiter leaves this waker, if there is one.
    pub(super) fn enter(
        self: &Arc<Self>,
        want: Mode,
        patience: Patience,
        manner: Manner,
        waker: &mut Option<Waker>,
    ) -> Entered {
        self.event(|machine, pass| {
            let entered = machine.enter(want, patience, manner, pass);
            if let (Entered::Attempt(id, _) | Entered::Queued(id), Some(_)) = (&entered, &waker) {
                machine.poll(*id, waker);
            }
            entered
        })
    }

    /// The short way to the next waiter, if there is one: see [`Machine::pass_on`].
    pub(super) fn pass_on(&self, hold: HoldId, manner: Manner) -> bool {
        let mut state = self.lock();
        if self.wanted.load(Ordering::Relaxed) || !state.settling.is_empty() {
            return false;
        }
        let Some(waker) = state.machine.pass_on(hold, self.shared.clock.now(), manner) else {
            return false;
        };
        drop(state);
        if let Some(waker) = waker {
            wake(waker);
        }
        true
    }

    /// The long way to the lock. Returns as well whether the waiter has left the waker of its task.
    pub(super) fn come(
        self: &Arc<Self>,
        want: Mode,
        patience: Patience,
        manner: Manner,
        context: &Context<'_>,
    ) -> (Entered, bool) {
        let crowded = self.crowded.load(Ordering::Relaxed);
        let mut waker = crowded.then(|| context.waker().clone());
        let entered = self.enter(want, patience, manner, &mut waker);
        let parked = crowded && waker.is_none();
        let waits = !matches!(entered, Entered::Done(_));
        if waits != crowded {
            self.crowded.store(waits, Ordering::Relaxed);
        }
        discard(waker);
        (entered, parked)
    }

    /// The store has answered to the request of this waiter, whose task asks what became of it.
    ///
    /// The task is not woken: it would lose its turn, since this very task is polled now.
    pub(super) fn answered(
        self: &Arc<Self>,
        id: WaiterId,
        claim: &Claim,
        result: Result<Attempt, Error>,
    ) -> Option<Result<Ticket, Denial>> {
        self.event(|machine, pass| {
            pass.discard(machine.unpark(id));
            machine.attempt_done(claim, result, pass);
            machine.take(id)
        })
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
