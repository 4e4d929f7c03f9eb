//! The way of a stored value between the guards of two processes, while requests and answers are lost, late or refused.
//!
//! The value is a list to which every holder appends a number of its own. So every stored value is the beginning of
//! every later one, and what is lost shows.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{CellBackend, ErrorKind, FencingToken};
use lock_sync::{CommitError, Locks, SaveError, StoredMutex, StoredMutexGuard};
use proptest::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::time::{sleep, timeout};

use crate::stored::{TTL, short};
use crate::support::Pair;

/// What a task does next.
#[derive(Clone, Copy, Debug)]
enum Act {
    Commit,
    /// It stores a value, and commits another one.
    Save,
    /// It changes the value, and drops the guard.
    Discard,
    Release,
    /// It drops the commit after so many milliseconds.
    Abandon(u64),
    /// It drops the wait for the lock after so many milliseconds.
    GiveUp(u64),
    Read,
    Rest(u64),
}

/// What fails on the way to the store from now on.
#[derive(Clone, Copy, Debug)]
enum Mischief {
    LoseReplies(u32),
    FailNext(u32),
    Refuse(u32),
    DelayRequests(u64),
    DelayReplies(u64),
    Cut,
    Heal,
}

/// Which process, whether only values are concerned, what fails, and the pause after that.
type Step = (bool, bool, Mischief, u64);

#[derive(Clone, Debug)]
struct Plan {
    tasks: Vec<(bool, Vec<Act>)>,
    steps: Vec<Step>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let act = prop_oneof![
        4 => Just(Act::Commit),
        2 => Just(Act::Save),
        1 => Just(Act::Discard),
        1 => Just(Act::Release),
        1 => (0_u64..60).prop_map(Act::Abandon),
        1 => (0_u64..60).prop_map(Act::GiveUp),
        1 => Just(Act::Read),
        1 => (0_u64..400).prop_map(Act::Rest),
    ];
    let mischief = prop_oneof![
        (1_u32..4).prop_map(Mischief::LoseReplies),
        (1_u32..4).prop_map(Mischief::FailNext),
        (1_u32..2).prop_map(Mischief::Refuse),
        (1_u64..40).prop_map(Mischief::DelayRequests),
        (1_u64..40).prop_map(Mischief::DelayReplies),
        Just(Mischief::Cut),
        Just(Mischief::Heal),
    ];
    let pause = prop_oneof![4 => 0_u64..100, 1 => 1_000_u64..5_000];
    let tasks = prop::collection::vec((any::<bool>(), prop::collection::vec(act, 1..8)), 2..6);
    let step = (any::<bool>(), any::<bool>(), mischief, pause);
    let steps = prop::collection::vec(step, 0..8);
    (tasks, steps).prop_map(|(tasks, steps)| Plan { tasks, steps })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_committed_change_is_lost_and_guards_begin_with_what_is_stored(plan in plans()) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async { World::new().plays(&plan).await });
    }
}

/// What the tasks know of the values.
#[derive(Default)]
struct Known {
    numbers: u32,
    /// The numbers of values that are stored, with their versions.
    stored: Vec<(FencingToken, u32)>,
    /// The numbers of values that are certainly not stored.
    lost: BTreeSet<u32>,
    /// Values that a reader saw.
    seen: Vec<Vec<u32>>,
}

struct World {
    pair: Pair,
    theirs: MemoryBackend,
    mutexes: [StoredMutex<Vec<u32>>; 2],
    known: RefCell<Known>,
}

type Guard = StoredMutexGuard<Vec<u32>>;

impl World {
    fn new() -> Self {
        let pair = short();
        let theirs = pair.store.client();
        let there = Locks::builder(theirs.clone()).ttl(TTL).on_runtime(Handle::current());
        let pair = Pair { there: there.build().unwrap(), ..pair };
        let mutex = |locks: &Locks<_>| locks.stored_mutex("it", vec![]).unwrap();
        let mutexes = [mutex(&pair.here), mutex(&pair.there)];
        Self { pair, theirs, mutexes, known: RefCell::default() }
    }

    async fn plays(self, plan: &Plan) {
        let tasks = plan.tasks.iter().map(|(here, acts)| self.task(*here, acts));
        let done = RefCell::new(false);
        let playing = async {
            let faults = self.fails(&plan.steps);
            tokio::join!(join_all(tasks), faults);
            *done.borrow_mut() = true;
        };
        tokio::join!(playing, self.follows(&done));
        self.ends().await;
    }

    async fn fails(&self, steps: &[Step]) {
        let millis = Duration::from_millis;
        for &(here, values, mischief, pause) in steps {
            let all = if here { self.pair.ours.faults() } else { self.theirs.faults() };
            let faults = if values { all.on(Verb::Cell) } else { all.clone() };
            match mischief {
                Mischief::LoseReplies(count) => faults.lose_replies(count),
                Mischief::FailNext(count) => faults.fail_next(count, ErrorKind::Unreachable),
                Mischief::Refuse(count) => faults.fail_next(count, ErrorKind::Denied),
                Mischief::DelayRequests(time) => faults.delay_requests(millis(time)),
                Mischief::DelayReplies(time) => faults.delay_replies(millis(time)),
                Mischief::Cut => all.cut(),
                Mischief::Heal => all.heal(),
            }
            sleep(millis(pause)).await;
        }
        self.pair.ours.faults().heal();
        self.theirs.faults().heal();
    }

    async fn task(&self, here: bool, acts: &[Act]) {
        let mutex = &self.mutexes[usize::from(here)];
        for &act in acts {
            match act {
                Act::Rest(time) => sleep(Duration::from_millis(time)).await,
                Act::Read => self.reads(mutex).await,
                Act::GiveUp(time) => {
                    let limit = Duration::from_millis(time);
                    if let Ok(Ok(guard)) = timeout(limit, mutex.lock()).await {
                        self.begins(&guard).await;
                    }
                }
                _ => {
                    let Ok(guard) = mutex.lock().await else { continue };
                    self.begins(&guard).await;
                    self.changes(guard, act).await;
                }
            }
        }
    }

    /// A guard that is valid begins with what the store has: with nothing that came late, is old or is in doubt.
    async fn begins(&self, guard: &Guard) {
        let kept = self.pair.store.load(&"it".try_into().unwrap()).await.unwrap();
        if !StoredMutexGuard::lease(guard).is_valid() {
            return;
        }
        let (value, version) = match kept {
            Some(cell) => (serde_json::from_slice(&cell.value).unwrap(), Some(cell.token)),
            None => (Vec::new(), None),
        };
        assert_eq!((&**guard, StoredMutexGuard::version(guard)), (&value, version));
    }

    async fn changes(&self, mut guard: Guard, act: Act) {
        if matches!(act, Act::Save) {
            self.saves(&mut guard).await;
        }
        let number = self.append(&mut guard);
        match act {
            Act::Discard => drop(guard),
            Act::Release => drop(StoredMutexGuard::release(guard).await),
            Act::Abandon(time) => {
                let outcome = timeout(Duration::from_millis(time), guard.commit()).await;
                if let Ok(outcome) = outcome {
                    self.committed(number, outcome);
                }
                return;
            }
            _ => return self.committed(number, guard.commit().await),
        }
        self.known.borrow_mut().lost.insert(number);
    }

    async fn saves(&self, guard: &mut Guard) {
        let number = self.append(guard);
        match guard.save().await {
            Ok(version) => self.known.borrow_mut().stored.push((version, number)),
            Err(SaveError::Unknown(_)) => {}
            Err(_) => {
                guard.pop();
                self.known.borrow_mut().lost.insert(number);
            }
        }
    }

    fn committed(&self, number: u32, outcome: Result<FencingToken, CommitError<Vec<u32>>>) {
        let mut known = self.known.borrow_mut();
        match outcome {
            Ok(version) => known.stored.push((version, number)),
            Err(CommitError::Unknown { .. }) => {}
            Err(_) => _ = known.lost.insert(number),
        }
    }

    /// A number that no other holder appends.
    fn append(&self, guard: &mut Guard) -> u32 {
        let mut known = self.known.borrow_mut();
        known.numbers += 1;
        guard.push(known.numbers);
        known.numbers
    }

    async fn reads(&self, mutex: &StoredMutex<Vec<u32>>) {
        let stored: Vec<_> = self.known.borrow().stored.clone();
        let Ok(snapshot) = mutex.snapshot().await else { return };
        for (version, number) in stored {
            assert!(snapshot.value.contains(&number), "{number} is not in {snapshot:?}");
            assert!(snapshot.version >= Some(version), "{snapshot:?} after {version:?}");
        }
        self.known.borrow_mut().seen.push(snapshot.value);
    }

    /// Follows the versions until all tasks are done, and to the last one.
    async fn follows(&self, done: &RefCell<bool>) {
        let mutex = &self.mutexes[0];
        let (mut versions, mut last) = (mutex.subscribe(), None);
        let mut was_done = false;
        loop {
            // The timer of the stream is shorter.
            match timeout(TTL, versions.next()).await {
                Ok(Some(Ok(item))) => {
                    assert!(item.version > last, "{item:?} after {last:?}");
                    last = item.version;
                    self.known.borrow_mut().seen.push(item.value);
                }
                // The store has refused to be read.
                Ok(Some(Err(_))) => {}
                Ok(None) => panic!("a stream ends with its locks"),
                Err(_) if was_done => break,
                Err(_) => was_done = *done.borrow(),
            }
        }
        let latest = self.pair.store.load(&"it".try_into().unwrap()).await.unwrap();
        assert_eq!(last, latest.map(|cell| cell.token), "the stream ends at the latest version");
    }

    async fn ends(&self) {
        let [one, other] = &self.mutexes;
        let value = one.lock().await.unwrap().clone();
        assert_eq!(*other.lock().await.unwrap(), value);
        let mut known = self.known.take();
        known.stored.sort_unstable();
        let places: Vec<_> = known
            .stored
            .iter()
            .map(|(_, number)| value.iter().position(|it| it == number).expect("it is stored"))
            .collect();
        assert!(places.is_sorted_by(|one, next| one < next), "{:?} in {value:?}", known.stored);
        let lost: Vec<_> = value.iter().filter(|number| known.lost.contains(number)).collect();
        assert!(lost.is_empty(), "{lost:?} of {value:?} were not to be stored");
        for seen in known.seen {
            assert!(value.starts_with(&seen), "{seen:?} is no beginning of {value:?}");
        }
        self.pair.all_released().await;
    }
}
