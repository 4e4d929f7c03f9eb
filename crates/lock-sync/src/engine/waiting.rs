//! How tasks leave their wakers with an entry.
//!
//! Cloning or dropping a waker runs foreign code, which must not run under the lock: see [`foreign`](crate::foreign).
//! So a task clones its waker, and drops the one that it left before, while the entry is unlocked.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lock_core::{Error, Instant, Mode};

use super::machine::{Entered, Return};
use super::manner::Manner;
use super::queue::{Patience, WaiterId};
use super::{Denial, Entry, HoldId, State, Ticket};
use crate::foreign::discard;
use crate::sync::MutexGuard;
use crate::sync::atomic::Ordering;

impl Entry {
    /// The way into the line, or to the lock at once. Also returns whether the waiter has left the waker of its task.
    pub(super) fn come(
        self: &Arc<Self>,
        want: Mode,
        patience: Patience,
        manner: Manner,
        context: &Context<'_>,
    ) -> (Entered, bool) {
        // If the last task that came had to wait, this task probably waits as well.
        let crowded = self.crowded.load(Ordering::Relaxed);
        let mut waker = crowded.then(|| context.waker().clone());
        let mut brought = crowded;
        let joins = patience == Patience::Forever;
        let entered = loop {
            let mut state = self.lock();
            if joins && !brought && state.machine.may_join(want) {
                drop(state);
                waker = Some(context.waker().clone());
                brought = true;
            } else if joins && let Some(id) = state.machine.join(want, &mut waker) {
                break Entered::Queued(id);
            } else {
                break self.enter_locked(state, want, patience, manner, &mut waker);
            }
        };
        let waits = !matches!(entered, Entered::Done(_));
        if waits != crowded {
            self.crowded.store(waits, Ordering::Relaxed);
        }
        let parked = brought && waker.is_none();
        discard(waker);
        (entered, parked)
    }

    /// The way back into the line for a caller whose lease was over before it began this hold.
    pub(super) fn come_again(
        self: &Arc<Self>,
        hold: HoldId,
        want: Mode,
        patience: Patience,
        manner: Manner,
    ) -> Entered {
        self.event_locked(self.lock(), |state| {
            state.machine.enter_again(hold, want, patience, manner)
        })
    }

    /// The way to the lock for a caller that leaves no waker.
    pub(super) fn enter(
        self: &Arc<Self>,
        want: Mode,
        patience: Patience,
        manner: Manner,
    ) -> Entered {
        self.enter_locked(self.lock(), want, patience, manner, &mut None)
    }

    /// The waiter leaves this waker, if there is one.
    fn enter_locked(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        want: Mode,
        patience: Patience,
        manner: Manner,
        waker: &mut Option<Waker>,
    ) -> Entered {
        self.event_locked(state, |state| {
            let entered = state.machine.enter(want, patience, manner);
            if let (Entered::Attempt(id, _) | Entered::Queued(id), Some(_)) = (&entered, &waker) {
                state.machine.poll(*id, waker);
            }
            entered
        })
    }

    /// The outcome of a waiter that may have left this waker before.
    #[inline]
    pub(super) fn poll(&self, id: WaiterId, context: &Context<'_>) -> Poll<Result<Ticket, Denial>> {
        self.poll_with(id, None, context)
    }

    /// The outcome of a waiter that has left no waker.
    pub(super) fn poll_first(
        &self,
        id: WaiterId,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, Denial>> {
        self.poll_with(id, Some(context.waker().clone()), context)
    }

    #[inline]
    fn poll_with(
        &self,
        id: WaiterId,
        waker: Option<Waker>,
        context: &Context<'_>,
    ) -> Poll<Result<Ticket, Denial>> {
        let parked = |state: &State| wakes(state.machine.parked(id), context);
        self.wait(waker, context, parked, |state, waker| state.machine.poll(id, waker))
    }

    /// Waits until the mode of this hold's lease in the store is known.
    pub(super) fn poll_settled(&self, hold: HoldId, context: &Context<'_>) -> Poll<()> {
        self.poll_news(context, |state| (!state.machine.is_converting(hold)).then_some(()))
    }

    /// Waits until the lease of this hold lasts until this instant, or the hold is over.
    pub(super) fn poll_extended(
        &self,
        hold: HoldId,
        until: Instant,
        context: &Context<'_>,
    ) -> Poll<()> {
        self.poll_news(context, |state| state.machine.lasts(hold, until).then_some(()))
    }

    /// Waits until this hold needs to wait for a token no longer: see
    /// [`Machine::want_token`](super::machine::Machine::want_token).
    pub(super) fn poll_token(&self, hold: HoldId, context: &Context<'_>) -> Poll<()> {
        self.poll_news(context, |state| (!state.machine.wants_token(hold)).then_some(()))
    }

    /// Waits until none of these is going back to the store: see
    /// [`Machine::returned`](super::machine::Machine::returned).
    pub(crate) fn poll_returned(
        &self,
        parts: &[Return],
        context: &Context<'_>,
    ) -> Poll<Result<(), Error>> {
        self.poll_news(context, |state| state.machine.returned(parts))
    }

    /// Polls for an outcome that any event may bring.
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

    /// Asks for an outcome. If there is none, leaves the waker of the task.
    ///
    /// `ask` leaves the waker that it is given, and puts the former one in its place. `parked` says whether the entry
    /// already has the waker of the task.
    #[inline]
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
