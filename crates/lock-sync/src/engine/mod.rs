//! The entry of a key: the machine behind an ordinary lock, and the shell that carries out the passes of the machine.

mod acquiring;
mod closed;
mod command;
mod driven;
mod driver;
mod ears;
mod gate;
mod gathering;
mod hold;
mod holdings;
mod labels;
mod machine;
mod manner;
#[cfg(test)]
mod modes;
mod observed;
mod parked;
mod parting;
mod policy;
mod queue;
mod request;
mod right;
mod running;
mod sample;
mod shared;
mod sharing;
#[cfg(test)]
mod tests;
mod timing;
mod together;
mod tokens;
mod turn;
mod upgrading;
mod validity;
mod verb;
mod view;
mod waiting;
mod watch_task;
mod withdraw;

use std::fmt;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Waker;

use lock_core::{Claim, Error, Hint, Instant, Key, OwnerToken};
use tokio::runtime::Handle;

pub(crate) use acquiring::{Acquiring, completed};
pub(crate) use closed::{ClosedForAll, Known};
use driver::Flight;
pub(crate) use ears::fit_to_listen;
pub(crate) use gathering::Gathering;
pub(crate) use hold::Hold;
pub(crate) use holdings::HoldId;
pub(crate) use labels::Labels;
pub(crate) use machine::{Denial, Return, Ticket, Write};
pub(crate) use manner::Manner;
pub(crate) use policy::Policy;
pub(crate) use queue::Patience;
pub(crate) use running::Asks;
pub(crate) use sample::Sampling;
pub(crate) use shared::{Choices, Home, Keyed, Wait};
pub(crate) use timing::BACKOFF;
pub(crate) use upgrading::Upgrading;
pub(crate) use view::HoldView;

use machine::{AcquireAnswer, Deadline, Fact, Machine, Op, Rest};

use crate::foreign::{Wakers, discard, survive, wake};
#[cfg(test)]
use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, now, owner};
use gate::Gate;
use observed::Observed;
use parked::Parked;
use parting::Parting;
use queue::WaiterId;
use validity::Validity;
use watch_task::WatchTask;

pub(crate) type Shared = shared::Shared<Entry>;
pub(crate) type Command = command::Command<Entry>;
pub(crate) type Running = running::Running<Entry>;

/// One key with one group and one policy, shared by all primitives of one [`Locks`](crate::Locks) that use these.
pub(crate) struct Entry {
    shared: Arc<Shared>,
    key: Key,
    /// The group that holds the key jointly through this entry. `None` for the entry of all other holders.
    group: Option<OwnerToken>,
    policy: Policy,
    gate: Gate,
    state: Mutex<State>,
    /// `None` without observers.
    observed: Option<Box<Observed>>,
    /// Whether another process wants the lock. Tasks that pass the lock on among themselves can keep the driver
    /// from locking the state for long. The driver can set this flag at any time.
    wanted: AtomicBool,
    parting: Parting,
    /// How often a call has locked the state.
    #[cfg(test)]
    locked: AtomicU32,
    /// Whether the last task that came had to wait. If so, the next task brings its waker along.
    crowded: AtomicBool,
}

struct State {
    machine: Machine<Waker>,
    /// When the driver is going to call [`Entry::tick`].
    armed: Option<Deadline>,
    /// Whether a release is on its way to the driver.
    release_queued: bool,
    /// Releases that were sent from the threads of the holders.
    parked: Vec<Weak<Parked<Entry>>>,
    /// The wakers of tasks that wait for news of a lease, for example the outcome of a conversion. Every event
    /// wakes them, and each task looks again.
    news: Wakers,
    /// Keeps the entry alive and makes a shutdown wait, while a release has to wait and no guard keeps the entry alive.
    awaiting_release: Option<(Arc<Entry>, Flight)>,
    watch: WatchTask,
}

/// What a holder hands over when it lets go.
struct Exit<'a> {
    hold: HoldId,
    /// The reference of the holder to its lease. The next holder of this process may take it over.
    lease: &'a mut Option<Arc<Validity>>,
    manner: Manner,
    /// The time, if the caller has just read it.
    now: Option<Instant>,
}

impl State {
    /// The instant of the next tick.
    fn armed_at(&self) -> Instant {
        self.armed.map_or(Instant::FAR_FUTURE, |armed| armed.at)
    }
}

impl Entry {
    /// Whether the lease is kept although no guard of this process holds the lock.
    pub(crate) fn is_cached(&self) -> bool {
        self.lock().machine.is_cached()
    }

    /// Whether some guard of this process holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.lock().machine.is_held()
    }

    // ---- What tasks do ----

    /// The short ways out: see [`Machine::unshare`] and [`Machine::pass_on`]. `None` if none was taken. Otherwise the
    /// waker of the waiter that has the hold now, if there is such a waiter and it has left one.
    fn leave(self: &Arc<Self>, state: &mut State, exit: &mut Exit<'_>) -> Option<Option<Waker>> {
        if self.wanted.load(Ordering::Relaxed) || !state.news.is_empty() {
            return None;
        }
        let armed = state.armed_at();
        if state.machine.unshare(exit.hold, exit.manner, armed) {
            return Some(None);
        }
        let (now, clock) = (exit.now, self.shared.clock);
        let look = || now.unwrap_or_else(|| crate::sync::now(clock));
        let passed = state.machine.pass_on(exit.hold, exit.lease, look, exit.manner);
        self.arm(state);
        passed
    }

    fn cancel(self: &Arc<Self>, id: WaiterId, manner: Manner) {
        drop(self.event(|machine| machine.cancel(id, manner)));
    }

    /// Gives a hold up; the driver releases what must be released.
    ///
    /// If another process waits for the lock, the release leaves from this thread, so that the other process does
    /// not wait for the driver to wake up.
    fn release(self: &Arc<Self>, exit: Exit<'_>) {
        self.release_locked(self.lock(), exit);
    }

    fn release_locked(self: &Arc<Self>, mut state: MutexGuard<'_, State>, mut exit: Exit<'_>) {
        if let Some(next) = self.leave(&mut state, &mut exit) {
            drop(state);
            return next.into_iter().for_each(wake);
        }
        self.let_go(state, |machine| {
            machine.release(exit.hold, exit.manner);
        });
    }

    /// A holder lets go, and the entry releases what must be released.
    fn let_go(
        self: &Arc<Self>,
        state: MutexGuard<'_, State>,
        event: impl FnOnce(&mut Machine<Waker>),
    ) {
        let urgent = self.event_locked(state, |State { machine, .. }| {
            event(machine);
            machine.settle();
            let urgent = machine.due_release() == Some(true);
            if !urgent || self.shared.home == Home::Driver || Handle::try_current().is_err() {
                return None;
            }
            // From here on a shutdown waits for this release.
            let ending = machine.begin_release()?;
            Some(Running::release(self, ending, Home::Driver))
        });
        if let Some(parked) = urgent.and_then(Parked::send) {
            let mut state = self.lock();
            state.parked.retain(|parked| parked.strong_count() > 0);
            state.parked.push(Arc::downgrade(&parked));
        }
    }

    /// Gives a hold up. The caller carries out the release, if one is needed.
    ///
    /// `None` while a request to make the lease weaker is under way: see [`weakened`](Self::weakened).
    fn release_here(self: &Arc<Self>, hold: HoldId, manner: Manner) -> Option<Rest> {
        self.event_locked(self.lock(), |State { machine, .. }| {
            if machine.is_weakening(hold) {
                return None;
            }
            let rest = machine.release_promptly(hold, manner);
            if let Rest::Lease(ending) = &rest
                && machine.parts_alone()
            {
                self.parting.begin(ending.claim.owner);
            }
            Some(rest)
        })
    }

    /// Begins to give back the leases and permits that no holder uses. Returns those that the store must have back
    /// before it can answer a query about the key: see [`returned`](Self::returned).
    pub(crate) fn give_back_all(self: &Arc<Self>) -> Vec<Return> {
        self.event(|machine| machine.give_back_all())
    }

    /// Something has changed of which the store may send no hint: the waiting claims ask again.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.event(|machine| machine.hint(Hint::Released));
    }

    /// Wakes the waiters, so that each looks at its own handle.
    pub(crate) fn rouse(self: &Arc<Self>) {
        self.event(Machine::rouse);
    }

    // ---- How ----

    /// Locks the state, and closes the gate.
    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock_beside_gate();
        self.close_gate(&mut state);
        state
    }

    /// Locks the state, and leaves the gate as it is. The gate neither opens nor closes while the state is locked,
    /// unless the party that locked it does so.
    fn lock_beside_gate(&self) -> MutexGuard<'_, State> {
        #[cfg(test)]
        self.locked.fetch_add(1, Ordering::Relaxed);
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close_gate(&self, state: &mut State) {
        if let Some((inside, last)) = self.gate.close() {
            state.machine.closed_gate(inside, last);
        }
        if self.parting.look() {
            state.machine.came_back();
        }
    }

    /// Feeds one event to the machine and carries out what it asks for.
    ///
    /// The event runs under the lock, and settles the machine. Foreign code, which is wakers and subscribers to traces,
    /// runs after the lock is released. Drops call this function, so a panic of foreign code does not get through it.
    fn event_locked<R>(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        event: impl FnOnce(&mut State) -> R,
    ) -> R {
        // Read under the lock, so that time does not go backwards from one event to the next.
        state.machine.begin(now(self.shared.clock));
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::AcqRel) {
            state.machine.hint(Hint::Contended);
        }
        let result = event(&mut state);
        let mut pass = state.machine.end();
        let mut commands: Vec<_> =
            pass.requests().filter_map(|op| self.command(&mut state, op)).collect();
        if state.machine.due_release().is_some()
            && !std::mem::replace(&mut state.release_queued, true)
        {
            commands.push(Command::Release(Arc::clone(self), self.shared.flights.begin()));
        }
        self.arm(&mut state);
        let done = self.keep_for_release(&mut state);
        let watch = state.watch.take_stopped();
        let news = state.news.take();
        drop(state);
        if let Some(watch) = watch {
            watch.abort();
        }
        // Not under the lock: a driver that is gone answers at once.
        for command in commands {
            self.shared.send(command);
        }
        pass.wake_all(wake, |fact, now| self.report(fact, now));
        news.for_each(wake);
        pass.dropped.into_iter().for_each(|waker| discard(Some(waker)));
        pass.errors.into_iter().for_each(|error| survive(|| drop(error)));
        drop(done);
        result
    }

    /// Reports a fact to the log and to the observers.
    fn report(&self, fact: &Fact, now: Instant) {
        if let Fact::Lost { loss, .. } = fact {
            survive(|| tracing::warn!(key = %self.key, reason = %loss, "a lease was lost"));
        }
        if let Some(observed) = &self.observed {
            observed.tell(fact, now);
        }
    }

    /// Keeps the entry alive for as long as a release has to wait and no guard keeps the entry alive. Returns what kept
    /// the entry alive until now.
    fn keep_for_release(self: &Arc<Self>, state: &mut State) -> Option<(Arc<Self>, Flight)> {
        match (state.machine.release_waits(), &state.awaiting_release) {
            (true, None) => {
                state.awaiting_release = Some((Arc::clone(self), self.shared.flights.begin()));
                None
            }
            (false, Some(_)) => state.awaiting_release.take(),
            _ => None,
        }
    }

    /// The command for the driver, if this request needs one. The order of commands does not matter: the driver looks
    /// up a release and a watch again when their turn comes, and every other command stands alone.
    fn command(self: &Arc<Self>, state: &mut State, op: Op) -> Option<Command> {
        Some(match op {
            Op::Attempt(request) => Command::Run(Running::attempt(self, request, Home::Driver)),
            Op::Convert(request, limit) => Command::Run(Running::convert(self, request, limit)),
            Op::Renew(request, limit) => Command::Run(Running::renew(self, request, limit)),
            Op::Withdraw(claim, other) => {
                let (shared, flight) = (Arc::clone(&self.shared), self.shared.flights.begin());
                Command::Withdraw(shared, claim, other, self.policy.ttl, flight)
            }
            Op::Watch => Command::Watch(Arc::clone(self), state.watch.begin()),
            Op::Unwatch => {
                state.watch.stop();
                return None;
            }
        })
    }

    /// Sees to it that the driver calls in time. An early call does no harm, so the timer stays as it is when the
    /// deadline moves to a later instant.
    fn arm(self: &Arc<Self>, state: &mut State) {
        if let Some(deadline) = state.machine.next
            && state.armed.is_none_or(|armed| deadline.at < armed.at)
        {
            self.shared.timers.arm(self, state.armed.replace(deadline), deadline);
        }
    }
}

impl Keyed for Entry {
    type Command = Command;

    fn new(shared: Arc<Shared>, key: Key, group: Option<OwnerToken>, policy: Policy) -> Self {
        let lease = Arc::new(Validity::new(shared.clock, Instant::from_nanos(0)));
        let machine = Machine::new(key.clone(), policy.clone(), Arc::clone(&lease), owner);
        let gate = Gate::new(lease);
        let observed = Observed::new(&shared, &key, policy.ttl.duration());
        Self {
            shared,
            observed,
            key,
            group,
            policy,
            wanted: AtomicBool::new(false),
            parting: Parting::new(),
            gate,
            #[cfg(test)]
            locked: AtomicU32::new(0),
            crowded: AtomicBool::new(false),
            state: Mutex::new(State {
                machine,
                armed: None,
                release_queued: false,
                parked: Vec::new(),
                news: Wakers::default(),
                awaiting_release: None,
                watch: WatchTask::default(),
            }),
        }
    }

    fn close(self: &Arc<Self>) {
        self.event(|machine| machine.close());
    }

    fn stop(self: &Arc<Self>, error: &Error) {
        self.event(|machine| machine.stop(error));
    }
}

impl Asks for Entry {
    fn key(&self) -> &Key {
        &self.key
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn policy(&self) -> &Policy {
        &self.policy
    }

    fn came_back(&self, owner: OwnerToken) -> bool {
        self.parting.end(owner)
    }

    fn event<R>(self: &Arc<Self>, event: impl FnOnce(&mut Machine<Waker>) -> R) -> R {
        self.event_locked(self.lock(), |state| {
            let result = event(&mut state.machine);
            state.machine.settle();
            result
        })
    }

    fn answered(
        self: &Arc<Self>,
        id: WaiterId,
        claim: &Claim,
        result: &AcquireAnswer,
    ) -> Option<Result<Ticket, Denial>> {
        // The task is not woken, because it is being polled now: a wake-up would cost it its turn.
        let (waker, outcome) = self.event_locked(self.lock(), |State { machine, .. }| {
            let waker = machine.unpark(id);
            machine.attempt_done(claim, result);
            machine.settle();
            (waker, machine.poll(id, &mut None))
        });
        discard(waker);
        outcome
    }
}

/// The entry goes with its last handle. If the process still keeps a lease without a holder, another entry takes
/// everything over, and lives until the store has the lease back. A new handle finds that entry by its name.
impl Drop for Entry {
    fn drop(&mut self) {
        let id = std::ptr::from_ref(self).addr();
        let Self { shared, key, group, policy, state, gate, .. } = self;
        let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((inside, last)) = gate.close() {
            state.machine.closed_gate(inside, last);
        }
        if let Some(armed) = state.armed.take() {
            shared.timers.disarm(id, armed);
        }
        state.watch.abort();
        // Without a driver, a lease that is left behind ends by itself.
        if !(state.machine.has_idle_lease() && shared.is_driven()) {
            return shared.deregister(key, *group, policy);
        }
        // A shutdown that begins now waits for these releases.
        let (shared, _flight) = (Arc::clone(shared), shared.flights.begin());
        let (key, group, policy) = (key.clone(), *group, policy.clone());
        let empty = Self::new(Arc::clone(&shared), key.clone(), group, policy.clone());
        let successor = Arc::new(std::mem::replace(self, empty));
        let named = shared.named_or(&key, group, &policy, || Arc::clone(&successor));
        let is_named = Arc::ptr_eq(&named, &successor);
        successor.event(|machine| machine.part(is_named));
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}
