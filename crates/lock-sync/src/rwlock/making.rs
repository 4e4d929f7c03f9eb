//! How an `RwLock` is made.

use std::sync::Arc;

use lock_core::{Error, Key, SharedBackend};

use super::RwLock;
use super::admission::Quota;
use crate::locks::Locks;

impl<B: ?Sized> Locks<B> {
    /// The reader-writer lock with this name, around a value of this process.
    ///
    /// The value is local: the lock is what processes share. Two locks of one name exclude each other
    /// but have a value each; wrap one in an `Arc` to share its value between tasks. A name is one kind of
    /// lock at a time: while a [`Mutex`](crate::Mutex) of the same name is held, it counts as a writer.
    ///
    /// Nothing is sent until somebody reads or writes.
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
        Ok(RwLock::new(self.bare_lock(name)?, Arc::new(tokio::sync::RwLock::new(value)), None))
    }

    /// The reader-writer lock with this name, of which at most `max_readers` are held at once through
    /// this handle.
    ///
    /// As `tokio::sync::RwLock::with_max_readers`, it bounds the readers of this handle: not those of
    /// other processes, nor those of another lock of the same name here. Whoever waits for the lock counts,
    /// and so do writers: everybody enters through one line, in the order in which they came. A
    /// [`shutdown`](crate::Locks::shutdown) is noticed by those who wait at the maximum when their turn
    /// comes.
    ///
    /// # Errors
    ///
    /// As [`rwlock`](Self::rwlock), and
    /// [`ErrorKind::InvalidConfig`](lock_core::ErrorKind::InvalidConfig) where tokio's panics: if
    /// `max_readers` is zero or more than `u32::MAX >> 3`.
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
        let quota = Quota::new(max_readers)?;
        let data = Arc::new(tokio::sync::RwLock::new(value));
        Ok(RwLock::new(self.bare_lock(name)?, data, Some(quota)))
    }

    /// The reader-writer lock with this name, around a value that may be unsized.
    ///
    /// An [`RwLock`] does not coerce to one of a trait object by itself; a boxed `tokio` lock does. It is
    /// to be made by its `new`: a lock with a maximum of readers of its own would keep tasks busy that wait
    /// for it.
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
        Ok(RwLock::new(self.bare_lock(name)?, Arc::from(value), None))
    }
}
