//! A value that one process computes and all read.

mod error;
mod finding;
mod init;

use std::fmt;
use std::sync::OnceLock;

use lock_core::{CellBackend, Error, ErrorKind, Key};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;

pub use error::{OnceCellError, SetError};

use crate::bare::Limit;
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::recipes::cell::RemoteCell;

/// A value that is initialized once, by one of all processes, and read by every other: as
/// [`tokio::sync::OnceCell`] is one, but in the store.
///
/// It is made by [`Locks::once_cell`], which gives it a name. Whoever needs the value first computes it
/// under the lock of that name and stores it beside the lock, as JSON. Everybody else reads it from there,
/// once: a cell keeps what it has read, and from then on [`get`](Self::get) answers without asking
/// anybody.
///
/// The value stays in the store for as long as the store keeps it, also when every process has ended.
/// [`reset`](Self::reset) erases it. It may have up to 64 KiB as JSON, which the store can read: no place
/// for secrets.
///
/// # Who initializes
///
/// One at a time. If an attempt fails, is cancelled, panics, or its process dies, the next that waits makes
/// another one: after a crash as soon as the lease of the dead has ended. If an attempt loses its lease,
/// its work is dropped where it stands and its value is not stored, because somebody else may be at work by
/// then. An attempt whose process was stopped for so long that it does not notice cannot store anything
/// either: the store refuses it.
///
/// So at most one value is ever stored, and all who get one get the same; but the work for it may begin more
/// than once. Side effects of an initialization need a fencing token of their own: take a
/// [`Mutex`](crate::Mutex) where they matter.
///
/// # One value for all
///
/// A store that is several servers, of which a majority decides, may have a value on a few of them when storing it
/// has failed, or whoever stored it has died. Those who ask these see it, and others do not. Such a value is not
/// *settled* ([`Cell::settled`](lock_core::Cell::settled)), and no cell returns it or keeps it: whoever finds it
/// waits for its writer as long as that holds the lock, then takes the lock, and stores the value once more before
/// it returns it. That also means that an attempt which failed while it stored its value may have been the one that
/// counts. A single server has no such values.
///
/// [`reset`](Self::reset) is excepted: after one that failed, some may find no value, and others afterwards that of
/// before, as long as so many servers are silent that it cannot be told what the majority has.
///
/// # Differences from `tokio::sync::OnceCell`
///
/// - It is made by [`Locks::once_cell`], and its value must be [`Serialize`](serde::Serialize) and [`DeserializeOwned`]. There
///   is no `new`, `const_new`, `new_with`, `Default` or `From<T>`, because a cell needs a name and a
///   store; and no `Clone` or `PartialEq`, because two cells of one name are one.
/// - [`get_or_init`](Self::get_or_init) returns a `Result`: the store may be out of reach.
/// - [`set`](Self::set) is `async`, and its error has one more variant.
/// - [`get`](Self::get), [`initialized`](Self::initialized), [`get_mut`](Self::get_mut),
///   [`take`](Self::take) and [`into_inner`](Self::into_inner) are about what this cell has read. They ask
///   nobody, and change nothing for others.
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
/// assert_eq!(*tenant.get_or_init(async || unreachable!("somebody was faster")).await?, 42);
/// # Ok(())
/// # }
/// ```
pub struct OnceCell<T> {
    remote: RemoteCell,
    /// What this cell has read or stored.
    value: OnceLock<T>,
    /// One task of each cell asks the store; the others find the value here.
    turn: Mutex<()>,
}

impl<B: ?Sized> Locks<B> {
    /// The cell with this name.
    ///
    /// Every user of a name must give the same type, or one that reads the same JSON. A name that a cell
    /// has should not be that of another lock. Nothing is sent until somebody asks for the value.
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
        // Every holder has a lease of its own. If two holders had one lease, the store would take a late request of
        // the first holder after the second one has looked.
        let remote = RemoteCell::new(self, name)?.with_handoff(Handoff::Never);
        Ok(OnceCell { remote, value: OnceLock::new(), turn: Mutex::new(()) })
    }
}

impl<T> OnceCell<T> {
    /// The name of the cell.
    pub fn key(&self) -> &Key {
        self.remote.key()
    }

    /// The value, if this cell has it. Asks nobody: see [`load`](Self::load).
    pub fn get(&self) -> Option<&T> {
        self.value.get()
    }

    /// The value that this cell has, to be changed here alone: neither the store nor other cells are
    /// affected.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }

    /// Whether this cell has the value. Asks nobody.
    pub fn initialized(&self) -> bool {
        self.value.get().is_some()
    }

    /// Takes the value that this cell has. The store keeps it: see [`reset`](Self::reset).
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }

    /// The value that this cell has. The store keeps it.
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Erases the value for everybody, so that it can be initialized anew.
    ///
    /// Takes the lock for it, as an initialization does, and waits for one that is under way. Cells that
    /// have read the value keep what they have: those of other processes, and other cells of that name in
    /// this one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the value was erased. This cell keeps what it has until it
    /// was.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); [`OnceCellError::Lost`] if the lease was lost before it was done.
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
        let hold = self.remote.lock(self.remote.bare().default_wait()).await?;
        self.remote.store(&hold, None).await?;
        self.value.take();
        Ok(())
    }

    /// The limit of a wait that begins now.
    fn limit(&self) -> Limit {
        let lock = self.remote.bare();
        Limit::of(lock.default_wait(), lock)
    }
}

/// What is wrong with a value is said without the value, which `serde` would quote.
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
