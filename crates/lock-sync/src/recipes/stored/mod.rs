//! A mutex whose value is stored beside the lock.

mod codec;
mod committing;
mod core;
mod error;
mod guard;
mod locking;
mod reading;
mod versions;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Cell, CellBackend, Error, ErrorKind, Key};
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "postcard")]
pub use codec::Postcard;
pub use codec::{Bytes, Codec, CodecError, Json};
pub use error::{CommitError, SaveError, StoredUpdateError};
pub use guard::StoredMutexGuard;
pub use reading::Snapshot;
pub use versions::Versions;

use self::core::Core;
use crate::handoff::Handoff;
use crate::locks::Locks;
use crate::options::options;
use crate::recipes::cell::RemoteCell;

/// A mutex whose value is in the store, beside the lock: all processes share the value as well as the lock.
///
/// [`Locks::stored_mutex`] makes a mutex and gives it a name. [`lock`](Self::lock) waits for the lock, and returns a
/// guard with the last committed value. The first holder finds the initial value. The guard gives access to a copy of
/// the value. [`commit`](StoredMutexGuard::commit) stores the changed value and releases the lock, in one step that
/// only the holder can perform. **A guard that is dropped discards its changes**, and says so in the log at the level
/// `debug`.
///
/// # What is promised
///
/// - **A committed value is not lost**, as long as the store keeps its data: every later guard, in any process, begins
///   with this value or with a later one. If [replicas confirm](https://docs.rs/lock-redis) each grant, a commit
///   returns after the replicas have the value.
/// - **Values are whole**: a guard, a [snapshot](Self::snapshot) or a [subscriber](Self::subscribe) gets a value as one
///   commit or [save](StoredMutexGuard::save) has stored it.
/// - **Versions increase**: the version of a value is the [fencing token](lock_core::FencingToken) of the holder that
///   stored it. A holder that stores several times gets a higher token for each value, as long as its lease has further
///   tokens. In a store of several servers, if the next holder finds the value on too few servers, it stores the value
///   again, under its own token.
/// - **A holder that has lost its lease stores nothing.** [`CommitError::Lost`] says so, and returns the value.
///
/// If the store does not answer a commit, the client asks for the outcome. The commit returns [`CommitError::Unknown`]
/// if the store does not answer that question either, if later holders have stored other values meanwhile, or if only
/// some of several servers may have the value. The [guide](crate::guide::stored_values#what-unknown-means) says what to
/// do then.
///
/// # What it costs
///
/// A lock and a commit cost as much as a lock and a release: with `lock-redis`, one command each. Inside a process, the
/// value passes from guard to guard together with the lease, and each commit costs one command. The next guard of the
/// process begins only after the store has answered the commit. A value may have up to 64 KiB, but each lock and each
/// commit carries the whole value. So keep the value small, and keep large data elsewhere, under the fencing token.
///
/// # Names and types
///
/// All users of a name must use one codec and one type, or types that read each other's bytes. Do not use the name for
/// another lock. The store can read the value, so do not store secrets, or use a [`Codec`] that encrypts.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, StoredMutex};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = MemoryBackend::new();
/// // In every process:
/// let locks = Locks::new(store.client());
/// let apples: StoredMutex<u32> = locks.stored_mutex("stock/apples", 3)?;
///
/// let mut guard = apples.lock().await?;
/// *guard -= 1;
/// guard.commit().await?;
///
/// # let locks = Locks::new(store.client());
/// # let apples: StoredMutex<u32> = locks.stored_mutex("stock/apples", 3)?;
/// assert_eq!(*apples.lock().await?, 2);
/// # Ok(())
/// # }
/// ```
pub struct StoredMutex<T, C = Json> {
    core: Core<C>,
    /// The value that the first holder finds, as bytes.
    initial: Arc<[u8]>,
    _value: PhantomData<fn() -> T>,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the mutex with this name, whose value is stored as JSON. `initial` is the value that the first holder
    /// finds.
    ///
    /// The call sends no request.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidKey`] if the name, with the [prefix](crate::Builder::prefix), is too long;
    /// - [`ErrorKind::InvalidConfig`] if the initial value has no JSON, or is longer than
    ///   [`Cell::MAX_LEN`](lock_core::Cell::MAX_LEN).
    pub fn stored_mutex<T, K>(&self, name: K, initial: T) -> Result<StoredMutex<T>, Error>
    where
        B: CellBackend,
        T: Serialize + DeserializeOwned,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        self.stored_mutex_with(name, initial, Json)
    }

    /// Makes the mutex with this name, whose value this codec encodes.
    ///
    /// # Errors
    ///
    /// As [`stored_mutex`](Self::stored_mutex).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Bytes, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let journal = locks.stored_mutex_with("journal", Vec::new(), Bytes)?;
    /// journal.update(|bytes| bytes.extend_from_slice(b"\x00\x01")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stored_mutex_with<T, C, K>(
        &self,
        name: K,
        initial: T,
        codec: C,
    ) -> Result<StoredMutex<T, C>, Error>
    where
        B: CellBackend,
        C: Codec<T>,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        let initial = codec.encode(&initial).map_err(|error| {
            let message = format!("the initial value cannot be encoded: {error}");
            Error::with_source(ErrorKind::InvalidConfig, message, error)
        })?;
        Cell::check_len(&initial)?;
        let remote = RemoteCell::new(self, name)?.map(|bare| bare.with_value());
        Ok(StoredMutex {
            core: Core::new(remote, codec),
            initial: Arc::from(initial),
            _value: PhantomData,
        })
    }
}

impl<T, C> StoredMutex<T, C> {
    /// Sets how long this process hands the lock off among its own tasks while other processes
    /// wait.
    ///
    /// This setting replaces the setting of the [`Locks`] for the guards of this mutex.
    #[must_use]
    pub fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.core.remote = self.core.remote.map(|bare| bare.with_handoff(handoff));
        self
    }

    /// Keeps the lease and the value in this process for a while after the last guard: see
    /// [`Mutex::with_cache`](crate::Mutex::with_cache).
    ///
    /// A commit then stores the value and keeps the lease, so that the next guard of this process needs no request.
    #[must_use]
    pub fn with_cache(mut self, idle: Duration) -> Self {
        self.core.remote = self.core.remote.map(|bare| bare.with_cache(idle));
        self
    }

    /// Refuses values whose encoding is longer than `limit` bytes, before anything is sent.
    ///
    /// The default, and the greatest possible limit, is [`Cell::MAX_LEN`](lock_core::Cell::MAX_LEN).
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{CommitError, Locks};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let note = locks.stored_mutex("note", String::new())?.with_size_limit(16);
    /// let mut guard = note.lock().await?;
    /// guard.push_str("far longer than sixteen bytes");
    /// let Err(CommitError::Refused { mut guard, .. }) = guard.commit().await else { panic!() };
    /// guard.truncate(8); // The guard still holds the lock.
    /// guard.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_size_limit(mut self, limit: usize) -> Self {
        self.core.longest = limit.min(Cell::MAX_LEN);
        self
    }

    options!("of this mutex", "locks.stored_mutex(\"report\", 0)?", |this, change| {
        this.core.remote = this.core.remote.clone().with_policy(change)
    });

    /// The [name](crate::Key) of the mutex.
    pub fn key(&self) -> &Key {
        self.core.remote.key()
    }

    /// Whether a guard of this process holds the lock now. The call sends no request.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_sync::{Locks, MemoryBackend};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let locks = Locks::new(MemoryBackend::new());
    /// let stock = locks.stored_mutex("stock/apples", 3)?;
    /// let guard = stock.lock().await?;
    /// assert!(stock.is_held() && !stock.is_cached());
    /// drop(guard);
    /// assert!(!stock.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_held(&self) -> bool {
        self.core.remote.bare().is_held()
    }

    /// Whether this process keeps the lease although no guard holds the lock: see [`with_cache`](Self::with_cache).
    pub fn is_cached(&self) -> bool {
        self.core.remote.bare().is_cached()
    }
}

/// Another handle of this mutex, which shares the lock and the value.
impl<T, C> Clone for StoredMutex<T, C> {
    fn clone(&self) -> Self {
        Self { core: self.core.clone(), initial: Arc::clone(&self.initial), _value: PhantomData }
    }
}

impl<T, C> fmt::Debug for StoredMutex<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredMutex").field("key", self.key()).finish_non_exhaustive()
    }
}
