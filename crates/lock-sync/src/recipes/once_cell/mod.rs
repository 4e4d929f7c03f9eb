//! A value that one process computes and all processes read.

mod error;
mod finding;
mod init;

use std::fmt;
use std::sync::OnceLock;

use lock_core::{CellBackend, Error, ErrorKind, Key};
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, MutexGuard};

pub use error::{OnceCellError, SetError};

use crate::bare::Limit;
use crate::foreign::Shielded;
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::options::options;
use crate::recipes::cell::RemoteCell;

/// A value that one of all processes initializes, and that all others read: a [`tokio::sync::OnceCell`] whose value
/// is in the store.
///
/// [`Locks::once_cell`] makes a cell and gives it a name. The first caller that needs the value computes the value
/// under the lock with that name, and stores it beside the lock, as JSON. All other callers load the value from the
/// store. A cell keeps the value that it has loaded. From then on, [`get`](Self::get) returns the value without a
/// request.
///
/// The store keeps the value, also when every process has ended. [`reset`](Self::reset) erases the value. The
/// value may have up to 64 KiB as JSON. The store can read it, so do not store secrets.
///
/// # Attempts to initialize
///
/// One attempt runs at a time. If an attempt fails, is cancelled or panics, or if its process dies, the next waiter
/// makes another attempt: after a crash, as soon as the lease of the dead process has ended. If an attempt loses its
/// lease, its work is dropped and its value is not stored, because another attempt may run by then. If a process stood
/// still and has not noticed the loss, its attempt cannot store a value either: the store refuses the write.
///
/// So the store never has more than one value, and all callers get that value. But the work for the value may begin
/// more than once. If the initialization has side effects that matter, use a [`Mutex`](crate::Mutex) and its fencing
/// token for them.
///
/// # One value for all
///
/// In a store of several servers, a majority decides. If a write has failed, or its writer has died, only some servers
/// may have the value. Then some processes see the value and others do not. Such a value is not *settled*
/// ([`Cell::settled`](lock_core::Cell::settled)), and no cell returns or keeps it. A cell that finds such a value
/// waits as long as the writer holds the lock. Then the cell takes the lock, and stores the value once more before it
/// returns the value. So an attempt that failed while it stored its value may still determine the value. A single
/// server has no such values.
///
/// [`reset`](Self::reset) is an exception. After a failed reset, some callers may find no value, and later callers the
/// old value, as long as too many servers are silent to know the majority.
///
/// # Differences from `tokio::sync::OnceCell`
///
/// - [`Locks::once_cell`] makes it, and its value must be [`Serialize`](serde::Serialize) and [`DeserializeOwned`].
///   There is no `new`, `const_new`, `new_with`, `Default` or `From<T>`, because a cell needs a name and a
///   store. There is no `Clone` or `PartialEq`, because two cells with one name are one cell.
/// - [`get_or_init`](Self::get_or_init) returns a `Result`: the store may be out of reach.
/// - [`set`](Self::set) is `async`, and its error has one more variant.
/// - [`get`](Self::get), [`initialized`](Self::initialized), [`get_mut`](Self::get_mut),
///   [`take`](Self::take) and [`into_inner`](Self::into_inner) concern the value in this cell. They send no request,
///   and change nothing for other cells.
/// - Additional: [`load`](Self::load), which asks the store; [`wait`](Self::wait), as `SetOnce` has it;
///   [`reset`](Self::reset); [`key`](Self::key).
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, OnceCell};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = MemoryBackend::new();
/// // In every process:
/// let locks = Locks::new(store.client());
/// let tenant: OnceCell<u64> = locks.once_cell("tenant")?;
/// let id = *tenant.get_or_init(async || 42).await?;
/// # assert_eq!(id, 42);
///
/// # let locks = Locks::new(store.client());
/// # let tenant: OnceCell<u64> = locks.once_cell("tenant")?;
/// assert_eq!(*tenant.get_or_init(async || unreachable!("another client was faster")).await?, 42);
/// # Ok(())
/// # }
/// ```
pub struct OnceCell<T> {
    remote: RemoteCell,
    /// What this cell has read or stored.
    value: OnceLock<T>,
    /// One task of each cell asks the store. The other tasks then find the value here.
    turn: Mutex<()>,
}

/// The turn of a task to ask the store. Its drop wakes the next task.
type Turn<'a> = Shielded<MutexGuard<'a, ()>>;

impl<B: ?Sized> Locks<B> {
    /// Makes the cell with this name.
    ///
    /// All users of a name must use one type, or types that read each other's JSON. Do not use the name of a cell for
    /// another lock. The call sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix), is too long.
    pub fn once_cell<T, K>(&self, name: K) -> Result<OnceCell<T>, Error>
    where
        B: CellBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        // Every holder has a lease of its own. If two holders shared a lease, the store would accept a late request of
        // the first holder after the second holder has loaded the value.
        let remote = RemoteCell::new(self, name)?.with_handoff(Handoff::Never);
        Ok(OnceCell { remote, value: OnceLock::new(), turn: Mutex::new(()) })
    }
}

impl<T> OnceCell<T> {
    options!("for an initialization", "locks.once_cell::<u32, _>(\"report\")?", |this, change| {
        this.remote = this.remote.clone().with_policy(change)
    });

    /// The [name](crate::Key) of the cell.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// The value, if this cell has it. The call sends no request: see [`load`](Self::load).
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// Mutable access to the value in this cell. A change affects neither the store nor other cells.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_sync::{Locks, MemoryBackend};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::new(MemoryBackend::new());
    /// let mut cell = locks.once_cell::<u32, _>("tenant")?;
    /// assert!(!cell.initialized());
    /// cell.set(42).await?;
    /// *cell.get_mut().expect("this cell has the value") += 1;
    /// assert_eq!(cell.into_inner(), Some(43));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Whether this cell has the value. The call sends no request.
    pub fn initialized(&self) -> bool {
        self.value.get().is_some()
    }

    /// Takes the value out of this cell. The store keeps its value: see [`reset`](Self::reset).
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }

    /// Returns the value of this cell. The store keeps its value.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Erases the value in the store. The next caller then initializes it again.
    ///
    /// The call takes the lock, as an initialization does, and so waits for an initialization that is under way. Other
    /// cells that have the value keep it, in this process and in others.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may or may not have been erased. This cell keeps its value until the
    /// erasure is confirmed.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), and:
    ///
    /// - [`OnceCellError::Lost`] if the lease was lost before the value was erased;
    /// - [`OnceCellError::Unknown`] if a request had no answer and the call then failed. The value may or may not have
    ///   been erased.
    ///
    /// [`OnceCellError::Timeout`] and [`OnceCellError::Closed`] leave the outcome open, too: the limit or the shutdown
    /// may end the call while it erases the value.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, OnceCell};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let mut schema: OnceCell<u32> = locks.once_cell("schema")?;
    /// schema.get_or_init(async || 1).await?;
    /// schema.reset().await?;
    /// assert_eq!(*schema.get_or_init(async || 2).await?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reset(&mut self) -> Result<(), OnceCellError> {
        let (limit, bare) = (self.limit(), self.remote.bare());
        let erasing = async {
            let hold = self.remote.lock(limit.wait(bare)).await?;
            self.remote.store(&hold, None).await.map_err(OnceCellError::from)
        };
        limit.bound(bare, erasing).await?;
        self.value.take();
        Ok(())
    }

    /// Waits for the turn of this task.
    async fn turn(&self) -> Turn<'_> {
        // If the wait is dropped when it already has the turn, the next task gets the turn.
        let turn = Shielded::new(Box::pin(self.turn.lock())).await;
        Shielded::new(turn)
    }

    /// The turn of this task, if no other task has it.
    fn try_turn(&self) -> Option<Turn<'_>> {
        self.turn.try_lock().ok().map(Shielded::new)
    }

    /// The limit of a wait that begins now.
    fn limit(&self) -> Limit {
        let lock = self.remote.bare();
        Limit::of(lock.default_wait(), lock)
    }
}

/// The error describes the problem without the value itself, which `serde` would quote.
fn decode<T: DeserializeOwned, E>(json: &[u8]) -> Result<T, OnceCellError<E>> {
    serde_json::from_slice(json).map_err(|error| {
        let (problem, at) = (error.classify(), error.column());
        let message = format!(
            "what is stored is not of the type of the cell: {problem:?} error at column {at}"
        );
        OnceCellError::Value(Error::new(ErrorKind::Protocol, message.to_lowercase()))
    })
}

/// Shows what this process knows, without asking the store.
impl<T: fmt::Debug> fmt::Debug for OnceCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnceCell").field("key", self.key()).field("value", &self.get()).finish()
    }
}
