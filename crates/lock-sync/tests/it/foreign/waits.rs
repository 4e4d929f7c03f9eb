//! A wait for each primitive, and the value that the waiter waits for.

use std::any::Any;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use futures::StreamExt;
use futures::executor::block_on;
use lock_core::Ttl;
use lock_core::memory::{MemoryBackend, Verb};
use lock_sync::{
    AcquireError, Declaration, Locks, OwnedMutexGuard, OwnedSemaphorePermit, Owner, PollSemaphore,
    Semaphore,
};

use super::{poll, poll_into_line};
use crate::support::Pair;

pub(super) type Held = Box<dyn Any + Send + Sync>;
/// Tells whether the waiter got what it waits for.
pub(super) type Waiting = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The value that the waker owns, and the future that waits for it.
pub(super) struct Scene {
    pub(super) held: Held,
    pub(super) waiting: Waiting,
    /// Whether the future completes once the waker has given the lock up.
    pub(super) ends: bool,
    /// The handle that ends the wait when it is closed, if there is one.
    pub(super) closes: Option<Arc<Semaphore>>,
}

impl Scene {
    fn new<F: Future + Send + 'static>(held: impl Send + Sync + 'static, waiting: F) -> Self {
        let waiting = Box::pin(async {
            drop(waiting.await);
            true
        });
        Self { held: Box::new(held), waiting, ends: true, closes: None }
    }

    /// A wait whose end does not depend on the held value.
    fn endless<F: Future + Send + 'static>(held: impl Send + Sync + 'static, waiting: F) -> Self {
        Self { ends: false, ..Self::new(held, waiting) }
    }

    /// A wait for a permit of this handle.
    fn at(
        semaphore: &Arc<Semaphore>,
        held: impl Send + Sync + 'static,
        waiting: impl Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + 'static,
    ) -> Self {
        let waiting = Box::pin(async { waiting.await.is_ok() });
        Self { held: Box::new(held), waiting, ends: true, closes: Some(Arc::clone(semaphore)) }
    }
}

/// One more future that waits, for the waker to own: it leaves the line with the lock.
fn fellow<F: Future>(waiting: F) -> Pin<Box<F>> {
    let mut fellow = Box::pin(waiting);
    poll_into_line(&mut fellow);
    fellow
}

pub(super) fn mutex(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = Arc::new(locks.mutex("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&mutex).lock_owned()).unwrap(), mutex.lock_owned())
}

pub(super) fn a_name(Pair { here: locks, .. }: &Pair) -> Scene {
    Scene::new(block_on(locks.lock("it")).unwrap(), locks.lock("it"))
}

pub(super) fn a_reader(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&lock).write_owned()).unwrap(), lock.read_owned())
}

pub(super) fn a_writer(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    Scene::new(block_on(Arc::clone(&lock).read_owned()).unwrap(), lock.write_owned())
}

pub(super) fn an_upgradable_reader(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    let held = block_on(Arc::clone(&lock).upgradable_read_owned()).unwrap();
    Scene::new(held, lock.upgradable_read_owned())
}

pub(super) fn an_upgrade(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock("it", ()).unwrap());
    let upgradable = block_on(Arc::clone(&lock).upgradable_read_owned()).unwrap();
    Scene::new(block_on(lock.read_owned()).unwrap(), upgradable.upgrade())
}

pub(super) fn a_reader_above_the_maximum(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock_with_max_readers("it", (), 1).unwrap());
    let read = || Arc::clone(&lock).read_owned();
    let held = (block_on(read()).unwrap(), fellow(read()));
    Scene::new(held, read())
}

pub(super) fn a_writer_above_the_maximum(Pair { here: locks, .. }: &Pair) -> Scene {
    let lock = Arc::new(locks.rwlock_with_max_readers("it", (), 1).unwrap());
    Scene::new(block_on(Arc::clone(&lock).read_owned()).unwrap(), lock.write_owned())
}

pub(super) fn the_last_permit(Pair { here: locks, .. }: &Pair) -> Scene {
    let semaphore = Arc::new(locks.semaphore("it", 1).unwrap());
    let acquire = || Arc::clone(&semaphore).acquire_owned();
    let held = (block_on(acquire()).unwrap(), fellow(acquire()));
    Scene::at(&semaphore, held, acquire())
}

pub(super) fn a_polled_permit(Pair { here: locks, .. }: &Pair) -> Scene {
    let semaphore = Arc::new(locks.semaphore("it", 1).unwrap());
    let acquire = || {
        let mut polled = PollSemaphore::new(Arc::clone(&semaphore));
        poll_fn(move |context| polled.poll_acquire(context))
    };
    let held = (block_on(acquire()).unwrap(), fellow(acquire()));
    Scene::at(&semaphore, held, acquire())
}

/// The last permit, and a handle that declares the number of permits with its first request.
fn declared_later(locks: &Locks<MemoryBackend>) -> (OwnedSemaphorePermit, Arc<Semaphore>) {
    let first = Arc::new(locks.semaphore("it", 1).unwrap());
    let later = locks.semaphore("it", 1).unwrap().with_declaration(Declaration::LastWins);
    (block_on(first.acquire_owned()).unwrap(), Arc::new(later))
}

/// The declaration has no answer while the waker lives.
pub(super) fn a_declaration(Pair { here: locks, ours, .. }: &Pair) -> Scene {
    let (permit, later) = declared_later(locks);
    let declarations = ours.faults().on(Verb::Count).hold_requests();
    Scene::at(&later, (declarations, permit), Arc::clone(&later).acquire_owned())
}

pub(super) fn a_permit_after_a_declaration(Pair { here: locks, .. }: &Pair) -> Scene {
    let (permit, later) = declared_later(locks);
    Scene::at(&later, permit, Arc::clone(&later).acquire_owned())
}

pub(super) fn a_slot(Pair { here: locks, .. }: &Pair) -> Scene {
    let slots = Arc::new(locks.slot_semaphore("it", 1).unwrap());
    Scene::new(block_on(Arc::clone(&slots).acquire_owned()).unwrap(), slots.acquire_owned())
}

pub(super) fn an_owner(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = &*Box::leak(Box::new(locks.reentrant_mutex("it", ()).unwrap()));
    let owner = || Box::leak(Box::new(Owner::new().unwrap()));
    Scene::new(block_on(mutex.lock_as(owner())).unwrap(), mutex.lock_as(owner()))
}

pub(super) fn a_scope(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = &*Box::leak(Box::new(locks.reentrant_mutex("it", ()).unwrap()));
    let scope = || Owner::new().unwrap().scope(mutex.lock());
    let held = (block_on(scope()).unwrap(), fellow(scope()));
    Scene::new(held, scope())
}

pub(super) fn several_locks(Pair { here: locks, .. }: &Pair) -> Scene {
    let held = block_on(locks.lock_all(["a", "b"])).unwrap();
    Scene::new(held, locks.lock_all(["b", "c"]))
}

pub(super) fn a_stored_value(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = Arc::new(locks.stored_mutex("it", 0).unwrap());
    let lock = || Arc::clone(&mutex).lock_owned();
    let held = (block_on(lock()).unwrap(), fellow(lock()));
    Scene::new(held, lock())
}

/// The guard stores nothing, so the stream has no news.
pub(super) fn a_stream_of_versions(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = locks.stored_mutex("it", 0).unwrap();
    let next = || {
        let mut versions = mutex.subscribe();
        async move { versions.next().await }
    };
    let held = (block_on(mutex.lock()).unwrap(), fellow(next()));
    Scene::endless(held, next())
}

/// An initialization that does not end.
fn initializing(locks: &Locks<MemoryBackend>) -> impl Send + Sync + use<> {
    let cell = &*Box::leak(Box::new(locks.once_cell::<u32, _>("it").unwrap()));
    let begun = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::clone(&begun);
    let mut initializing = Box::pin(cell.get_or_init(move || {
        begun.store(true, Ordering::Release);
        pending()
    }));
    while !has_begun.load(Ordering::Acquire) {
        assert!(poll(&mut initializing, Waker::noop()).is_pending());
    }
    initializing
}

pub(super) fn an_initialization(Pair { here: locks, .. }: &Pair) -> Scene {
    let cell = || &*Box::leak(Box::new(locks.once_cell::<u32, _>("it").unwrap()));
    let waiting = || cell().get_or_init(async || 7);
    let held = (initializing(locks), fellow(waiting()));
    Scene::new(held, waiting())
}

pub(super) fn an_initialized_value(Pair { here: locks, .. }: &Pair) -> Scene {
    let cell = || &*Box::leak(Box::new(locks.once_cell::<u32, _>("it").unwrap()));
    let held = (initializing(locks), fellow(cell().wait()));
    Scene::endless(held, cell().wait())
}

pub(super) fn a_campaign(Pair { here: locks, .. }: &Pair) -> Scene {
    let election = &*Box::leak(Box::new(locks.election("it").unwrap()));
    Scene::new(block_on(election.campaign("one")).unwrap(), election.campaign("two"))
}

/// The observers know the leader, and wait for its end.
pub(super) fn the_next_leader(Pair { here: locks, .. }: &Pair) -> Scene {
    let election = &*Box::leak(Box::new(locks.election("it").unwrap()));
    let leadership = block_on(election.campaign("one")).unwrap();
    let next = || {
        let mut observer = election.observe();
        assert!(block_on(observer.next()).unwrap().is_some());
        async move { observer.next().await }
    };
    let held = (leadership, fellow(next()));
    Scene::new(held, next())
}

pub(super) fn a_barrier(Pair { here: locks, .. }: &Pair) -> Scene {
    let barrier = &*Box::leak(Box::new(locks.barrier("it", 3).unwrap()));
    Scene::endless(fellow(barrier.wait()), barrier.wait())
}

pub(super) fn a_loss(Pair { here: locks, .. }: &Pair) -> Scene {
    let mutex = Arc::new(locks.mutex("it", ()).unwrap());
    let guard = block_on(mutex.lock_owned()).unwrap();
    let (fellow, lost) =
        (fellow(OwnedMutexGuard::lease(&guard).lost()), OwnedMutexGuard::lease(&guard).lost());
    Scene::endless((guard, fellow), lost)
}

/// The renewal has no answer while the waker lives, and the driver does not ask again in the time of this test.
pub(super) fn an_extension(Pair { here: locks, ours, .. }: &Pair) -> Scene {
    let ttl = |secs| Ttl::new(Duration::from_secs(secs)).unwrap();
    let mutex = Arc::new(locks.mutex("it", ()).unwrap().with_ttl(ttl(600)));
    let guard = block_on(mutex.lock_owned()).unwrap();
    let renewals = ours.faults().on(Verb::Renew).hold_requests();
    let extending = OwnedMutexGuard::lease(&guard).extend(ttl(900));
    Scene::new((renewals, guard), extending)
}
