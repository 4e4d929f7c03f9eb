//! One key of one process: the machine behind an ordinary lock, and what carries out its pass.

mod acquiring;
mod answers;
mod command;
mod driver;
mod ears;
mod forget;
mod hold;
mod holds;
#[cfg(test)]
mod interleavings;
mod lease;
mod machine;
#[cfg(test)]
mod modes;
mod parked;
mod queue;
mod running;
mod shared;
#[cfg(test)]
mod tests;
mod together;
mod tokens;
mod upgrading;
mod waiting;
mod watching;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;

use lock_core::{Claim, Error, Hint, Key, Mode, OwnerToken};
use tokio::runtime::Handle;

pub(crate) use acquiring::{Acquiring, Wait};
pub(crate) use command::Command;
use driver::Flight;
pub(crate) use hold::Hold;
pub(crate) use holds::HoldId;
pub(crate) use lease::{Lease, Losing};
pub(crate) use machine::{BACKOFF, Denial, Manner, Return, Ticket};
pub(crate) use queue::Patience;
pub(crate) use running::{Home, Running};
pub(crate) use shared::{Choices, Shared};
pub(crate) use together::{Gathering, Together};
pub(crate) use upgrading::Upgrading;

use machine::{Deadline, Machine, Op, Pass, Rest, Urgency};

use crate::foreign::{discard, survive, wake};
use parked::Parked;
use queue::WaiterId;
use watching::WatchTask;

/// One key, shared by every primitive of this process that has it.
pub(crate) struct Entry {
    shared: Arc<Shared>,
    key: Key,
    /// The group that holds the key jointly by this entry, if it is one's.
    group: Option<OwnerToken>,
    state: Mutex<State>,
    /// Somebody elsewhere wants the lock. Tasks that pass it on among themselves can keep the driver from
    /// the state for long, but not from this.
    wanted: AtomicBool,
    /// Whether the last task that came had to wait: the next brings its waker along.
    crowded: AtomicBool,
}

struct State {
    machine: Machine<Waker>,
    /// When the driver is going to call [`Entry::tick`].
    armed: Option<Deadline>,
    /// Whether a release is on its way to the driver.
    release_queued: bool,
    /// Releases that were sent by the tasks that let go.
    parked: Vec<Weak<Parked>>,
    /// Those who wait until it is known what a lease has become. They look after every event.
    settling: Vec<Waker>,
    /// Keeps the entry, and a shutdown waiting, while a release has to be tried again.
    retrying: Option<(Arc<Entry>, Flight)>,
    watch: WatchTask,
}

impl Entry {
    pub(crate) fn new(shared: Arc<Shared>, key: Key, group: Option<OwnerToken>) -> Self {
        let machine =
            Machine::new(key.clone(), shared.policy.clone(), shared.clock, OwnerToken::generate);
        Self {
            shared,
            key,
            group,
            wanted: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            state: Mutex::new(State {
                machine,
                armed: None,
                release_queued: false,
                parked: Vec::new(),
                settling: Vec::new(),
                retrying: None,
                watch: WatchTask::default(),
            }),
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Whether the lease is kept although no guard of this process holds the lock.
    pub(crate) fn is_cached(&self) -> bool {
        self.lock().machine.is_cached()
    }

    /// Whether some guard of this process holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().machine.is_held()
    }

    // ---- What tasks do ----

    /// The short way to those who read already, if there is one: see [`Machine::share`].
    fn share(&self, manner: Manner) -> Option<Ticket> {
        if self.wanted.load(Ordering::Acquire) {
            return None;
        }
        // Not under the lock, for which many readers come.
        let now = self.shared.clock.now();
        self.lock().machine.share(now, manner)
    }

    /// The short way out, if there is one: see [`Machine::unshare`] and [`Machine::linger`].
    fn unshare(&self, hold: HoldId, manner: Manner) -> bool {
        let mut state = self.lock();
        if state.machine.unshare(hold) {
            return true;
        }
        let Some(armed) = state.armed else { return false };
        !self.wanted.load(Ordering::Relaxed) && state.machine.linger(hold, manner, armed.at)
    }

    fn cancel(self: &Arc<Self>, id: WaiterId, manner: Manner) {
        self.event(|machine, pass| machine.cancel(id, manner, pass));
    }

    /// Gives a hold up; the driver releases what must be released.
    ///
    /// If others wait elsewhere, the release leaves from this very thread, so that they do not wait for
    /// the driver to wake up.
    fn release(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        if self.pass_on(hold, manner) {
            return;
        }
        let urgent = self.event(|machine, pass| {
            machine.release(hold, manner, pass);
            let urgent = machine.due_release() == Some(Urgency::Now);
            if !urgent || self.shared.home == Home::Driver || Handle::try_current().is_err() {
                return None;
            }
            // Under way from here on, for those who wait for that at a shutdown.
            let ending = machine.begin_release()?;
            Some(Running::release(self, ending, Home::Driver))
        });
        if let Some(parked) = urgent.and_then(Parked::send) {
            let mut state = self.lock();
            state.parked.retain(|parked| parked.strong_count() > 0);
            state.parked.push(Arc::downgrade(&parked));
        }
    }

    /// Gives a hold up; what must be released is the caller's to release.
    ///
    /// `None` if it is not known yet as what the store has the lease: see [`poll_settled`](Self::poll_settled).
    fn release_here(self: &Arc<Self>, hold: HoldId, manner: Manner) -> Option<Rest> {
        self.event(|machine, pass| {
            let known = !machine.is_converting(hold);
            known.then(|| machine.release_promptly(hold, manner, pass))
        })
    }

    fn downgrade(self: &Arc<Self>, hold: HoldId, to: Mode) {
        self.event(|machine, pass| machine.downgrade(hold, to, pass));
    }

    fn split(&self, hold: HoldId, part: u32) -> Option<HoldId> {
        self.lock().machine.split(hold, part)
    }

    fn forget(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        self.event(|machine, pass| machine.forget(hold, manner, pass));
    }

    fn claim(&self, hold: HoldId) -> Option<Claim> {
        self.lock().machine.claim(hold).cloned()
    }

    fn begin_upgrade(
        self: &Arc<Self>,
        hold: HoldId,
        patience: Patience,
    ) -> Result<WaiterId, Denial> {
        self.event(|machine, pass| machine.begin_upgrade(hold, patience, pass))
    }

    fn abandon_upgrade(self: &Arc<Self>, id: WaiterId) {
        self.event(|machine, pass| machine.abandon_upgrade(id, pass));
    }

    /// Begins to give back what only lingers here. Returns what the store has to hear of before it can answer a
    /// query about the key: see [`poll_returned`](Self::poll_returned).
    pub(crate) fn give_back_all(self: &Arc<Self>) -> Vec<Return> {
        self.event(|machine, pass| machine.give_back_all(pass))
    }

    /// Something has changed that the store may not say: whoever waits asks again.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.event(|machine, pass| machine.hint(Hint::Released, pass));
    }

    pub(crate) fn close(self: &Arc<Self>) {
        self.event(|machine, pass| machine.close(pass));
    }

    /// The driver has gone, with everything that it had in hand.
    pub(crate) fn stop(self: &Arc<Self>, error: &Error) {
        self.event(|machine, pass| machine.stop(error, pass));
    }

    // ---- What the driver does ----

    pub(crate) fn tick(self: &Arc<Self>) {
        self.event_in(|state, pass| {
            state.armed = None;
            state.machine.tick(pass);
        });
        // A store that has not answered by now may never do so; the driver sets it a limit.
        let parked = std::mem::take(&mut self.lock().parked);
        parked.iter().filter_map(Weak::upgrade).for_each(|parked| parked.go_on());
    }

    /// Takes over the releases that the machine has asked for, as far as it still wants them.
    pub(crate) fn begin_releases(self: &Arc<Self>) -> Vec<Running> {
        let mut endings = Vec::new();
        {
            let mut state = self.lock();
            state.release_queued = false;
            while let Some(ending) = state.machine.begin_release() {
                endings.push(ending);
            }
        }
        let begin = |ending| Running::release(self, ending, Home::Driver);
        endings.into_iter().map(begin).collect()
    }

    // ---- How ----

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event<R>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut Machine<Waker>, &mut Pass<Waker>) -> R,
    ) -> R {
        self.event_in(|state, pass| event(&mut state.machine, pass))
    }

    /// Feeds one event to the machine and carries out what it asks for.
    ///
    /// The event runs under the lock, and code of others after it: wakers, and subscribers to traces. None of
    /// them panics through this, which is called by drops.
    fn event_in<R>(self: &Arc<Self>, event: impl FnOnce(&mut State, &mut Pass<Waker>) -> R) -> R {
        let mut state = self.lock();
        // Read under the lock, so that time does not go backwards from one event to the next.
        let mut pass = Pass::at(self.shared.clock.now());
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::AcqRel) {
            state.machine.hint(Hint::Wanted, &mut pass);
        }
        let result = event(&mut state, &mut pass);
        let mut commands: Vec<_> =
            pass.requests().filter_map(|op| self.command(&mut state, op)).collect();
        if state.machine.due_release().is_some()
            && !std::mem::replace(&mut state.release_queued, true)
        {
            commands.push(Command::Release(Arc::clone(self), self.shared.flights.begin()));
        }
        self.arm(&mut state);
        let done = self.keep_while_retrying(&mut state);
        let watch = state.watch.take_stopped();
        let settling = std::mem::take(&mut state.settling);
        drop(state);
        if let Some(watch) = watch {
            watch.abort();
        }
        // A driver that is gone answers at once.
        for command in commands {
            self.shared.send(command);
        }
        pass.wake_all(wake, |loss| {
            survive(|| tracing::warn!(key = %self.key, reason = %loss, "a lease was lost"));
        });
        settling.into_iter().for_each(wake);
        pass.dropped().into_iter().for_each(|waker| discard(Some(waker)));
        drop(done);
        result
    }

    /// Keeps the entry for as long as a release has to be tried again. Returns what kept it until now.
    fn keep_while_retrying(self: &Arc<Self>, state: &mut State) -> Option<(Arc<Self>, Flight)> {
        match (state.machine.is_retrying(), &state.retrying) {
            (true, None) => {
                state.retrying = Some((Arc::clone(self), self.shared.flights.begin()));
                None
            }
            (false, Some(_)) => state.retrying.take(),
            _ => None,
        }
    }

    /// What the driver must be told. The order in which it hears of things does not matter: a release
    /// and a watch are looked up again when their turn comes, and every other command stands alone.
    fn command(self: &Arc<Self>, state: &mut State, op: Op) -> Option<Command> {
        Some(match op {
            Op::Attempt(request) => Command::Run(Running::attempt(self, request, Home::Driver)),
            Op::Convert(request, limit) => Command::Run(Running::convert(self, request, limit)),
            Op::Renew(request, limit) => Command::Run(Running::renew(self, request, limit)),
            Op::Forget(claim) => {
                Command::Forget(Arc::clone(&self.shared), claim, self.shared.flights.begin())
            }
            Op::Watch => Command::Watch(Arc::clone(self), state.watch.begin()),
            Op::Unwatch => {
                state.watch.stop();
                return None;
            }
        })
    }

    /// Sees to it that the driver calls in time. A call too early does no harm, so a deadline that
    /// moves away costs nothing.
    fn arm(self: &Arc<Self>, state: &mut State) {
        if let Some(deadline) = state.machine.next_deadline()
            && state.armed.is_none_or(|armed| deadline.at < armed.at)
        {
            self.shared.timers.arm(self, state.armed.replace(deadline), deadline);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let id = std::ptr::from_ref(self).addr();
        let Self { shared, key, group, state, .. } = self;
        let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(armed) = state.armed {
            shared.timers.disarm(id, armed);
        }
        state.watch.abort();
        for claim in state.machine.left_behind().cloned() {
            let flight = shared.flights.begin();
            shared.send(Command::Forget(Arc::clone(shared), claim, flight));
        }
        shared.forget(key, *group);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}
