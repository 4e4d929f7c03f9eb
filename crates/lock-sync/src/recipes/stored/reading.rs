//! Reading the value without the lock.

use lock_core::{Cell, FencingToken};

use super::StoredMutex;
use super::codec::Codec;
use super::error::NoGuard;
use crate::bare::Limit;
use crate::error::LockError;

/// A stored value of a [`StoredMutex`], or the initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot<T> {
    /// The value.
    pub value: T,
    /// The version of the value: the fencing token of the holder that stored it. `None` for the initial value.
    pub version: Option<FencingToken>,
}

impl<T, C: Codec<T>> StoredMutex<T, C> {
    /// Reads the last stored value and its version, without the lock.
    ///
    /// A holder may be about to commit another value, so the snapshot may be out of date at once. Use
    /// [`lock`](Self::lock) to change the value.
    ///
    /// In a store of several servers, a dead writer may have left a value on some servers only. If a snapshot finds
    /// such a value, it takes the lock once, and settles whether the value counts.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no visible effect.
    ///
    /// # Errors
    ///
    /// - [`LockError::Value`] if the codec cannot read the stored value;
    /// - [`LockError::Timeout`] and [`LockError::Backend`] if the store was out of reach until the
    ///   [wait limit](crate::Builder::wait_limit), or, without a limit, as long as a lease lives;
    /// - as [`lock`](Self::lock) if it had to take the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let apples = locks.stored_mutex("stock/apples", 3)?;
    /// let guard = apples.lock().await?;
    /// let snapshot = apples.snapshot().await?; // It does not wait for the guard.
    /// assert_eq!((snapshot.value, snapshot.version), (3, None));
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn snapshot(&self) -> Result<Snapshot<T>, LockError> {
        let remote = &self.core.remote;
        let limit = Limit::of(remote.bare().default_wait(), remote.bare());
        match limit.bound(remote.bare(), remote.peek(limit)).await? {
            Some(cell) if !cell.settled => {
                let wait = limit.wait(remote.bare());
                let guard = self.lock_within(&self.core, wait).await?;
                let version = guard.version;
                Ok(Snapshot { value: guard.into_value(), version })
            }
            cell => self.read(cell.as_ref()),
        }
    }

    /// The value of these bytes, or the initial value.
    pub(super) fn read(&self, cell: Option<&Cell>) -> Result<Snapshot<T>, LockError> {
        let bytes = cell.map_or(&*self.initial, |cell| &cell.value);
        let value = self.core.codec.decode(bytes).map_err(NoGuard::Unreadable)?;
        Ok(Snapshot { value, version: cell.map(|cell| cell.token) })
    }
}
