//! The helpers that the tests share.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Cell, CellBackend, Claim, Clock, Error, ErrorKind,
    FencingToken, Fixed, Key, Released, Renew, Renewal, SharedBackend, Stored, Watch,
};
use lock_sync::{Builder, Locks};
use tokio::runtime::Handle;

/// Two clients of one store, which are two processes for the store, and the store.
pub(crate) struct Pair {
    pub(crate) store: MemoryBackend,
    pub(crate) ours: MemoryBackend,
    pub(crate) here: Locks<MemoryBackend>,
    pub(crate) there: Locks<MemoryBackend>,
}

impl Pair {
    /// With drivers on threads of their own.
    pub(crate) fn threaded() -> Self {
        Self::build(|builder| builder)
    }

    /// With the drivers on this runtime, for paused time.
    pub(crate) fn local() -> Self {
        Self::local_with(|builder| builder)
    }

    pub(crate) fn local_with(
        options: impl Fn(Builder<MemoryBackend>) -> Builder<MemoryBackend>,
    ) -> Self {
        Self::build(|builder| options(builder.on_runtime(Handle::current())))
    }

    pub(crate) fn build(
        options: impl Fn(Builder<MemoryBackend>) -> Builder<MemoryBackend>,
    ) -> Self {
        let store = MemoryBackend::new();
        let (ours, theirs) = (store.client(), store.client());
        Self {
            here: options(Locks::builder(ours.clone())).build().unwrap(),
            there: options(Locks::builder(theirs)).build().unwrap(),
            ours,
            store,
        }
    }

    /// One lock on both sides.
    pub(crate) fn mutexes(&self) -> (lock_sync::Mutex<u32>, lock_sync::Mutex<u32>) {
        (self.here.mutex("it", 0).unwrap(), self.there.mutex("it", 0).unwrap())
    }

    /// Waits until the store holds no lease, because of the releases under way.
    pub(crate) async fn all_released(&self) {
        eventually("all leases are released", || self.store.live_leases() == 0).await;
    }
}

/// Runs on a thread of its own, which must end.
pub(crate) fn must_end<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(Duration::from_secs(20)).expect("it hangs, or has panicked")
}

/// Polls a future once, and so many times more or until it is ready, and drops it. The guard goes before the poll of
/// this number, the first being 0, or after the future.
pub(crate) async fn dropped_after<F: Future, G>(
    mut future: std::pin::Pin<Box<F>>,
    more: u32,
    mut guard: Option<G>,
    free: u32,
) {
    for poll in 0..=more {
        if poll == free {
            drop(guard.take());
        }
        if poll_once(future.as_mut()).await.is_ready() {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(future);
    drop(guard);
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    let mut future = Some(future);
    poll_fn(|context| {
        Poll::Ready(match future.take() {
            Some(future) => future.poll(context),
            None => Poll::Pending,
        })
    })
    .await
}

/// The message of a panic of this thread, and the file in which it is said to have happened.
pub(crate) fn panic_of(name: &str, work: impl FnOnce()) -> (String, String) {
    /// There is one hook for the whole process.
    static HOOK: Mutex<()> = Mutex::new(());
    let _alone = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = Arc::new(Mutex::new(None));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new({
        let seen = Arc::clone(&seen);
        let here = std::thread::current().id();
        move |info| {
            if std::thread::current().id() == here {
                let message = info.payload().downcast_ref::<String>().cloned();
                let message = message.or_else(|| {
                    info.payload().downcast_ref::<&str>().map(|text| (*text).to_owned())
                });
                let file = info.location().map(Location::file).map(str::to_owned);
                *seen.lock().unwrap() = message.zip(file);
            }
        }
    }));
    let result = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    assert!(result.is_err(), "{name} must panic");
    let seen = seen.lock().unwrap().take();
    seen.unwrap()
}

/// Asserts that this panics with tokio's message in an asynchronous context, and names this file.
pub(crate) fn assert_refuses_to_block(name: &str, file: &str, work: impl FnOnce()) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (message, named) = panic_of(name, || runtime.block_on(async { work() }));
    assert!(message.contains("Cannot block the current thread from within a runtime"), "{message}");
    assert_eq!(named, file, "{name} must name its caller");
}

/// Lets everything that is ready run, on this runtime and on the drivers' threads, until the
/// condition holds. Fails after a time that no machine needs.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begin = std::time::Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

/// The store of this process with its basic verbs alone: it converts nothing, and may refuse some keys.
pub(crate) struct Basic {
    store: MemoryBackend,
    refuses: fn(&Key) -> Option<ErrorKind>,
    on_watch: Box<dyn Fn(Watch) -> Watch + Send + Sync>,
}

impl Basic {
    pub(crate) fn over(store: MemoryBackend) -> Self {
        Self::without(store, |_| None)
    }

    pub(crate) fn without(store: MemoryBackend, refuses: fn(&Key) -> Option<ErrorKind>) -> Self {
        Self { store, refuses, on_watch: Box::new(|watch| watch) }
    }

    /// Passes each watch through `on_watch` when it begins.
    pub(crate) fn hearing(
        mut self,
        on_watch: impl Fn(Watch) -> Watch + Send + Sync + 'static,
    ) -> Self {
        self.on_watch = Box::new(on_watch);
        self
    }
}

#[async_trait]
impl Backend for Basic {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        if let Some(kind) = (self.refuses)(&request.claim.key) {
            return Err(Error::new(kind, "that part of the store is away, or not ours"));
        }
        self.store.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.store.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.store.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        Ok((self.on_watch)(self.store.watch(key).await?))
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }
}

#[async_trait]
impl CellBackend for Basic {
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        self.store.load(key).await
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error> {
        CellBackend::store(&self.store, claim, token, value).await
    }
}

impl SharedBackend for Basic {
    type Conversion = Fixed;
}
