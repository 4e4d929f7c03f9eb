//! The runtime on which a process listens for hints.

use std::sync::PoisonError;

use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The runtime on which a process listens for hints: a runtime on which tasks wait for locks.
///
/// On such a runtime a grant that the store pushes wakes one thread, which then runs the waiter. On the driver the
/// grant would wake the driver's thread first and the waiter's thread second.
///
/// The runtime must have several threads, because they poll it whatever the waiter does. Nothing polls a runtime
/// with one thread after its `block_on` has returned. If no suitable runtime is known, the driver listens.
#[derive(Default)]
pub(super) struct Ears {
    /// Whether a runtime is known. Read without the lock.
    known: AtomicBool,
    runtime: Mutex<Option<Handle>>,
}

/// The current runtime, if it has several threads: only such a runtime is fit to listen.
pub(crate) fn fit_to_listen() -> Option<Handle> {
    let here = Handle::try_current().ok()?;
    (here.runtime_flavor() == RuntimeFlavor::MultiThread).then_some(here)
}

impl Ears {
    /// A task on the current runtime asks for a lock.
    pub(super) fn ask_here(&self) {
        if self.known.load(Ordering::Relaxed) {
            return;
        }
        if let Some(here) = fit_to_listen() {
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
