//! Readers that share a lease, and what gets in their way: a writer, an upgrade, another process, the end of the lease
//! and the end of the locks.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, ErrorKind};
use lock_interleavings::{
    Lease, Locks, OwnedRwLockReadGuard, OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard,
    RwLock,
};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::Ordering;
use shuttle::thread;
use tokio::runtime::Runtime;

use super::{advance, chance, explore, key, owner, take_time, ttl, up_to};

const READERS: usize = 3;
const ROUNDS: usize = 5;

#[test]
fn readers_and_a_writer_take_turns() {
    tell(Scene { rival: false, ends: false });
}

#[test]
fn readers_share_a_lease_until_another_process_wants_it() {
    tell(Scene { rival: true, ends: false });
}

#[test]
fn readers_hear_of_the_end() {
    tell(Scene { rival: true, ends: true });
}

#[derive(Clone, Copy)]
struct Scene {
    /// Whether another process wants the lock.
    rival: bool,
    /// Whether the store forgets its leases, and the locks end, while tasks use them.
    ends: bool,
}

fn tell(scene: Scene) {
    explore(move |runtime| live(runtime, scene));
}

fn live(runtime: &Runtime, scene: Scene) {
    let house = Arc::new(House::new(runtime, scene));
    let mut threads: Vec<_> = (0..READERS).map(|_| house.spawn(House::read)).collect();
    threads.push(house.spawn(House::write));
    if scene.rival {
        threads.push(house.spawn(House::rival));
    }
    if scene.ends && chance(1, 2) {
        house.store.forget();
    }
    if scene.ends && chance(1, 2) {
        block_on(house.locks.shutdown());
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // By then every lease is over, whether a release reached the store or not.
    advance(ttl().duration());
    block_on(house.locks.shutdown());
    assert_eq!(house.store.live_leases(), 0, "left behind on the store");
    drop(house);
}

/// One process, the store, and the guards of the process.
struct House {
    store: MemoryBackend,
    locks: Locks<MemoryBackend>,
    lock: Arc<RwLock<u64>>,
    forgets: bool,
    /// How many guards of this process read, whether they have their lease or not.
    reading: AtomicUsize,
    writing: AtomicUsize,
    /// The leases of guards that read.
    leases: Mutex<Vec<(usize, Lease)>>,
    /// The highest token of a writer so far.
    written: Mutex<u64>,
}

impl House {
    fn new(runtime: &Runtime, scene: Scene) -> Self {
        let store = MemoryBackend::new();
        let locks = Locks::builder(store.client()).on_runtime(runtime.handle().clone());
        let locks = locks.ttl(ttl().duration()).build().unwrap();
        let lock = Arc::new(locks.rwlock(key(), 0).unwrap());
        Self {
            store,
            locks,
            lock,
            forgets: scene.ends,
            reading: AtomicUsize::new(0),
            writing: AtomicUsize::new(0),
            leases: Mutex::default(),
            written: Mutex::default(),
        }
    }

    fn spawn(self: &Arc<Self>, what: fn(&Self)) -> thread::JoinHandle<()> {
        let house = Arc::clone(self);
        thread::spawn(move || what(&house))
    }

    fn read(&self) {
        for _ in 0..ROUNDS {
            let Some(guard) = self.begin_to_read() else { continue };
            self.reading.fetch_add(1, Ordering::SeqCst);
            assert_eq!(self.writing.load(Ordering::SeqCst), 0, "a writer beside a reader");
            let seen = *guard;
            let named = chance(1, 2).then(|| self.note(&guard));
            thread::yield_now();
            if chance(1, 4) {
                take_time();
            }
            assert_eq!(*guard, seen, "the data has changed under a reader");
            if let Some(number) = named {
                self.leases.lock().unwrap().retain(|(other, _)| *other != number);
            }
            self.reading.fetch_sub(1, Ordering::SeqCst);
            if chance(1, 4) {
                block_on(OwnedRwLockReadGuard::release(guard)).unwrap_or_default();
            }
        }
    }

    fn begin_to_read(&self) -> Option<OwnedRwLockReadGuard<u64>> {
        let lock = Arc::clone(&self.lock);
        match thread_rng().gen_range(0..5) {
            0 => block_on(lock.try_read_owned()).ok(),
            1 => block_on(lock.read_owned_timeout(up_to(ttl().duration()))).ok(),
            _ => block_on(lock.read_owned()).ok(),
        }
    }

    /// Notes the lease of this guard.
    fn note(&self, guard: &OwnedRwLockReadGuard<u64>) -> usize {
        let (number, lease) =
            (std::ptr::from_ref(guard).addr(), OwnedRwLockReadGuard::lease(guard));
        let token = lease.fencing_token().get();
        assert!(self.forgets || token >= *self.written.lock().unwrap(), "an earlier token");
        self.leases.lock().unwrap().push((number, lease));
        number
    }

    /// Writes, directly or by an upgrade.
    fn write(&self) {
        for _ in 0..2 {
            let upgrades = chance(1, 2);
            let guard = if upgrades { self.upgrade() } else { self.begin_to_write() };
            let Some(mut guard) = guard else { continue };
            self.writing.fetch_add(1, Ordering::SeqCst);
            assert_eq!(self.reading.load(Ordering::SeqCst), 0, "a reader beside a writer");
            let token = OwnedRwLockWriteGuard::lease(&guard).fencing_token().get();
            let before = std::mem::replace(&mut *self.written.lock().unwrap(), token);
            assert!(self.forgets || before < token, "{token} after {before}");
            *guard += 1;
            thread::yield_now();
            self.writing.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn begin_to_write(&self) -> Option<OwnedRwLockWriteGuard<u64>> {
        block_on(Arc::clone(&self.lock).write_owned()).ok()
    }

    fn upgrade(&self) -> Option<OwnedRwLockWriteGuard<u64>> {
        let guard = block_on(Arc::clone(&self.lock).upgradable_read_owned()).ok()?;
        thread::yield_now();
        block_on(OwnedRwLockUpgradableReadGuard::upgrade(guard)).ok()
    }

    /// Another process, which asks again and again.
    fn rival(&self) {
        let client = self.store.client();
        for _ in 0..2 {
            let claim = Claim::exclusive(key(), owner());
            let request = Acquire::new(claim.clone(), ttl()).queued();
            loop {
                match block_on(client.try_acquire(&request)) {
                    Ok(AcquireOutcome::Granted(_)) => break,
                    _ => thread::yield_now(),
                }
                take_time();
            }
            let leases = self.leases.lock().unwrap().clone();
            let valid = leases.iter().filter(|(_, lease)| lease.is_valid()).count();
            assert!(self.forgets || valid == 0, "{valid} readers beside another process");
            if chance(1, 4) {
                self.store.faults().fail_next(1, ErrorKind::Unreachable);
            }
            block_on(client.release(&claim)).map(drop).unwrap_or_default();
        }
    }
}
