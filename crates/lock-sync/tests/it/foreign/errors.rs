//! The drop of the last copy of an error of the store asks for the lock, which needs the entry.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use async_trait::async_trait;
use futures::executor::block_on;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, Key, Released, Renew,
    Renewal, Watch,
};
use lock_sync::Locks;

use super::{in_time, poll, until};

/// A store that fails once, with an error whose drop asks for the lock.
struct Fails {
    store: MemoryBackend,
    next: Mutex<Option<(Verb, ErrorKind)>>,
    lock: OnceLock<Weak<lock_sync::Mutex<()>>>,
    errors: Arc<()>,
}

struct Asks {
    lock: Weak<lock_sync::Mutex<()>>,
    _alive: Arc<()>,
}

impl Drop for Asks {
    fn drop(&mut self) {
        if let Some(lock) = self.lock.upgrade() {
            let _ = poll(&mut Box::pin(lock.lock_owned()), Waker::noop());
        }
    }
}

impl fmt::Debug for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asks")
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error that asks for the lock")
    }
}

impl StdError for Asks {}

impl Fails {
    fn on(&self, verb: Verb) -> Result<(), Error> {
        let mut next = self.next.lock().unwrap();
        let Some((_, kind)) = next.take_if(|(next, _)| *next == verb) else { return Ok(()) };
        drop(next);
        let lock = self.lock.get().cloned().unwrap();
        let source = Asks { lock, _alive: Arc::clone(&self.errors) };
        Err(Error::with_source(kind, "the store fails on purpose", source))
    }

    /// Whether every error is gone.
    fn is_clean(&self) -> bool {
        self.has_failed() && Arc::strong_count(&self.errors) == 1
    }

    fn has_failed(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

/// A handle on the backend that the test keeps.
#[derive(Clone)]
struct Handle(Arc<Fails>);

#[async_trait]
impl Backend for Handle {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        tokio::task::yield_now().await;
        self.0.on(Verb::Acquire)?;
        self.0.store.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        match self.0.on(Verb::Renew) {
            Ok(()) => self.0.store.renew(request).await,
            Err(error) => Renewal::Unknown(error),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.0.on(Verb::Release)?;
        self.0.store.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.0.store.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.0.store.clock()
    }
}

/// Runs `act` with a lock over a store that fails once in this way, and waits until the error is gone.
fn once(verb: Verb, kind: ErrorKind, act: fn(Arc<lock_sync::Mutex<()>>, &Fails)) {
    in_time("an error that asks for the lock", move || {
        let fails = Arc::new(Fails {
            store: MemoryBackend::new(),
            next: Mutex::new(Some((verb, kind))),
            lock: OnceLock::new(),
            errors: Arc::default(),
        });
        let locks = Locks::builder(Handle(Arc::clone(&fails)));
        let locks = locks.ttl(Duration::from_secs(3)).build().unwrap();
        let lock = Arc::new(locks.mutex("it", ()).unwrap());
        fails.lock.set(Arc::downgrade(&lock)).unwrap();
        act(Arc::clone(&lock), &fails);
        until("the error is dropped", || fails.is_clean());
    });
}

#[test]
fn the_error_of_a_request_that_succeeds_later() {
    once(Verb::Acquire, ErrorKind::Unreachable, |lock, _| {
        drop(block_on(lock.lock_owned()).unwrap());
    });
}

#[test]
fn the_error_that_a_waiter_never_hears_of() {
    once(Verb::Acquire, ErrorKind::Denied, |lock, _| {
        let mut first = Box::pin(Arc::clone(&lock).lock_owned());
        let mut second = Box::pin(lock.lock_owned());
        // The first waiter enters the line, and the second one behind it. The first one hears of the error.
        assert!(poll(&mut first, Waker::noop()).is_pending());
        assert!(poll(&mut second, Waker::noop()).is_pending());
        assert!(block_on(first).is_err());
        drop(second);
    });
}

#[test]
fn the_error_of_a_renewal() {
    once(Verb::Renew, ErrorKind::Unreachable, |lock, fails| {
        let guard = block_on(Arc::clone(&lock).lock_owned()).unwrap();
        // The renewal comes after a third of the lease, and is repeated.
        until("a renewal has failed", || fails.has_failed());
        drop(guard);
    });
}

#[test]
fn the_error_of_a_release_that_succeeds_later() {
    once(Verb::Release, ErrorKind::Unreachable, |lock, _| {
        drop(block_on(Arc::clone(&lock).lock_owned()).unwrap());
    });
}
