//! Which runtime receives the hints of the store.

use std::pin::pin;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use futures::StreamExt as _;
use lock_core::memory::MemoryBackend;
use lock_core::{Hint, InspectBackend as _, Key, Watch};
use lock_sync::{Handoff, Locks, Mutex, OnceCell};
use tokio::runtime::{Builder, Handle, Id, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::{Basic, poll_once};

/// A store that records the runtime on which each watch begins, and the thread that reads each grant.
fn heard(
    store: MemoryBackend,
    watches: UnboundedSender<Id>,
    grants: UnboundedSender<ThreadId>,
) -> Basic {
    Basic::over(store).hearing(move |watch| {
        let _ = watches.send(Handle::current().id());
        let grants = grants.clone();
        Watch::new(watch.inspect(move |hint| {
            if matches!(hint, Hint::Granted { .. }) {
                let _ = grants.send(thread::current().id());
            }
        }))
    })
}

/// Two processes with one lock. The store records the events of the first process.
struct Scene {
    store: MemoryBackend,
    here: Arc<Mutex<()>>,
    there: Mutex<()>,
    watches: UnboundedReceiver<Id>,
    grants: UnboundedReceiver<ThreadId>,
}

impl Scene {
    fn new() -> Self {
        let store = MemoryBackend::new();
        let (watched, watches) = unbounded_channel();
        let (granted, grants) = unbounded_channel();
        let ours = heard(store.client(), watched, granted);
        let here = Locks::builder(ours).handoff(Handoff::Fair).build().unwrap();
        let there = Locks::builder(store.client()).handoff(Handoff::Fair).build().unwrap();
        let here = Arc::new(here.mutex("it", ()).unwrap());
        Self { here, there: there.mutex("it", ()).unwrap(), store, watches, grants }
    }

    /// Spawns a task on this runtime that takes the lock and reports the thread. Returns once the task is in line.
    async fn waiter(&self, runtime: &Runtime) -> JoinHandle<ThreadId> {
        let (here, (sender, in_line)) = (Arc::clone(&self.here), oneshot::channel());
        let waiter = runtime.spawn(async move {
            let mut lock = pin!(here.lock());
            assert!(poll_once(lock.as_mut()).await.is_pending());
            sender.send(()).unwrap();
            let _guard = lock.await.unwrap();
            thread::current().id()
        });
        in_line.await.unwrap();
        waiter
    }
}

/// Returns once a claim has a place in the queue.
async fn queued(store: &MemoryBackend) {
    let key = Key::new("it").unwrap();
    while store.inspect(&key).await.unwrap().waiting == 0 {
        tokio::task::yield_now().await;
    }
}

/// A once cell, and the runtimes on which its process begins to listen.
fn cell() -> (OnceCell<u32>, UnboundedReceiver<Id>) {
    let (watched, watches) = unbounded_channel();
    let (granted, _) = unbounded_channel();
    let locks = Locks::new(heard(MemoryBackend::new(), watched, granted));
    (locks.once_cell("it").unwrap(), watches)
}

fn threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[tokio::test]
async fn the_thread_that_reads_a_grant_goes_on_with_the_waiter() {
    let (mut scene, runtime) = (Scene::new(), threads());
    let guard = scene.there.lock().await.unwrap();
    let waiter = scene.waiter(&runtime).await;
    assert_eq!(scene.watches.recv().await, Some(runtime.handle().id()));
    queued(&scene.store).await;
    drop(guard);
    let served = waiter.await.unwrap();
    assert_eq!(scene.grants.recv().await, Some(served), "no other thread wakes for it");
    runtime.shutdown_background();
}

#[tokio::test]
async fn the_driver_listens_for_a_runtime_that_may_stand_still() {
    let Scene { store, here, there, mut watches, .. } = Scene::new();
    let guard = there.lock().await.unwrap();
    // This very runtime has one thread, and nothing polls it between two calls of `block_on`.
    let (held, ()) = futures::join!(here.lock(), async {
        assert_ne!(watches.recv().await, Some(Handle::current().id()));
        queued(&store).await;
        drop(guard);
    });
    drop(held.unwrap());
}

#[tokio::test]
async fn the_driver_listens_once_the_runtime_that_listened_has_gone() {
    let (mut scene, first) = (Scene::new(), threads());
    let guard = scene.there.lock().await.unwrap();
    let gone = scene.waiter(&first).await;
    assert_eq!(scene.watches.recv().await, Some(first.handle().id()));
    queued(&scene.store).await;
    let second = threads();
    let waiter = scene.waiter(&second).await;
    let ids = [first.handle().id(), second.handle().id(), Handle::current().id()];
    first.shutdown_background();
    assert!(gone.await.unwrap_err().is_cancelled());
    let driver = scene.watches.recv().await.unwrap();
    assert!(!ids.contains(&driver), "no task has asked on another runtime of the app");
    drop(guard);
    waiter.await.unwrap();
    second.shutdown_background();
}

#[tokio::test]
async fn a_task_that_waits_for_a_value_does_not_make_the_driver_listen() {
    let ((cell, mut watches), runtime) = (cell(), threads());
    let waiting = runtime.spawn(async move { cell.wait().await.copied() });
    assert_eq!(watches.recv().await, Some(runtime.handle().id()));
    waiting.abort();
    runtime.shutdown_background();
}

#[tokio::test]
async fn the_driver_listens_for_a_value_that_a_runtime_with_one_thread_waits_for() {
    let (cell, mut watches) = cell();
    let listens = tokio::select! {
        listens = watches.recv() => listens.unwrap(),
        found = cell.wait() => panic!("no client has stored {found:?}"),
    };
    assert_ne!(listens, Handle::current().id());
}
