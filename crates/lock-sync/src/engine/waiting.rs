//! How tasks leave their wakers with an entry.
//!
//! Cloning or dropping a waker runs foreign code, which must not run under the lock: see [`foreign`](crate::foreign).
//! So a task clones its waker, and drops the one that it left before, while the entry is unlocked.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use lock_core::{Error, Instant, Mode};

use super::machine::{Entrance, Return};
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
    ) -> (Entrance, bool) {
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
                break Entrance::Queued(id);
            } else {
                break self.enter_locked(state, want, patience, manner, &mut waker);
            }
        };
        let waits = !matches!(entered, Entrance::Done(_));
        if waits != crowded {
            self.crowded.store(waits, Ordering::Relaxed);
        }
        let parked = brought && waker.is_none();
        discard(waker);
        (entered, parked)
    }

    /// The way to the back of the line for a caller whose lease was over before it began this hold.
    pub(super) fn come_again(
        self: &Arc<Self>,
        hold: HoldId,
        want: Mode,
        patience: Patience,
        manner: Manner,
    ) -> Entrance {
        self.event_locked(self.lock(), |state| {
            state.machine.release(hold, manner);
            state.machine.settle();
            state.machine.enter(want, patience, manner)
        })
    }

    /// The way to the lock for a caller that leaves no waker.
    pub(super) fn enter(
        self: &Arc<Self>,
        want: Mode,
        patience: Patience,
        manner: Manner,
    ) -> Entrance {
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
    ) -> Entrance {
        self.event_locked(state, |state| {
            let entered = state.machine.enter(want, patience, manner);
            if let (Entrance::Attempt(id, _) | Entrance::Queued(id), Some(_)) = (&entered, &waker) {
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

    /// Waits until the store has answered a request to make the lease of this hold weaker.
    pub(super) fn weakened(&self, hold: HoldId) -> impl Future<Output = ()> {
        self.news(move |state| (!state.machine.is_weakening(hold)).then_some(()))
    }

    /// Waits until the lease of this hold lasts until this instant, or the hold is over.
    pub(super) fn extended(&self, hold: HoldId, until: Instant) -> impl Future<Output = ()> {
        self.news(move |state| state.machine.lasts(hold, until).then_some(()))
    }

    /// Waits until this hold needs to wait for a token no longer: see
    /// [`Machine::begin_write`](super::machine::Machine::begin_write).
    pub(super) fn token(&self, hold: HoldId) -> impl Future<Output = ()> {
        self.news(move |state| (!state.machine.wants_token(hold)).then_some(()))
    }

    /// Waits until none of these is going back to the store: see
    /// [`Machine::returned`](super::machine::Machine::returned).
    pub(crate) fn returned(
        &self,
        parts: Vec<Return>,
    ) -> impl Future<Output = Result<(), Error>> + Unpin {
        self.news(move |state| state.machine.returned(&parts))
    }

    fn news<R, L: Fn(&State) -> Option<R>>(&self, look: L) -> News<'_, L> {
        News { entry: self, number: None, look }
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
        mut ask: impl FnMut(&mut State, &mut Option<Waker>) -> Option<R>,
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

/// Resolves with an outcome that any event may bring.
struct News<'a, L> {
    entry: &'a Entry,
    /// The number of the waker in the entry, once there has been one.
    number: Option<u64>,
    look: L,
}

impl<R, L: Fn(&State) -> Option<R> + Unpin> Future for News<'_, L> {
    type Output = R;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<R> {
        let Self { entry, number, look } = self.get_mut();
        let own = Cell::new(*number);
        let parked = |state: &State| state.news.has(own.get(), context);
        let polled = entry.wait(None, context, parked, |state, waker| {
            let outcome = look(state);
            if outcome.is_none()
                && let Some(fresh) = waker.take()
            {
                let (number, former) = state.news.park(own.get(), fresh);
                own.set(Some(number));
                *waker = former;
            }
            outcome
        });
        *number = own.get();
        polled
    }
}

impl<L> Drop for News<'_, L> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // The machine hears nothing, so the gate may stay open.
            let waker = self.entry.lock_beside_gate().news.remove(number);
            discard(waker);
        }
    }
}

fn wakes(parked: Option<&Waker>, context: &Context<'_>) -> bool {
    parked.is_some_and(|parked| parked.will_wake(context.waker()))
}
