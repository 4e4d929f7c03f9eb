//! The process: the machine behind a lock, its pass carried out after it.
//!
//! As [`Entry`](crate::engine::Entry) does it, with a thread for every command of the driver.

use lock_core::{
    Acquire, Claim, Demand, Error, ErrorKind, Hint, Instant, Mode, OwnerToken, Renew, Renewal,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Arc;
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::thread;

use super::super::machine::{Denial, Ending, Entered, Machine, Op, Pass, Ticket, Urgency};
use super::super::queue::{Patience, WaiterId};
use super::store::{Client, Store};
use super::witness::{Look, Witness};
use super::{World, chance};

/// Wakes one waiter. Unlike a thread that is parked, it does not wake up by itself now and then, which
/// would hide that it was forgotten.
pub(super) type Wake = Sender<()>;

pub(super) struct State {
    pub(super) machine: Machine<Wake>,
    witness: Witness,
    release_queued: bool,
    /// The number of the present watch.
    watch: u64,
    /// Commands that the driver has not done.
    flights: usize,
    closed: bool,
}

/// What the driver has to do.
enum Command {
    Attempt(Acquire),
    Renew(Renew, Instant),
    /// A release that the machine is to be asked for.
    TakeRelease,
    /// And the request for a place in the queue that goes with it.
    Release(Claim, Option<Acquire>),
    Forget(Claim),
    Watch(u64),
    Unwatch(u64),
}

pub(super) struct Guard {
    pub(super) ticket: Ticket,
    /// Whose lease it is, unless that was over when the guard was made.
    pub(super) owner: Option<OwnerToken>,
}

/// How the way to the lock began.
enum Entry {
    Done(Result<Guard, Denial>),
    /// With what it is woken, if that is agreed upon already.
    Waits {
        arrival: u32,
        id: WaiterId,
        woken: Option<Receiver<()>>,
    },
}

impl State {
    pub(super) fn new(machine: Machine<Wake>) -> Self {
        Self {
            machine,
            witness: Witness::default(),
            release_queued: false,
            watch: 0,
            flights: 0,
            closed: false,
        }
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.machine.is_idle() && self.flights == 0
    }

    pub(super) fn is_over(&self) -> bool {
        self.closed && self.is_at_rest()
    }

    fn command(&mut self, op: Op, now: Instant) -> Option<Command> {
        Some(match op {
            Op::Attempt(request) => {
                self.witness.asks();
                Command::Attempt(request)
            }
            Op::Convert(..) => panic!("there is nothing weaker"),
            Op::Renew(request, _) => Command::Renew(request, now),
            Op::Forget(claim) => Command::Forget(claim),
            Op::Watch => {
                self.watch += 1;
                Command::Watch(self.watch)
            }
            Op::Unwatch => {
                self.watch += 1;
                Command::Unwatch(self.watch - 1)
            }
        })
    }

    fn guard(&mut self, arrival: u32, ticket: Ticket) -> Guard {
        self.witness.served(arrival, &ticket);
        Guard { ticket, owner: self.machine.owner() }
    }

    fn begin_release(&mut self) -> Option<Command> {
        let Ending { claim, next, .. } = self.machine.begin_release()?;
        self.witness.asks();
        Some(Command::Release(claim, next))
    }
}

impl World {
    // ---- What tasks do ----

    /// Waits for the lock. Who leaves looks that often before, woken or not.
    pub(super) fn acquire(
        self: &Arc<Self>,
        patience: Patience,
        mut leaves_after: Option<u32>,
    ) -> Option<Guard> {
        loop {
            let outcome = match self.enter(patience) {
                Entry::Done(outcome) => Some(outcome),
                Entry::Waits { arrival, id, woken } => {
                    self.wait(arrival, id, woken, &mut leaves_after)
                }
            };
            match outcome? {
                Ok(guard) if guard.ticket.lease.is_valid(self.now()) => return Some(guard),
                // A guard made too late: the way begins anew.
                Ok(guard) => self.release(guard),
                Err(denial) => {
                    self.check_denial(&denial, patience);
                    return None;
                }
            }
        }
    }

    fn enter(self: &Arc<Self>, patience: Patience) -> Entry {
        if patience == Patience::Forever {
            let (wake, woken) = channel();
            let mut state = self.state.lock().unwrap();
            if let Some(id) = state.machine.join(Mode::Exclusive, &mut Some(wake)) {
                return Entry::Waits { arrival: state.witness.arrives(), id, woken: Some(woken) };
            }
        }
        let mut attempt = None;
        let entry = self.event(false, |state, pass| {
            let arrival = state.witness.arrives();
            let id = match state.machine.enter(Mode::Exclusive, patience, self.manner, pass) {
                Entered::Done(outcome) => {
                    return Entry::Done(outcome.map(|ticket| state.guard(arrival, ticket)));
                }
                Entered::Queued(id) => id,
                Entered::Attempt(id, request) => {
                    state.witness.asks();
                    state.flights += 1;
                    attempt = Some(request);
                    id
                }
            };
            Entry::Waits { arrival, id, woken: None }
        });
        // The task asks itself, or leaves while it asks, and then the driver goes on.
        match attempt.map(Command::Attempt) {
            Some(command) if chance(1, 2) => self.run_to_end(command),
            Some(command) => self.drive(command),
            None => {}
        }
        entry
    }

    fn wait(
        self: &Arc<Self>,
        arrival: u32,
        id: WaiterId,
        mut woken: Option<Receiver<()>>,
        leaves_after: &mut Option<u32>,
    ) -> Option<Result<Guard, Denial>> {
        loop {
            match (leaves_after.as_mut(), &woken) {
                (Some(0), _) => {
                    self.event(false, |state, pass| {
                        state.machine.cancel(id, self.manner, pass);
                    });
                    return None;
                }
                (Some(looks), _) => *looks -= 1,
                (None, Some(woken)) => woken.recv().expect("a waiter was forgotten"),
                (None, None) => {}
            }
            let (wake, next) = channel();
            let mut state = self.state.lock().unwrap();
            if let Some(outcome) = state.machine.poll(id, &mut Some(wake)) {
                return Some(outcome.map(|ticket| state.guard(arrival, ticket)));
            }
            woken = Some(next);
        }
    }

    fn check_denial(&self, denial: &Denial, patience: Patience) {
        match denial {
            Denial::WouldBlock => assert_eq!(patience, Patience::Try),
            Denial::Timeout(_) => {
                assert!(matches!(patience, Patience::Until(limit) if limit <= self.now()));
            }
            Denial::Closed => assert!(self.state.lock().unwrap().closed),
            Denial::Failed(error) => assert!(error.is_retryable(), "{error}"),
            Denial::Lost(lost) => panic!("nothing is shared, but {lost}"),
        }
    }

    /// Drops the guard; or releases it and waits, and then whatever is to be released leaves at once.
    pub(super) fn release(self: &Arc<Self>, guard: Guard) {
        let here = chance(1, 2);
        let command = self.event(true, |state, pass| {
            state.witness.lets_go();
            state.machine.release(guard.ticket.hold, self.manner, pass);
            let leaves = state.machine.due_release()? == Urgency::Now || here;
            leaves.then(|| state.begin_release())?
        });
        if let Some(command) = command {
            self.run(command);
        }
    }

    pub(super) fn close(self: &Arc<Self>) {
        self.event(false, |state, pass| {
            state.closed = true;
            state.machine.close(pass);
        });
    }

    // ---- What the driver does ----

    pub(super) fn tick(self: &Arc<Self>) {
        self.event(false, |state, pass| state.machine.tick(pass));
    }

    fn drive(self: &Arc<Self>, command: Command) {
        let world = Arc::clone(self);
        thread::spawn(move || world.run_to_end(command));
    }

    fn run_to_end(self: &Arc<Self>, command: Command) {
        self.run(command);
        self.state.lock().unwrap().flights -= 1;
        self.changed.notify_all();
    }

    fn run(self: &Arc<Self>, command: Command) {
        match command {
            Command::Attempt(request) => {
                let sent = self.now();
                let result =
                    self.ask(|store, now| store.acquire(now, sent, Client::Process, &request));
                self.event(false, |state, pass| {
                    state.witness.is_answered();
                    state.machine.attempt_done(&request.claim, result, pass);
                });
            }
            Command::Renew(request, sent) => {
                let renewal = self
                    .ask(|store, now| store.renew(now, sent, &request))
                    .unwrap_or_else(Renewal::Unknown);
                self.event(false, |state, pass| {
                    if let Renewal::Renewed { demand: Demand::Quiet, .. } = renewal {
                        state.witness.hears_of_quiet(request.claim.owner);
                    }
                    state.machine.renew_done(&request.claim, sent, renewal, pass);
                });
            }
            Command::TakeRelease => {
                let mut state = self.state.lock().unwrap();
                state.release_queued = false;
                let command = state.begin_release();
                drop(state);
                if let Some(command) = command {
                    self.run(command);
                }
            }
            Command::Release(claim, next) => {
                let result = self.ask(|store, now| match &next {
                    Some(next) => store.exchange(now, &claim, next),
                    None => (store.release(now, &claim), None),
                });
                if result.is_err() {
                    self.visit(|store, _| store.excuse(claim.owner));
                }
                self.event(false, |state, pass| {
                    state.witness.is_answered();
                    state.machine.release_done(&claim, result, pass);
                });
            }
            Command::Forget(claim) => {
                while self.ask(|store, now| store.release(now, &claim)).is_err() {}
            }
            Command::Watch(number) if chance(1, 16) => {
                let error = unreachable();
                self.hear(number, |machine, pass| {
                    machine.watch_ended(Some(&error), pass);
                });
            }
            Command::Watch(number) => {
                self.visit(|store, _| store.watch(number));
                // Nobody may want it any more.
                if !self.hear(number, Machine::watch_started) {
                    self.visit(|store, _| store.unwatch(number));
                }
            }
            Command::Unwatch(number) => self.visit(|store, _| store.unwatch(number)),
        }
    }

    /// One round trip, either way of which may fail.
    fn ask<R>(
        self: &Arc<Self>,
        request: impl FnOnce(&mut Store, Instant) -> R,
    ) -> Result<R, Error> {
        let travel = || {
            self.take_time();
            if chance(1, 16) { Err(unreachable()) } else { Ok(()) }
        };
        travel()?;
        let answer = self.visit(request);
        travel()?;
        Ok(answer)
    }

    /// A message arrives: mostly once, sometimes twice, sometimes not at all, and sometimes the
    /// connection breaks over it.
    pub(super) fn deliver(self: &Arc<Self>, number: u64, hint: Hint) {
        match thread_rng().gen_range(0..16) {
            0 | 1 => {}
            2 => {
                self.visit(|store, _| store.unwatch(number));
                self.hear(number, |machine, pass| machine.watch_ended(None, pass));
            }
            copies => {
                for _ in 0..if copies == 3 { 2 } else { 1 } {
                    self.hear(number, |machine, pass| machine.hint(hint, pass));
                }
            }
        }
    }

    /// Something comes from the watch with this number. Returns `false` if it is out of date.
    fn hear(
        self: &Arc<Self>,
        number: u64,
        event: impl FnOnce(&mut Machine<Wake>, &mut Pass<Wake>),
    ) -> bool {
        self.event(false, |state, pass| {
            let current = state.watch == number;
            if current {
                event(&mut state.machine, pass);
            }
            current
        })
    }

    // ---- How ----

    /// Feeds one event to the machine and carries out what it asks for. `by_holder`: somebody lets go.
    fn event<R>(
        self: &Arc<Self>,
        by_holder: bool,
        event: impl FnOnce(&mut State, &mut Pass<Wake>) -> R,
    ) -> R {
        let mut state = self.state.lock().unwrap();
        let now = self.now();
        let mut pass = Pass::at(now);
        let before = Look::at(&state.machine);
        let result = event(&mut state, &mut pass);
        let after = Look::at(&state.machine);
        state.witness.event(by_holder, before, after, self.manner.handoff);
        let mut commands: Vec<_> =
            pass.requests().filter_map(|op| state.command(op, now)).collect();
        if state.machine.due_release().is_some()
            && !std::mem::replace(&mut state.release_queued, true)
        {
            commands.push(Command::TakeRelease);
        }
        state.flights += commands.len();
        drop(state);
        self.changed.notify_all();
        for command in commands {
            self.drive(command);
        }
        pass.wake_all(
            // It may have left meanwhile.
            |wake| wake.send(()).unwrap_or_default(),
            |_| {},
        );
        result
    }
}

fn unreachable() -> Error {
    Error::new(ErrorKind::Unreachable, "lost on the way")
}
