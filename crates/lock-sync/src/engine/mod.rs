//! One key of one process: the machine behind an ordinary lock, and what carries out its effects.

mod acquiring;
mod hold;
#[cfg(test)]
mod interleavings;
mod lease;
mod machine;
#[cfg(test)]
mod modes;
mod parked;
mod queue;
mod running;
#[cfg(test)]
mod tests;
mod together;
mod upgrading;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use lock_core::{Attempt, Claim, Error, Hint, Instant, Key, Mode, OwnerToken, Released, Renewal};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

pub(crate) use acquiring::{Acquiring, Wait};
pub(crate) use hold::Hold;
pub(crate) use lease::Lease;
pub(crate) use machine::{Deadline, Denial, HoldId, Manner, Policy, Ticket, renewal_window};
pub(crate) use queue::Patience;
pub(crate) use running::{Home, Running};
pub(crate) use together::{Gathering, Together};
pub(crate) use upgrading::Upgrading;

use crate::driver::{Command, Flight};
use crate::locks::Shared;
use machine::{Effects, Ending, Entered, Machine, Op, Part};
use parked::Parked;
use queue::WaiterId;

/// One key, shared by every primitive of this process that has it.
pub(crate) struct Entry {
    shared: Arc<Shared>,
    key: Key,
    state: Mutex<State>,
    /// Somebody elsewhere wants the lock. Tasks that pass it on among themselves can keep the driver from
    /// the state for long, but not from this.
    wanted: AtomicBool,
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

/// What is left to be done when a hold has been given up.
#[expect(clippy::large_enum_variant, reason = "it is looked at once, where it was made")]
enum Rest {
    /// Others here go on with the lease.
    Nothing,
    /// The lease is to be released.
    Lease(Ending),
    /// Part of it is being given back.
    Part(Part),
}

impl State {
    fn await_settled(&mut self, context: &Context<'_>) {
        if !self.settling.iter().any(|waker| waker.will_wake(context.waker())) {
            self.settling.push(context.waker().clone());
        }
    }
}

/// The task that listens for hints. Events of an earlier one are told apart by their number.
#[derive(Default)]
struct WatchTask {
    number: u64,
    task: Option<AbortHandle>,
}

impl Entry {
    pub(crate) fn new(shared: Arc<Shared>, key: Key) -> Self {
        let machine =
            Machine::new(key.clone(), shared.policy.clone(), shared.clock, OwnerToken::generate);
        Self {
            shared,
            key,
            wanted: AtomicBool::new(false),
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

    /// The short way into the line, if there is one: see [`Machine::join`].
    fn join(&self, want: Mode, context: &Context<'_>) -> Option<WaiterId> {
        self.lock().machine.join(want, || context.waker().clone())
    }

    fn enter(self: &Arc<Self>, want: Mode, patience: Patience, manner: Manner) -> Entered {
        self.event(|machine, now, effects| machine.enter(now, want, patience, manner, effects))
    }

    fn poll(&self, id: WaiterId, context: &Context<'_>) -> Poll<Result<Ticket, Denial>> {
        let park = |parked: Option<Waker>| match parked {
            Some(waker) if waker.will_wake(context.waker()) => waker,
            _ => context.waker().clone(),
        };
        self.lock().machine.poll(id, park).map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes back the waker that [`poll`](Self::poll) has left.
    fn unpark(&self, id: WaiterId) {
        let parked = self.lock().machine.unpark(id);
        drop(parked);
    }

    fn cancel(self: &Arc<Self>, id: WaiterId, manner: Manner) {
        self.event(|machine, now, effects| machine.cancel(now, id, manner, effects));
    }

    /// Gives a hold up; the driver releases what must be released.
    ///
    /// If others wait elsewhere, the release leaves from this very thread, so that they do not wait for
    /// the driver to wake up.
    fn release(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        let urgent = self.event(|machine, now, effects| {
            machine.release(now, hold, manner, effects);
            let urgent =
                effects.ops.iter().position(|op| matches!(op, Op::Release { urgent: true }))?;
            if self.shared.home == Home::Driver || Handle::try_current().is_err() {
                return None;
            }
            effects.ops.swap_remove(urgent);
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

    /// Gives a hold up; what must be released is the caller's to release. `None` if it was over before.
    fn release_here(self: &Arc<Self>, hold: HoldId, manner: Manner) -> Option<Rest> {
        self.event(|machine, now, effects| {
            machine.release_promptly(now, hold, manner, effects).then(|| {
                let Some(ending) = machine.begin_release_of(hold) else {
                    let part = machine.give_back(now, hold, effects);
                    return part.map_or(Rest::Nothing, Rest::Part);
                };
                if let Some(own) =
                    effects.ops.iter().position(|op| matches!(op, Op::Release { .. }))
                {
                    effects.ops.remove(own);
                }
                Rest::Lease(ending)
            })
        })
    }

    /// Waits until it is known as what the store has the lease of this hold.
    fn poll_settled(&self, hold: HoldId, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.machine.is_converting(hold) {
            return Poll::Ready(());
        }
        state.await_settled(context);
        Poll::Pending
    }

    /// Waits until the store has this part of a lease of permits back, or somebody here. `false` if the lease
    /// ended before.
    fn poll_back(&self, part: &Part, context: &Context<'_>) -> Poll<bool> {
        let mut state = self.lock();
        if let Some(back) = state.machine.is_back(part) {
            return Poll::Ready(back);
        }
        state.await_settled(context);
        Poll::Pending
    }

    fn downgrade(self: &Arc<Self>, hold: HoldId, to: Mode) {
        self.event(|machine, now, effects| machine.downgrade(now, hold, to, effects));
    }

    fn split(&self, hold: HoldId, part: u32) -> Option<HoldId> {
        self.lock().machine.split(hold, part)
    }

    fn forget(self: &Arc<Self>, hold: HoldId, manner: Manner) {
        self.event(|machine, now, effects| machine.forget(now, hold, manner, effects));
    }

    fn claim(&self, hold: HoldId) -> Option<Claim> {
        self.lock().machine.claim(hold).cloned()
    }

    fn begin_upgrade(self: &Arc<Self>, hold: HoldId, patience: Patience) -> Result<(), Denial> {
        self.event(|machine, now, effects| machine.begin_upgrade(now, hold, patience, effects))
    }

    fn poll_upgrade(&self, hold: HoldId, context: &Context<'_>) -> Poll<Result<Ticket, Denial>> {
        let waker = || context.waker().clone();
        self.lock().machine.poll_upgrade(hold, waker).map_or(Poll::Pending, Poll::Ready)
    }

    fn abandon_upgrade(self: &Arc<Self>, hold: HoldId) {
        self.event(|machine, now, effects| machine.abandon_upgrade(now, hold, effects));
    }

    /// Something has changed that the store may not say: whoever waits asks again.
    pub(crate) fn look_again(self: &Arc<Self>) {
        self.event(|machine, now, effects| machine.hint(now, Hint::Released, effects));
    }

    pub(crate) fn close(self: &Arc<Self>) {
        self.event(|machine, now, effects| machine.close(now, effects));
    }

    /// The driver has gone, with everything that it had in hand.
    pub(crate) fn stop(self: &Arc<Self>, error: &Error) {
        self.event(|machine, now, effects| machine.stop(now, error, effects));
    }

    // ---- What the driver does ----

    pub(crate) fn tick(self: &Arc<Self>) {
        self.event_in(|state, now, effects| {
            state.armed = None;
            state.machine.tick(now, effects);
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

    /// Runs the watch with this number, unless it is out of date.
    pub(crate) fn begin_watch(self: &Arc<Self>, number: u64) {
        let mut state = self.lock();
        if state.watch.number == number {
            let watch = watch(Arc::downgrade(self), self.shared.clone(), self.key.clone(), number);
            state.watch.task = Some(tokio::spawn(watch).abort_handle());
        }
    }

    // ---- What the store answers ----

    fn attempt_done(self: &Arc<Self>, claim: &Claim, result: Result<Attempt, Error>) {
        self.event(|machine, now, effects| machine.attempt_done(now, claim, result, effects));
    }

    fn attempt_repeated(self: &Arc<Self>, claim: &Claim) {
        self.event(|machine, _, _| machine.attempt_repeated(claim));
    }

    fn convert_done(self: &Arc<Self>, claim: &Claim, result: Result<Attempt, Error>) {
        if let Err(error) = &result {
            tracing::debug!(key = %self.key, %error, "a lease could not be made weaker");
        }
        self.event(|machine, now, effects| machine.convert_done(now, claim, result, effects));
    }

    fn release_done(
        self: &Arc<Self>,
        claim: &Claim,
        result: Result<(Released, Option<Attempt>), Error>,
    ) {
        if let Err(error) = &result {
            tracing::warn!(key = %self.key, %error, retried = error.is_retryable(), "a release failed");
        }
        self.event(|machine, now, effects| machine.release_done(now, claim, result, effects));
    }

    fn renew_done(self: &Arc<Self>, claim: &Claim, sent: Instant, renewal: Renewal) {
        if let Renewal::Unknown(error) = &renewal {
            tracing::debug!(key = %self.key, %error, "a renewal failed");
        }
        self.event(|machine, now, effects| {
            machine.renew_done(now, claim, sent, renewal, effects);
        });
    }

    /// A claim turned out to be held. Unless it is the one that this process wants, it is released.
    fn forget_unless_known(self: &Arc<Self>, claim: Claim) {
        self.event(|machine, _, effects| machine.forget_unless_known(claim, effects));
    }

    fn watch_event(self: &Arc<Self>, number: u64, event: WatchEvent<'_>) {
        if matches!(event, WatchEvent::Hint(Hint::Wanted)) {
            self.wanted.store(true, Ordering::Release);
        }
        self.event_in(|state, now, effects| {
            if state.watch.number == number {
                match event {
                    WatchEvent::Started => state.machine.watch_started(now, effects),
                    WatchEvent::Hint(hint) => state.machine.hint(now, hint, effects),
                    WatchEvent::Ended(error) => state.machine.watch_ended(now, error, effects),
                }
            }
        });
    }

    // ---- How ----

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn event<R>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut Machine<Waker>, Instant, &mut Effects<Waker>) -> R,
    ) -> R {
        self.event_in(|state, now, effects| event(&mut state.machine, now, effects))
    }

    /// Feeds one event to the machine and carries out what it asks for.
    fn event_in<R>(
        self: &Arc<Self>,
        event: impl FnOnce(&mut State, Instant, &mut Effects<Waker>) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let mut state = self.lock();
        // Read under the lock, so that time does not go backwards from one event to the next.
        let now = self.shared.clock.now();
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::AcqRel) {
            state.machine.hint(now, Hint::Wanted, &mut effects);
        }
        let result = event(&mut state, now, &mut effects);
        state.machine.turn_tries_away(now, &mut effects);
        state.machine.clear_seats();
        let commands: Vec<_> =
            effects.ops.drain(..).filter_map(|op| self.command(&mut state, op)).collect();
        self.arm(&mut state);
        let done = match (state.machine.is_retrying(), &state.retrying) {
            (true, None) => {
                state.retrying = Some((Arc::clone(self), self.shared.flights.begin()));
                None
            }
            (false, Some(_)) => state.retrying.take(),
            _ => None,
        };
        let settling = std::mem::take(&mut state.settling);
        drop(state);
        // Not before: a waker may run anything, and a driver that is gone answers at once.
        for command in commands {
            self.shared.send(command);
        }
        effects.wake_all(Waker::wake, |loss| {
            tracing::warn!(key = %self.key, reason = %loss, "a lease was lost");
        });
        settling.into_iter().for_each(Waker::wake);
        drop(done);
        result
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
            Op::Release { .. } if state.release_queued => return None,
            Op::Release { .. } => {
                state.release_queued = true;
                Command::Release(Arc::clone(self), self.shared.flights.begin())
            }
            Op::Watch => {
                state.watch.number += 1;
                Command::Watch(Arc::clone(self), state.watch.number)
            }
            Op::Unwatch => {
                state.watch.number += 1;
                if let Some(task) = state.watch.task.take() {
                    task.abort();
                }
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
        let Self { shared, key, state, .. } = self;
        let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(armed) = state.armed {
            shared.timers.disarm(id, armed);
        }
        if let Some(watch) = state.watch.task.take() {
            watch.abort();
        }
        for claim in state.machine.left_behind().cloned() {
            let flight = shared.flights.begin();
            shared.send(Command::Forget(Arc::clone(shared), claim, flight));
        }
        shared.forget(key);
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("key", &self.key).finish_non_exhaustive()
    }
}

enum WatchEvent<'a> {
    Started,
    Hint(Hint),
    Ended(Option<&'a Error>),
}

/// Listens for hints about a key until nobody wants them.
async fn watch(entry: Weak<Entry>, shared: Arc<Shared>, key: Key, number: u64) {
    let tell = |event: WatchEvent<'_>| {
        entry.upgrade().map(|entry| entry.watch_event(number, event)).is_some()
    };
    let mut hints = match shared.backend.watch(&key).await {
        Ok(hints) => hints,
        Err(error) => {
            tracing::debug!(%key, %error, "no hints: waiting by the clock alone");
            tell(WatchEvent::Ended(Some(&error)));
            return;
        }
    };
    let mut wanted = tell(WatchEvent::Started);
    while wanted {
        let Some(hint) = hints.next().await else {
            tell(WatchEvent::Ended(None));
            return;
        };
        wanted = tell(WatchEvent::Hint(hint));
    }
}
