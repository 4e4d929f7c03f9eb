//! The runtime on which a process listens for hints.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id, RuntimeFlavor};

/// The runtime on which a process listens for hints: one on which tasks wait for locks.
///
/// There a grant that the store pushes wakes one thread, which goes on with the waiter. On the driver it would wake
/// the driver's thread, and after that the waiter's.
///
/// Only a runtime with several threads will do, because those poll it whatever the waiter does. Nothing polls a
/// runtime with one thread after its `block_on` has returned. Without a runtime here, the driver listens.
#[derive(Default)]
pub(super) struct Ears {
    /// Whether there is a runtime, for a look without the lock.
    known: AtomicBool,
    runtime: Mutex<Option<Handle>>,
}

impl Ears {
    /// A task asks for a lock on the present runtime.
    pub(super) fn ask_here(&self) {
        if self.known.load(Ordering::Relaxed) {
            return;
        }
        let Ok(here) = Handle::try_current() else { return };
        if here.runtime_flavor() == RuntimeFlavor::MultiThread {
            *self.lock() = Some(here);
            self.known.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn runtime(&self) -> Option<Handle> {
        self.lock().clone()
    }

    /// This runtime has dropped a task that listened.
    pub(super) fn lose(&self, gone: Id) {
        let mut runtime = self.lock();
        if runtime.as_ref().is_some_and(|present| present.id() == gone) {
            *runtime = None;
            self.known.store(false, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Handle>> {
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
