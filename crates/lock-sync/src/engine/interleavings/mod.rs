//! The machine among threads: what it must uphold in every order in which they may run.
//!
//! Beside it runs all that runs beside an [`Entry`](super::Entry): tasks that lock, unlock, try and
//! leave; a driver whose commands overtake one another; a timer; messages that come late, twice or not at
//! all; another process. A scheduler chooses which of them takes the next step. It is seeded, and a
//! failure prints what is needed to repeat it. A waiter that nobody wakes shows as a deadlock.

mod process;
mod store;
mod witness;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::{Acquire, Attempt, Claim, Clock, Error, Instant, Key, OwnerToken, Ttl};
use shuttle::rand::{Rng, RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::{Config, MaxSteps, Runner, thread};

use super::machine::{Machine, Manner, Policy};
use super::queue::Patience;
use crate::handoff::Handoff;
use process::State;
use store::{Client, Inside, Store};

/// How many schedules of each kind are tried for each manner.
const SCHEDULES: usize = 600;
const TASKS: usize = 4;
/// How often each task and the other process want the lock.
const ROUNDS: usize = 2;

#[test]
fn processes_take_turns() {
    explore(Manner { handoff: Handoff::Fair, cache: None });
}

#[test]
fn a_budget_is_shared_out() {
    explore(Manner { handoff: budget(), cache: None });
}

#[test]
fn a_kept_lease_is_given_up_when_it_is_wanted() {
    explore(Manner { handoff: Handoff::Fair, cache: Some(Duration::from_secs(2)) });
}

#[test]
fn a_kept_lease_is_handed_on_within_the_budget() {
    explore(Manner { handoff: budget(), cache: Some(Duration::from_secs(60)) });
}

fn budget() -> Handoff {
    Handoff::Budget { handoffs: 1, time: Duration::from_secs(1) }
}

/// Random schedules see what many small steps do to one another, and those with priorities what
/// happens if one thread is held up for long.
fn explore(manner: Manner) {
    run(RandomScheduler::new(SCHEDULES), manner);
    run(PctScheduler::new(4, SCHEDULES), manner);
}

fn run(scheduler: impl Scheduler + 'static, manner: Manner) {
    let mut config = Config::new();
    config.stack_size = 0x1_0000;
    config.max_steps = MaxSteps::FailAfter(100_000);
    Runner::new(scheduler, config).run(move || World::new(manner).live());
}

/// One process with its machine, the store, and the time.
struct World {
    manner: Manner,
    state: Mutex<State>,
    /// The machine has seen an event, or a command is done.
    changed: Condvar,
    store: Mutex<Store>,
    /// Somebody was at the store.
    visited: Condvar,
    /// Nanoseconds. Not a point at which threads may be switched: what is decided at an instant is
    /// decided before the next.
    clock: AtomicU64,
}

impl World {
    fn new(manner: Manner) -> Arc<Self> {
        let max_hold = chance(1, 4).then_some(Duration::from_secs(1));
        let policy = Policy { ttl: ttl(), renew: true, max_hold, converts: true };
        Arc::new(Self {
            manner,
            state: Mutex::new(State::new(Machine::new(key(), policy, Clock::boot(), owner))),
            changed: Condvar::new(),
            store: Mutex::new(Store::default()),
            visited: Condvar::new(),
            clock: AtomicU64::new(1_000_000_000),
        })
    }

    fn live(self: Arc<Self>) {
        let timer = self.spawn(Self::timer);
        let tasks: Vec<_> = (0..TASKS).map(|_| self.spawn(Self::task)).collect();
        let rival = self.spawn(Self::rival);
        if chance(1, 4) {
            self.close();
        }
        for task in tasks {
            task.join().unwrap();
        }
        self.rest();
        // The other process asks again when any lease must be over: a release may have failed for good.
        self.advance(ttl().duration());
        self.visit(|store, now| store.serve(now, None));
        rival.join().unwrap();
        self.close();
        self.rest();
        timer.join().unwrap();
        assert!(!self.store.lock().unwrap().is_watched(), "a watch was left behind");
    }

    fn spawn(self: &Arc<Self>, what: fn(&Arc<Self>)) -> thread::JoinHandle<()> {
        let world = Arc::clone(self);
        thread::spawn(move || what(&world))
    }

    // ---- Who takes part ----

    fn task(self: &Arc<Self>) {
        for _ in 0..ROUNDS {
            let patience = match thread_rng().gen_range(0..5) {
                0 => Patience::Try,
                1 => Patience::Until(self.now() + up_to(Duration::from_secs(4))),
                _ => Patience::Forever,
            };
            let leaves_after = chance(1, 4).then(|| thread_rng().gen_range(0..12));
            let Some(guard) = self.acquire(patience, leaves_after) else { continue };
            let inside = || Inside::Task(Arc::clone(&guard.ticket.lease), guard.ticket.hold_until);
            let token = guard.ticket.token.get();
            self.visit(|store, now| store.go_in(now, guard.owner, token, inside()));
            self.take_time();
            self.visit(|store, now| store.come_out(now, guard.owner, token, &inside()));
            self.release(guard);
        }
    }

    /// Another process, and at its end perhaps one that crashed.
    fn rival(self: &Arc<Self>) {
        for round in 1..=ROUNDS {
            let claim = Claim::exclusive(key(), owner().unwrap());
            let (owner, request) = (claim.owner, Acquire::new(claim.clone(), ttl()).queued());
            let attempt = self.visit(|store, now| store.acquire(now, now, Client::Rival, &request));
            assert!(matches!(attempt, Attempt::Granted(_) | Attempt::Queued { .. }));
            let mut store = self.store.lock().unwrap();
            let token = loop {
                match store.token_of(owner) {
                    Some(token) => break token,
                    None => store = self.visited.wait(store).unwrap(),
                }
            };
            drop(store);
            self.visit(|store, now| store.go_in(now, Some(owner), token, Inside::Rival));
            self.take_time();
            self.visit(|store, now| {
                store.come_out(now, Some(owner), token, &Inside::Rival);
                if round == ROUNDS && chance(1, 2) {
                    store.crash(now);
                } else {
                    let _ = store.release(now, &claim);
                }
            });
        }
    }

    /// The driver's timer: it calls when the machine wants to be looked at, not always in time.
    fn timer(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock().unwrap();
            let deadline = loop {
                match state.machine.next_deadline() {
                    _ if state.is_over() => return,
                    Some(deadline) => break deadline.at,
                    None => state = self.changed.wait(state).unwrap(),
                }
            };
            drop(state);
            let left = deadline.saturating_duration_since(self.now());
            self.advance(if chance(1, 8) {
                left
            } else {
                left.min(up_to(Duration::from_millis(40)))
            });
            if self.now() >= deadline {
                self.tick();
            }
            // Whoever can run without the time going on may do so first.
            thread::yield_now();
        }
    }

    /// Waits until the process has nothing in hand, and looks whether the store has anything of it.
    fn rest(self: &Arc<Self>) {
        let mut state = self.state.lock().unwrap();
        while !state.is_at_rest() {
            state = self.changed.wait(state).unwrap();
        }
        drop(state);
        self.visit(|store, now| store.check_nothing_is_left(now));
    }

    // ---- Time, and the way to the store ----

    fn now(&self) -> Instant {
        Instant::from_nanos(self.clock.load(Ordering::Relaxed))
    }

    fn advance(&self, time: Duration) {
        self.clock.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Most things are done in a moment, and some take so long that a lease may end.
    fn take_time(&self) {
        let longest = if chance(1, 24) { ttl().duration() } else { Duration::from_millis(5) };
        self.advance(up_to(longest));
    }

    /// Does something at the store, and sends out the messages that it leads to.
    fn visit<R>(self: &Arc<Self>, act: impl FnOnce(&mut Store, Instant) -> R) -> R {
        let mut store = self.store.lock().unwrap();
        let result = act(&mut store, self.now());
        let messages = store.take_messages();
        drop(store);
        self.visited.notify_all();
        for (watch, hint) in messages {
            let world = Arc::clone(self);
            thread::spawn(move || world.deliver(watch, hint));
        }
        result
    }
}

fn key() -> Key {
    Key::new("key").unwrap()
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(3)).unwrap()
}

/// Drawn from the schedule's seed, so that a schedule can be repeated.
fn owner() -> Result<OwnerToken, Error> {
    let [high, low] = [(); 2].map(|()| u128::from(thread_rng().next_u64()));
    Ok(OwnerToken::from_bytes((high << 64 | low).to_be_bytes()))
}

fn chance(of: u32, among: u32) -> bool {
    thread_rng().gen_ratio(of, among)
}

fn up_to(longest: Duration) -> Duration {
    Duration::from_nanos(thread_rng().gen_range(0..=longest.as_nanos() as u64))
}
