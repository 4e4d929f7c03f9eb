//! The constructors of an `RwLock`.

use std::sync::Arc;

use lock_core::{Backend, Capability, Error, Key, SharedBackend};

use super::RwLock;
use super::admission::Quota;
use crate::locks::Locks;

impl<B: ?Sized> Locks<B> {
    /// Makes the reader-writer lock with this name, around a value of this process.
    ///
    /// The value is local: processes share the lock, but not the value. Two locks with one name exclude each other,
    /// and each has its own value. To share the value between tasks, wrap one lock in an `Arc`. All kinds of locks
    /// share their names: the holder of a [`Mutex`](crate::Mutex) with this name counts as a writer.
    ///
    /// The call sends no request. The first call that locks the lock does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`](lock_core::ErrorKind::InvalidKey) if the name, with the
    /// [prefix](crate::Builder::prefix), is too long.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let config = locks.rwlock("config", String::from("colour=green"))?;
    /// assert_eq!(*config.read().await?, "colour=green");
    /// # Ok(())
    /// # }
    /// ```
    pub fn rwlock<T, K>(&self, name: K, value: T) -> Result<RwLock<T, B::Conversion>, Error>
    where
        B: SharedBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        self.backend.require(Capability::Share)?;
        Ok(RwLock::new(self.bare_lock(name)?, Arc::new(tokio::sync::RwLock::new(value)), None))
    }

    /// Makes the reader-writer lock with this name, with at most `max_readers` readers at once through this handle.
    ///
    /// The maximum bounds the readers of this handle, as with `tokio::sync::RwLock::with_max_readers`. It bounds
    /// neither the readers of other processes nor the readers of another lock with this name in this process. Writers
    /// and waiters count as well: all of them enter through one line, in the order in which they came. While
    /// `max_readers` tasks hold or await the lock, a further waiter learns of a [`shutdown`](crate::Locks::shutdown)
    /// only when its turn comes.
    ///
    /// # Errors
    ///
    /// - as [`rwlock`](Self::rwlock);
    /// - [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) if `max_readers` is zero or more than
    ///   `u32::MAX >> 3`, where tokio panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let lock = locks.rwlock_with_max_readers("report", (), 1)?;
    /// let reading = lock.read().await?;
    /// assert!(lock.try_read().await.is_err());
    /// # drop(reading);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rwlock_with_max_readers<T, K>(
        &self,
        name: K,
        value: T,
        max_readers: u32,
    ) -> Result<RwLock<T, B::Conversion>, Error>
    where
        B: SharedBackend,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        self.backend.require(Capability::Share)?;
        let quota = Quota::new(max_readers)?;
        let data = Arc::new(tokio::sync::RwLock::new(value));
        Ok(RwLock::new(self.bare_lock(name)?, data, Some(quota)))
    }

    /// Makes the reader-writer lock with this name, around a value that may be unsized.
    ///
    /// An [`RwLock`] does not coerce to a lock around a trait object. A boxed `tokio` lock does. Make the `tokio` lock
    /// with `new`: with a maximum of readers, the tasks that wait at this maximum would be polled in a busy loop.
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::{Locks, RwLock};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let numbers: Box<tokio::sync::RwLock<[u32]>> = Box::new(tokio::sync::RwLock::new([1, 2]));
    /// let lock: RwLock<[u32]> = locks.rwlock_from_boxed("numbers", numbers)?;
    /// assert_eq!(lock.read().await?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`rwlock`](Self::rwlock).
    pub fn rwlock_from_boxed<T, K>(
        &self,
        name: K,
        value: Box<tokio::sync::RwLock<T>>,
    ) -> Result<RwLock<T, B::Conversion>, Error>
    where
        B: SharedBackend,
        T: ?Sized,
        K: TryInto<Key>,
        Error: From<K::Error>,
    {
        self.backend.require(Capability::Share)?;
        Ok(RwLock::new(self.bare_lock(name)?, Arc::from(value), None))
    }
}
