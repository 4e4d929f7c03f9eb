//! Following the value.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::{Stream, unfold};
use lock_core::{Cell, ErrorKind, FencingToken, Key};

use super::StoredMutex;
use super::codec::Codec;
use super::reading::Snapshot;
use crate::bare::{Denial, Limit, Wait};
use crate::error::LockError;
use crate::recipes::cell::{RemoteCell, Watcher};

/// The versions of the value of a [`StoredMutex`], as a stream. [`StoredMutex::subscribe`] returns it.
///
/// The stream may skip versions, but never goes back. It comes to the latest version in the end, as
/// a [`tokio::sync::watch`] does. It ends after [`Locks::shutdown`](crate::Locks::shutdown), and with the runtime of the
/// driver.
#[must_use = "streams do nothing unless polled"]
pub struct Versions<T> {
    key: Key,
    stream: Pin<Box<dyn Stream<Item = Result<Snapshot<T>, LockError>> + Send + Sync>>,
}

impl<T, C> StoredMutex<T, C>
where
    T: Send + Sync + 'static,
    C: Codec<T>,
{
    /// Follows the value: a stream of the stored values with their versions. The first item is the present stored
    /// value, if there is one.
    ///
    /// When a holder stores a value, the store sends a hint, and the stream loads the value. In case a hint gets lost,
    /// the stream also loads every third of a [lease](crate::Builder::ttl). It connects again by itself. After an
    /// error, the stream goes on.
    ///
    /// In a store of several servers, too few reachable servers may have the latest value. If that lasts, the stream
    /// takes the lock once, if the lock is free, and stores the value again, as a [snapshot](Self::snapshot) does.
    ///
    /// # Cancel safety
    ///
    /// Dropping a future that waits for the next item never loses the latest version.
    ///
    /// # Errors
    ///
    /// An item is an error if the codec cannot read a value, or if the store refuses a load.
    ///
    /// # Examples
    ///
    /// ```
    /// # use futures::StreamExt;
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let store = MemoryBackend::new();
    /// # let (locks, elsewhere) = (Locks::new(store.client()), Locks::new(store.client()));
    /// let config = locks.stored_mutex("config", String::new())?;
    /// let mut versions = config.subscribe();
    ///
    /// let writer = elsewhere.stored_mutex("config", String::new())?;
    /// writer.update(|text| text.push_str("verbose")).await?;
    ///
    /// let latest = versions.next().await.expect("it goes on")?;
    /// assert_eq!(latest.value, "verbose");
    /// # Ok(())
    /// # }
    /// ```
    pub fn subscribe(&self) -> Versions<T> {
        let remote = &self.core.remote;
        let following = Following {
            watcher: remote.watcher(remote.interval()),
            mutex: self.clone(),
            told: None,
            doubted: None,
            stale: false,
        };
        let stream = unfold(following, async |mut following| {
            following.next().await.map(|item| (item, following))
        });
        // A bare `unfold` panics if it is polled after its end.
        Versions { key: self.key().clone(), stream: Box::pin(stream.fuse()) }
    }
}

struct Following<T, C> {
    mutex: StoredMutex<T, C>,
    watcher: Watcher,
    /// The last reported value.
    told: Option<Cell>,
    /// The last loaded version, if it is later and not settled.
    doubted: Option<FencingToken>,
    /// The value may have changed since the last load.
    stale: bool,
}

impl<T, C: Codec<T>> Following<T, C> {
    /// The next version; `None` after a shutdown.
    async fn next(&mut self) -> Option<Result<Snapshot<T>, LockError>> {
        let mutex = self.mutex.clone();
        let remote = &mutex.core.remote;
        loop {
            if !self.stale {
                tokio::select! {
                    biased;
                    () = remote.bare().closed() => return None,
                    () = self.watcher.changed() => self.stale = true,
                }
            }
            let loaded = load(remote).await?;
            self.stale = false;
            match loaded {
                Ok(Some(cell)) if self.is_news(&cell) => {
                    let item = mutex.read(Some(&cell));
                    (self.told, self.doubted) = (Some(cell), None);
                    return Some(item);
                }
                Ok(Some(cell)) if self.stays_in_doubt(&cell) => {
                    self.doubted = None;
                    tokio::select! {
                        biased;
                        () = remote.bare().closed() => return None,
                        // A new holder settles the value. If there is a holder already, that holder may settle it, too.
                        held = mutex.lock_within(&mutex.core, Wait::Try) => self.stale = held.is_ok(),
                    }
                }
                // There is nothing new, or the store is out of reach: look again after a hint, or after a while.
                Ok(_) => {}
                Err(Denial::Failed(error)) if !error.is_retryable() => {
                    return Some(Err(LockError::Backend(error)));
                }
                Err(_) => {}
            }
        }
    }

    /// Whether this value comes after the last reported value, and is settled.
    fn is_news(&self, cell: &Cell) -> bool {
        cell.settled && self.is_later(cell)
    }

    /// Whether this value comes after the last reported value, and was not settled at an earlier load, either. In a
    /// store of several servers, too few servers may have such a value until a client stores it again.
    fn stays_in_doubt(&mut self, cell: &Cell) -> bool {
        let in_doubt = !cell.settled && self.is_later(cell);
        in_doubt && self.doubted.replace(cell.token) == Some(cell.token)
    }

    fn is_later(&self, cell: &Cell) -> bool {
        self.told.as_ref().is_none_or(|told| {
            cell.token > told.token || cell.token == told.token && cell.value != told.value
        })
    }
}

/// The present value. `None` if no load can succeed any more: after a shutdown, or if the runtime of the driver has
/// ended.
async fn load(remote: &RemoteCell) -> Option<Result<Option<Cell>, Denial>> {
    let loaded = tokio::select! {
        biased;
        () = remote.bare().closed() => return None,
        loaded = remote.peek(Limit::none()) => loaded,
    };
    match loaded {
        Err(Denial::Failed(error)) if error.kind() == ErrorKind::ShuttingDown => None,
        loaded => Some(loaded),
    }
}

impl<T> Stream for Versions<T> {
    type Item = Result<Snapshot<T>, LockError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

impl<T> fmt::Debug for Versions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Versions").field("key", &self.key).finish_non_exhaustive()
    }
}
