//! Permits of two processes: tasks that pool the permits of one lease, waiters that leave, permits that are split,
//! forgotten and lost, and messages that do not arrive.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError};

use lock_core::memory::MemoryBackend;
use lock_core::{ErrorKind, PermitBackend};
use lock_interleavings::{Lease, Locks, OwnedSemaphorePermit, Semaphore};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::Ordering;
use shuttle::sync::{Mutex, MutexGuard};
use shuttle::thread;
use tokio::runtime::Runtime;

use super::{advance, chance, explore, key, take_time, ttl, up_to, wait};

const PERMITS: usize = 4;
/// So many permits can be forgotten that each request finds enough of them.
const FORGETTABLE: usize = 2;
const MOST: u32 = 2;
/// In each process.
const TASKS: usize = 2;
const ROUNDS: usize = 3;

#[test]
fn permits_are_never_more_than_there_are() {
    tell(Scene::default()).assert_all();
}

#[test]
fn permits_are_never_more_than_there_are_when_requests_and_leases_are_lost() {
    tell(Scene { stormy: true, ..Scene::default() }).assert_all();
}

#[test]
#[should_panic(expected = "too many permits")]
fn a_process_that_the_store_does_not_count_is_found_out() {
    tell(Scene { flaw: Some(Flaw::Apart), ..Scene::default() });
}

#[test]
#[should_panic(expected = "left behind")]
fn a_permit_that_does_not_come_back_is_found_out() {
    tell(Scene { flaw: Some(Flaw::Keeps), ..Scene::default() });
}

#[test]
#[should_panic(expected = "too many permits")]
fn a_forgotten_permit_that_comes_back_is_found_out() {
    tell(Scene { flaw: Some(Flaw::Remembers), ..Scene::default() });
}

#[derive(Clone, Copy, Default)]
struct Scene {
    /// Whether messages get lost, leases end, and the locks end while tasks use them.
    stormy: bool,
    flaw: Option<Flaw>,
}

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// The second process has a store of its own.
    Apart,
    /// Permits that are to be forgotten are kept for ever.
    Keeps,
    /// Permits that are to be forgotten are released.
    Remembers,
}

/// How often the schedules came to the places for which the scene is there.
#[derive(Debug, Default)]
struct Seen {
    /// Two processes had all permits.
    all_in_use: AtomicUsize,
    /// A process sent fewer requests than its tasks got permits.
    pooled: AtomicUsize,
    left: AtomicUsize,
    split: AtomicUsize,
    forgotten: AtomicUsize,
}

impl Seen {
    fn assert_all(&self) {
        let Self { all_in_use, pooled, left, split, forgotten } = self;
        for count in [all_in_use, pooled, left, split, forgotten] {
            assert!(count.load(Ordering::SeqCst) > 0, "the schedules miss a part: {self:?}");
        }
    }
}

fn note(count: &AtomicUsize) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn tell(scene: Scene) -> Arc<Seen> {
    let seen = Arc::<Seen>::default();
    let noted = Arc::clone(&seen);
    explore(move |runtime| live(runtime, scene, &noted));
    seen
}

fn live(runtime: &Runtime, scene: Scene, seen: &Arc<Seen>) {
    let hall = Arc::new(Hall::new(runtime, scene, seen));
    let tasks = (0..2 * TASKS).map(|number| hall.spawn(move |hall| hall.work(number % 2)));
    let mut threads: Vec<_> = tasks.collect();
    if scene.stormy {
        threads.push(hall.spawn(Hall::storm));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    if scene.stormy {
        // By then every lease is over, whether a release reached the store or not.
        advance(ttl().duration());
    }
    for process in &hall.processes {
        let is_whole = block_on(process.locks.shutdown());
        assert!(is_whole || scene.stormy, "a shutdown ended before the requests");
    }
    hall.check_the_end();
    hall.note_pools();
    drop(hall);
}

struct Process {
    store: MemoryBackend,
    locks: Locks<MemoryBackend>,
    semaphore: Arc<Semaphore>,
}

/// Permits that a task uses.
struct Use {
    number: usize,
    process: usize,
    permits: usize,
    lease: Lease,
}

/// What is known of all tasks. No task begins or ends a use while a thread looks at it.
#[derive(Default)]
struct Uses {
    last: usize,
    present: Vec<Use>,
    acquisitions: [u64; 2],
    tokens: BTreeSet<u64>,
    /// Permits that were to be forgotten.
    forgotten: usize,
}

/// Two processes, the store, and the permits in use.
struct Hall {
    processes: [Process; 2],
    uses: Mutex<Uses>,
    scene: Scene,
    seen: Arc<Seen>,
}

impl Hall {
    fn new(runtime: &Runtime, scene: Scene, seen: &Arc<Seen>) -> Self {
        let store = MemoryBackend::new();
        let other =
            if scene.flaw == Some(Flaw::Apart) { MemoryBackend::new() } else { store.client() };
        let processes = [store, other].map(|store| {
            let locks = Locks::builder(store.clone()).on_runtime(runtime.handle().clone());
            let locks = locks.ttl(ttl().duration()).build().unwrap();
            let semaphore = Arc::new(locks.semaphore(key(), PERMITS).unwrap());
            Process { store, locks, semaphore }
        });
        Self { processes, uses: Mutex::default(), scene, seen: Arc::clone(seen) }
    }

    fn spawn(
        self: &Arc<Self>,
        what: impl FnOnce(&Self) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let hall = Arc::clone(self);
        thread::spawn(move || what(&hall))
    }

    fn work(&self, process: usize) {
        for _ in 0..ROUNDS {
            let Some(mut permit) = self.acquire(&self.processes[process]) else { continue };
            let mut number = self.begin(process, &permit);
            self.pass_time();
            if chance(1, 3) && permit.num_permits() > 1 {
                let part = permit.split(1).unwrap();
                number = self.give_back_part(number, &permit, part);
            }
            self.check();
            self.give_back(number, permit);
        }
    }

    fn acquire(&self, process: &Process) -> Option<OwnedSemaphorePermit> {
        let (semaphore, n) = (Arc::clone(&process.semaphore), thread_rng().gen_range(1..=MOST));
        let acquire = match thread_rng().gen_range(0..6) {
            0 => return block_on(semaphore.try_acquire_many_owned(n)).ok(),
            1 => semaphore.acquire_many_owned_timeout(n, up_to(ttl().duration())),
            _ => semaphore.acquire_many_owned(n),
        };
        let outcome = wait(Box::pin(acquire), || {});
        if outcome.is_none() {
            note(&self.seen.left);
        }
        outcome?.ok()
    }

    fn pass_time(&self) {
        thread::yield_now();
        if self.scene.stormy && chance(1, 2) {
            take_time();
        }
    }

    /// A task has permits.
    fn begin(&self, process: usize, permit: &OwnedSemaphorePermit) -> usize {
        let (permits, lease) = (permit.num_permits(), permit.lease());
        let token = lease.fencing_token().get();
        let mut uses = self.uses();
        assert!(uses.tokens.insert(token), "two acquisitions have the token {token}");
        uses.acquisitions[process] += 1;
        let number = uses.enter(process, permits, lease);
        drop(uses);
        self.check();
        number
    }

    /// Gives back a part of these permits. The rest has another number from then on.
    fn give_back_part(
        &self,
        number: usize,
        rest: &OwnedSemaphorePermit,
        part: OwnedSemaphorePermit,
    ) -> usize {
        note(&self.seen.split);
        let leases = [rest, &part].map(|permit| (permit.num_permits(), permit.lease()));
        let mut uses = self.uses();
        let process = uses.leave(number).process;
        let [rest, part_number] =
            leases.map(|(permits, lease)| uses.enter(process, permits, lease));
        drop(uses);
        self.give_back(part_number, part);
        rest
    }

    /// The permits go back in one of several ways, or are forgotten.
    fn give_back(&self, number: usize, permit: OwnedSemaphorePermit) {
        let mut uses = self.uses();
        let permits = uses.leave(number).permits;
        let forgets = uses.forgotten + permits <= FORGETTABLE && chance(1, 8);
        if forgets {
            uses.forgotten += permits;
        }
        drop(uses);
        match self.scene.flaw {
            Some(Flaw::Keeps) if forgets => std::mem::forget(permit),
            Some(Flaw::Remembers) if forgets => drop(permit),
            _ if forgets => {
                note(&self.seen.forgotten);
                permit.forget();
            }
            _ if chance(1, 2) => drop(permit),
            // A lost lease and a store out of reach are part of the scene.
            _ => block_on(permit.release()).unwrap_or_default(),
        }
    }

    /// A panic of a thread says more than those that follow from it.
    fn uses(&self) -> MutexGuard<'_, Uses> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) {
        if std::thread::panicking() {
            return;
        }
        let uses = self.uses();
        let valid = || uses.present.iter().filter(|it| it.lease.is_valid());
        // The store takes a lost permit back that was to be forgotten.
        let forgotten = if self.scene.stormy { 0 } else { uses.forgotten };
        let sum = valid().map(|it| it.permits).sum::<usize>() + forgotten;
        assert!(sum <= PERMITS, "too many permits: {sum} of {PERMITS}, with {forgotten} forgotten");
        let both = (0..2).all(|process| valid().any(|it| it.process == process));
        if sum == PERMITS && both {
            note(&self.seen.all_in_use);
        }
    }

    /// Loses messages, and ends one of the handles.
    fn storm(&self) {
        for _ in 0..4 {
            let process = &self.processes[usize::from(chance(1, 2))];
            match thread_rng().gen_range(0..8) {
                0..3 => process.store.faults().fail_next(1, ErrorKind::Unreachable),
                3..6 => process.store.faults().lose_replies(1),
                6 => process.semaphore.close(),
                _ => _ = block_on(process.locks.shutdown()),
            }
            for _ in 0..thread_rng().gen_range(0..20) {
                thread::yield_now();
            }
        }
    }

    fn check_the_end(&self) {
        let store = self.processes[0].store.client();
        let state = block_on(store.permits(&key(), PERMITS as u32)).unwrap();
        assert_eq!((state.held, state.waiting), (0, 0), "left behind on the store");
        assert_eq!(store.live_leases(), 0, "left behind on the store");
        let (limit, rest) = (state.limit as usize, PERMITS - self.uses().forgotten);
        let as_told =
            if self.scene.stormy { (rest..=PERMITS).contains(&limit) } else { limit == rest };
        assert!(as_told || self.scene.flaw.is_some(), "{limit} permits, and not {rest}");
    }

    fn note_pools(&self) {
        let acquisitions = self.uses().acquisitions;
        for (process, acquisitions) in self.processes.iter().zip(acquisitions) {
            if acquisitions > process.store.stats().acquires {
                note(&self.seen.pooled);
            }
        }
    }
}

impl Uses {
    fn enter(&mut self, process: usize, permits: usize, lease: Lease) -> usize {
        self.last += 1;
        self.present.push(Use { number: self.last, process, permits, lease });
        self.last
    }

    fn leave(&mut self, number: usize) -> Use {
        let place = self.present.iter().position(|it| it.number == number).unwrap();
        self.present.swap_remove(place)
    }
}
