//! The locks of one process among threads: what they uphold in every order in which threads may run.
//!
//! `lock-interleavings` is lock-sync with the mutexes and atomics of [`shuttle`]. Threads change at each operation on
//! them. So these are the real entry, the real driver and the real futures, and not a model of them. Beside them run a
//! store that answers late or not at all, messages that come late, twice or not at all, and another process. The
//! scheduler is seeded, and a failure prints what repeats it.
//!
//! All threads of shuttle take turns on one thread of the system. That is why a runtime of tokio whose `block_on` runs
//! in one of them is the present runtime of all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod permits;
mod readers;
mod remote;
mod spectator;
mod store;
mod witness;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::poll_fn;
use lock_core::{Acquire, AcquireOutcome, Claim, Key, OwnerToken, Ttl};
use lock_interleavings::{Handoff, LockError, Locks, Mutex, OwnedMutexGuard};
use shuttle::future::block_on;
use shuttle::rand::{Rng, RngCore, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::{Config, MaxSteps, Runner, thread};
use tokio::runtime::{Builder, Runtime};

use remote::Remote;
use spectator::Spectator;
use store::{Client, Inside, Store};
use witness::Witness;

/// How many schedules of each kind are tried for each scene.
const SCHEDULES: usize = 300;
const TASKS: usize = 4;
/// How often the other process wants the lock.
const VISITS: usize = 2;

#[test]
fn processes_take_turns() {
    tell(Scene::with(Handoff::Fair));
}

#[test]
fn a_budget_is_shared_out() {
    tell(Scene::with(budget()));
}

#[test]
fn a_kept_lease_is_given_up_when_it_is_wanted() {
    let cache = Some(Duration::from_secs(2));
    tell(Scene { cache, ..Scene::with(Handoff::Fair) });
}

#[test]
fn a_kept_lease_is_handed_on_within_the_budget() {
    let cache = Some(Duration::from_secs(60));
    tell(Scene { cache, ..Scene::with(budget()) });
}

#[test]
fn a_kept_lease_outlives_the_handle_that_kept_it() {
    let cache = Some(Duration::from_secs(2));
    tell(Scene { cache, rounds: 4, keeps_handle: false, ..Scene::with(Handoff::Fair) });
}

#[test]
fn a_lease_with_many_tokens_goes_from_task_to_task() {
    tell(Scene { rounds: 6, rival: false, generous: true, ..Scene::with(Handoff::Fair) });
}

/// The tasks, the store and the other process of a run.
#[derive(Clone, Copy)]
struct Scene {
    handoff: Handoff,
    cache: Option<Duration>,
    /// How often each task wants the lock.
    rounds: usize,
    /// Whether all tasks have one handle. Otherwise each guard has a handle of its own.
    keeps_handle: bool,
    /// Whether another process wants it.
    rival: bool,
    /// Whether tokens never run out.
    generous: bool,
}

impl Scene {
    fn with(handoff: Handoff) -> Self {
        Self { handoff, cache: None, rounds: 2, keeps_handle: true, rival: true, generous: false }
    }
}

fn budget() -> Handoff {
    Handoff::Budget { handoffs: 1, time: Duration::from_secs(1) }
}

fn tell(scene: Scene) {
    explore(move |runtime| live(runtime, scene));
}

/// Random schedules show what many small steps do to one another. Schedules with priorities show what happens if one
/// thread is held up for long.
fn explore(live: impl Fn(&Runtime) + Clone + Send + Sync + 'static) {
    let story = move || beside_the_driver(&live);
    runner(RandomScheduler::new(SCHEDULES)).run(story.clone());
    runner(PctScheduler::new(4, SCHEDULES)).run(story);
}

fn runner<S: Scheduler + 'static>(scheduler: S) -> Runner<S> {
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    config.max_steps = MaxSteps::FailAfter(200_000);
    Runner::new(scheduler, config)
}

/// Lives beside the thread of the runtime, and ends that thread.
fn beside_the_driver(live: impl FnOnce(&Runtime)) {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let runtime = Arc::new(runtime);
    let context = runtime.enter();
    let over = Arc::new(AtomicBool::new(false));
    let driver = thread::spawn({
        let (runtime, over) = (Arc::clone(&runtime), Arc::clone(&over));
        move || drive(&runtime, &over)
    });
    live(&runtime);
    over.store(true, Ordering::SeqCst);
    driver.join().unwrap();
    drop(context);
}

fn live(runtime: &Runtime, scene: Scene) {
    let allowed = if let Handoff::Budget { handoffs, .. } = scene.handoff { handoffs } else { 0 };
    let store = Remote::new(Store::new(allowed, scene.generous));
    let world = World::new(store.clone(), runtime, scene);
    let tasks: Vec<_> = (0..TASKS).map(|_| spawn(&world, World::task)).collect();
    let spectator = spawn(&world, |world| world.spectator.watch());
    let rival = scene.rival.then(|| spawn(&world, World::rival));
    if chance(1, 4) {
        world.close();
    }
    tasks.into_iter().chain([spectator]).for_each(|task| task.join().unwrap());
    // By then every lease is over, whether a release reached the store or not.
    advance(ttl().duration());
    rival.into_iter().for_each(|rival| rival.join().unwrap());
    world.close();
    store.visit(|store, now| store.check_nothing_is_left(now));
    drop(world);
    // The watch ends as well. Otherwise the schedule has no end.
    while store.visit(|store, _| store.is_watched()) {
        thread::yield_now();
    }
}

/// The thread of the runtime, on which the driver of the locks lives. It lets the time go on as well.
fn drive(runtime: &Runtime, over: &AtomicBool) {
    runtime.block_on(async {
        while !over.load(Ordering::SeqCst) {
            if chance(1, 8) {
                advance(up_to(Duration::from_millis(40)));
            }
            thread::yield_now();
            tokio::task::yield_now().await;
        }
    });
}

/// One process, and the store.
struct World {
    store: Remote,
    locks: Locks<Remote>,
    /// The handle of all tasks.
    mutex: Option<Arc<Mutex<()>>>,
    cache: Option<Duration>,
    rounds: usize,
    witness: Witness,
    spectator: Spectator,
}

impl World {
    fn new(store: Remote, runtime: &Runtime, scene: Scene) -> Arc<Self> {
        let locks = Locks::builder(store.clone()).on_runtime(runtime.handle().clone());
        let locks = locks.ttl(ttl().duration()).handoff(scene.handoff);
        let locks = if chance(1, 4) { locks.max_hold(MAX_HOLD) } else { locks };
        let locks = locks.build().unwrap();
        let (cache, rounds) = (scene.cache, scene.rounds);
        let (witness, spectator) = (Witness::default(), Spectator::default());
        let mut world = Self { store, locks, mutex: None, cache, rounds, witness, spectator };
        world.mutex = scene.keeps_handle.then(|| world.handle());
        Arc::new(world)
    }

    /// The handle of all tasks, or a new one.
    fn handle(&self) -> Arc<Mutex<()>> {
        if let Some(mutex) = &self.mutex {
            return Arc::clone(mutex);
        }
        let mutex = self.locks.mutex(key(), ()).unwrap();
        Arc::new(match self.cache {
            Some(idle) => mutex.with_cache(idle),
            None => mutex,
        })
    }

    fn task(&self) {
        for _ in 0..self.rounds {
            let Some(guard) = self.acquire() else { continue };
            self.spectator.sees(&guard);
            let guard = Arc::new(guard);
            let inside = Inside::Task(Arc::downgrade(&guard));
            let token = OwnedMutexGuard::lease(&guard).fencing_token().get();
            self.store.visit(|store, now| store.go_in(now, token, inside.clone()));
            thread::yield_now();
            take_time();
            self.store.visit(|store, now| store.come_out(now, token, &inside));
            self.release(guard);
        }
    }

    /// Waits for the lock.
    fn acquire(&self) -> Option<OwnedMutexGuard<()>> {
        let mutex = self.handle();
        let lock = match thread_rng().gen_range(0..5) {
            0 => return block_on(mutex.try_lock_owned()).ok().inspect(|it| self.witness.tries(it)),
            1 => mutex.lock_owned_timeout(up_to(Duration::from_secs(4))),
            _ => mutex.lock_owned(),
        };
        let arrival = self.witness.arrives();
        match wait(Box::pin(lock), || self.witness.waits(arrival)) {
            Some(Ok(guard)) => {
                self.witness.served(arrival, &guard);
                return Some(guard);
            }
            Some(Err(error)) => assert!(is_expected(&error), "{error}"),
            None => {}
        }
        self.witness.leaves(arrival);
        None
    }

    /// Drops the guard, or releases it and waits for the store.
    fn release(&self, guard: Arc<OwnedMutexGuard<()>>) {
        self.witness.lets_go();
        let guard = Arc::into_inner(guard).unwrap();
        if chance(1, 2) {
            drop(guard);
        } else {
            // A lost lease and a store out of reach are part of the scene.
            block_on(OwnedMutexGuard::release(guard)).unwrap_or_default();
        }
    }

    /// Another process. At its end it may crash.
    fn rival(&self) {
        for round in 1..=VISITS {
            let claim = Claim::exclusive(key(), owner());
            let (owner, request) = (claim.owner, Acquire::new(claim.clone(), ttl()).queued());
            let ask = |store: &mut Store, now| store.acquire(now, now, Client::Rival, &request);
            let attempt = self.store.visit(ask);
            assert!(matches!(attempt, AcquireOutcome::Granted(_) | AcquireOutcome::Queued { .. }));
            let token = loop {
                let token = self.store.visit(|store, now| {
                    store.serve(now, None);
                    store.token_of(owner)
                });
                match token {
                    Some(token) => break token,
                    None => thread::yield_now(),
                }
            };
            self.store.visit(|store, now| store.go_in(now, token, Inside::Rival));
            thread::yield_now();
            take_time();
            self.store.visit(|store, now| {
                store.come_out(now, token, &Inside::Rival);
                if round == VISITS && chance(1, 2) {
                    store.crash(now);
                } else {
                    let _ = store.release(now, &claim);
                }
            });
        }
    }

    fn close(&self) {
        block_on(self.locks.shutdown());
    }
}

/// May poll a few times, woken or not. Then the task leaves, or goes on in another thread with another waker, or
/// waits where it is. Tells of each poll of this thread.
fn wait<F>(mut waiting: Pin<Box<F>>, polled: impl Fn()) -> Option<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let poll = |waiting: &mut Pin<Box<F>>, context: &mut Context<'_>| {
        let outcome = waiting.as_mut().poll(context);
        polled();
        outcome
    };
    let mut polls = if chance(1, 2) { 0 } else { thread_rng().gen_range(1..12) };
    let early = block_on(poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        context.waker().wake_by_ref();
        poll(&mut waiting, context).map(Some)
    }));
    match thread_rng().gen_range(0..4) {
        _ if early.is_some() => early,
        0 => None,
        1 => Some(thread::spawn(move || block_on(waiting)).join().unwrap()),
        _ => Some(block_on(poll_fn(|context| poll(&mut waiting, context)))),
    }
}

/// Whether a waiter may be denied for this reason here.
fn is_expected(error: &LockError) -> bool {
    match error {
        LockError::Timeout { .. } | LockError::Closed => true,
        LockError::Backend(error) => error.is_retryable(),
        _ => false,
    }
}

fn spawn(world: &Arc<World>, what: fn(&World)) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || what(&world))
}

// ---- Time, and chance ----

/// Most steps take a moment, and some take so long that a lease may end.
fn take_time() {
    let longest = if chance(1, 24) { ttl().duration() } else { Duration::from_millis(5) };
    advance(up_to(longest));
}

/// The clock of the runtime jumps with the first poll. The rest only waits for its timers.
fn advance(time: Duration) {
    let _ = tokio::time::advance(time).now_or_never();
}

const MAX_HOLD: Duration = Duration::from_secs(1);

fn key() -> Key {
    Key::new("key").unwrap()
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(3)).unwrap()
}

/// Drawn from the schedule's seed, so that a schedule can be repeated.
fn owner() -> OwnerToken {
    let [high, low] = [(); 2].map(|()| u128::from(thread_rng().next_u64()));
    OwnerToken::from_bytes((high << 64 | low).to_be_bytes())
}

fn chance(of: u32, among: u32) -> bool {
    thread_rng().gen_ratio(of, among)
}

fn up_to(longest: Duration) -> Duration {
    Duration::from_nanos(thread_rng().gen_range(0..=longest.as_nanos() as u64))
}
