//! A waker owns the guard that its waiter waits for, as the waker of a task that owns a guard does. The drop of the
//! last clone gives the lock back.

use std::any::Any;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

use futures::executor::block_on;
use lock_core::Ttl;
use lock_core::memory::Verb;
use lock_sync::{OwnedMutexGuard, Owner};

use super::{in_time, poll, poll_into_line, until};
use crate::support::Pair;

type Held = Box<dyn Any + Send + Sync>;
type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The value that the waker owns, and the future that waits for it.
struct Scene {
    held: Held,
    waiting: Waiting,
    /// Whether the future completes once the waker has given the lock up.
    ends: bool,
}

impl Scene {
    fn new<F: Future + Send + 'static>(held: impl Send + Sync + 'static, waiting: F) -> Self {
        let waiting = Box::pin(async { drop(waiting.await) });
        Self { held: Box::new(held), waiting, ends: true }
    }
}

/// One more future that waits, for the waker to own: it leaves the line with the lock.
fn fellow<F: Future>(waiting: F) -> Pin<Box<F>> {
    let mut fellow = Box::pin(waiting);
    poll_into_line(&mut fellow);
    fellow
}

struct Owning {
    _held: Held,
}

impl Wake for Owning {
    fn wake(self: Arc<Self>) {}
}

type Setting = fn(&Pair) -> Scene;

fn mutex(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = Arc::new(locks.mutex("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&mutex).lock_owned()).unwrap(), mutex.lock_owned())
}

fn a_reader(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&lock).write_owned()).unwrap(), lock.read_owned())
}

fn a_writer(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&lock).read_owned()).unwrap(), lock.write_owned())
}

fn an_upgrade(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    let upgradable = block_on(Arc::clone(&lock).upgradable_read_owned()).unwrap();
    Scene::new(block_on(lock.read_owned()).unwrap(), upgradable.upgrade())
}

fn the_last_permit(Pair { here: locks, .. }: &Pair) -> Scene {
    let semaphore = Arc::new(locks.semaphore("it", 1).unwrap());
    let acquire = || Arc::clone(&semaphore).acquire_owned();
    let held = (block_on(acquire()).unwrap(), fellow(acquire()));
    Scene::new(held, acquire())
}

fn a_slot(Pair { here: locks, .. }: &Pair) -> Scene {
    let slots = Arc::new(locks.slot_semaphore("it", 1).unwrap());
    Scene::new(block_on(Arc::clone(&slots).acquire_owned()).unwrap(), slots.acquire_owned())
}

fn reentrant(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = &*Box::leak(Box::new(locks.reentrant_mutex("it", ()).unwrap()));
    let owner = || Box::leak(Box::new(Owner::new().unwrap()));
    Scene::new(block_on(mutex.lock_as(owner())).unwrap(), mutex.lock_as(owner()))
}

fn lock_all(Pair { here: locks, .. }: &Pair) -> Scene {
    let held = block_on(locks.lock_all(["a", "b"])).unwrap();
    Scene::new(held, locks.lock_all(["b", "c"]))
}

fn once_cell(Pair { here: locks, .. }: &Pair) -> Scene {
    let cell = || &*Box::leak(Box::new(locks.once_cell::<u32, _>("it").unwrap()));
    let begun = Arc::new(AtomicBool::new(false));
    let mut held = Box::pin({
        let (cell, begun) = (cell(), Arc::clone(&begun));
        cell.get_or_init(move || {
            begun.store(true, Ordering::Release);
            pending()
        })
    });
    while !begun.load(Ordering::Acquire) {
        assert!(poll(&mut held, Waker::noop()).is_pending());
    }
    let waiting = || cell().get_or_init(async || 7);
    Scene::new((held, fellow(waiting())), waiting())
}

fn election(Pair { here: locks, .. }: &Pair) -> Scene {
    let election = &*Box::leak(Box::new(locks.election("it").unwrap()));
    Scene::new(block_on(election.campaign("one")).unwrap(), election.campaign("two"))
}

fn barrier(Pair { here: locks, .. }: &Pair) -> Scene {
    let barrier = &*Box::leak(Box::new(locks.barrier("it", 3).unwrap()));
    Scene { ends: false, ..Scene::new(fellow(barrier.wait()), barrier.wait()) }
}

fn a_loss(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = Arc::new(locks.mutex("it", ()).unwrap());
    let guard = block_on(mutex.lock_owned()).unwrap();
    let (fellow, lost) =
        (fellow(OwnedMutexGuard::lease(&guard).lost()), OwnedMutexGuard::lease(&guard).lost());
    Scene { ends: false, ..Scene::new((guard, fellow), lost) }
}

/// The renewal has no answer while the waker lives, and the driver does not ask again in the time of this test.
fn an_extension(Pair { here: locks, ours, .. }: &Pair) -> Scene {
    let ttl = |secs| Ttl::new(Duration::from_secs(secs)).unwrap();
    let mutex = Arc::new(locks.mutex("it", ()).unwrap().with_ttl(ttl(600)));
    let guard = block_on(mutex.lock_owned()).unwrap();
    let renewals = ours.faults().on(Verb::Renew).hold_requests();
    let extending = OwnedMutexGuard::lease(&guard).extend(ttl(900));
    Scene::new((renewals, guard), extending)
}

/// Parks a waker that owns the lock: the engine has the only clone afterwards.
fn park(setting: Setting, pair: &Pair) -> (Waiting, bool) {
    let Scene { held, mut waiting, ends } = setting(pair);
    poll_into_line(&mut waiting);
    let waker = Waker::from(Arc::new(Owning { _held: held }));
    assert!(poll(&mut waiting, &waker).is_pending());
    (waiting, ends)
}

fn nothing_is_held(pair: &Pair) {
    until("all leases are released", || pair.store.live_leases() == 0);
}

fn dropped_by_a_cancelled_future(setting: Setting) {
    let pair = Pair::threaded();
    let (waiting, _) = park(setting, &pair);
    drop(waiting);
    nothing_is_held(&pair);
}

fn dropped_by_the_next_waker(setting: Setting) {
    let pair = Pair::threaded();
    let (mut waiting, ends) = park(setting, &pair);
    let polled = poll(&mut waiting, Waker::noop());
    if ends && polled.is_pending() {
        block_on(waiting);
    } else {
        drop(waiting);
    }
    nothing_is_held(&pair);
}

fn dropped_by_the_shutdown(setting: Setting) {
    let pair = Pair::threaded();
    let (waiting, ends) = park(setting, &pair);
    block_on(pair.here.shutdown());
    if ends {
        block_on(waiting);
    } else {
        drop(waiting);
    }
    nothing_is_held(&pair);
}

macro_rules! settings {
    ($($name:ident: $setting:path;)*) => {
        mod cancelled {
            $(#[test]
            fn $name() {
                super::in_time(stringify!($name), || super::dropped_by_a_cancelled_future($setting));
            })*
        }

        mod replaced {
            $(#[test]
            fn $name() {
                super::in_time(stringify!($name), || super::dropped_by_the_next_waker($setting));
            })*
        }

        mod shut_down {
            $(#[test]
            fn $name() {
                super::in_time(stringify!($name), || super::dropped_by_the_shutdown($setting));
            })*
        }
    };
}

settings! {
    mutex: super::mutex;
    reader: super::a_reader;
    writer: super::a_writer;
    upgrade: super::an_upgrade;
    semaphore: super::the_last_permit;
    slots: super::a_slot;
    reentrant: super::reentrant;
    lock_all: super::lock_all;
    once_cell: super::once_cell;
    election: super::election;
    barrier: super::barrier;
    lost: super::a_loss;
    extended: super::an_extension;
}

/// Closing one handle, or all of them, wakes the waiters.
#[test]
fn dropped_by_close() {
    for for_all in [false, true] {
        in_time("close", move || {
            let pair = Pair::threaded();
            let semaphore = Arc::new(pair.here.semaphore("it", 1).unwrap());
            let held = block_on(Arc::clone(&semaphore).acquire_owned()).unwrap();
            let mut waiting = Box::pin(Arc::clone(&semaphore).acquire_owned());
            poll_into_line(&mut waiting);
            let waker = Waker::from(Arc::new(Owning { _held: Box::new(held) }));
            assert!(poll(&mut waiting, &waker).is_pending());
            drop(waker);
            if for_all {
                block_on(semaphore.close_for_all()).unwrap();
            } else {
                semaphore.close();
            }
            assert!(block_on(waiting).is_err());
            nothing_is_held(&pair);
        });
    }
}
