//! The guard: a copy of the value, and a lease on the lock.

use std::fmt;
use std::ops::{Deref, DerefMut};

use lock_core::{FencingToken, Key};

use super::core::Core;
use crate::bare::Hold;
use crate::foreign::survive;
use crate::recipes::stored::codec::Json;

/// A copy of the value of a [`StoredMutex`](crate::StoredMutex), and a lease on its lock.
///
/// [`commit`](Self::commit) stores the value and releases the lock. [`save`](Self::save) stores the value and keeps the
/// lock.
///
/// # Dropping
///
/// **Dropping the guard discards the changes** since the last save: the store and the next guard keep the value as it
/// was. If the guard has given mutable access since then, a log line at the level `debug` says so. The drop gives the
/// lock up as the drop of a [`MutexGuard`](crate::MutexGuard#dropping) does. Use [`release`](Self::release) to discard
/// the changes and to wait for the store.
///
/// # If the lease is lost
///
/// The guard still gives access to its copy. But another process may get the lock, and
/// [`commit`](Self::commit) stores nothing any more: it returns the value with the reason.
#[clippy::has_significant_drop]
#[must_use = "if unused the StoredMutex will immediately unlock"]
pub struct StoredMutexGuard<T, C = Json> {
    // The value is dropped first.
    pub(super) value: T,
    pub(super) changes: Changes,
    pub(super) hold: Hold,
    pub(super) core: Core<C>,
    pub(super) version: Option<FencingToken>,
}

/// The state of the changes. If the guard is dropped with changes, the log says so.
pub(super) struct Changes {
    key: Key,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// There are no changes, the store has them, or the caller gets them back.
    Clear,
    Unsaved,
    /// A request to store the changes has no answer.
    InDoubt,
}

impl Changes {
    /// The store has the changes, or the caller gets them back.
    pub(super) fn clear(&mut self) {
        self.fate = Fate::Clear;
    }

    /// The caller may have made changes, or a write of changes failed.
    pub(super) fn keep(&mut self) {
        self.fate = Fate::Unsaved;
    }

    /// A request to store the value is sent.
    pub(super) fn doubt(&mut self) {
        self.fate = Fate::InDoubt;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let key = &self.key;
        survive(|| match self.fate {
            Fate::Clear => {}
            Fate::Unsaved => {
                tracing::debug!(%key, "a guard was dropped without a commit: its changes are discarded");
            }
            Fate::InDoubt => {
                tracing::debug!(%key, "a write of the value has no answer: the changes may be stored");
            }
        });
    }
}

impl<T, C> StoredMutexGuard<T, C> {
    pub(super) fn new(value: T, version: Option<FencingToken>, hold: Hold, core: Core<C>) -> Self {
        let changes = Changes { key: hold.key().clone(), fate: Fate::Clear };
        Self { value, changes, hold, core, version }
    }

    /// The version of the value that is stored: the fencing token of the holder that stored it. `None` for the initial
    /// value.
    ///
    /// An associated function, so that it does not hide methods of the value.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, StoredMutexGuard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let counter = locks.stored_mutex("counter", 0)?;
    /// let mut guard = counter.lock().await?;
    /// assert_eq!(StoredMutexGuard::version(&guard), None);
    /// *guard += 1;
    /// let version = guard.commit().await?;
    /// assert_eq!(StoredMutexGuard::version(&counter.lock().await?), Some(version));
    /// # Ok(())
    /// # }
    /// ```
    pub fn version(this: &Self) -> Option<FencingToken> {
        this.version
    }

    /// Returns the value without storing it, and gives the lock up.
    pub(super) fn into_value(self) -> T {
        let Self { value, mut changes, .. } = self;
        changes.clear();
        value
    }

    crate::guard::leased!(
        "Discards the changes and releases the lock, and waits until the store has confirmed the release or another task \
         of this process has the lock.",
        (this: &Self) => crate::Lease::of(&this.hold),
        (this: Self) => {
            let Self { value, changes, hold, .. } = this;
            drop((value, changes));
            hold.release().await
        }
    );
}

impl<T, C> Deref for StoredMutexGuard<T, C> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T, C> DerefMut for StoredMutexGuard<T, C> {
    fn deref_mut(&mut self) -> &mut T {
        self.changes.keep();
        &mut self.value
    }
}

impl<T: fmt::Debug, C> fmt::Debug for StoredMutexGuard<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: fmt::Display, C> fmt::Display for StoredMutexGuard<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
