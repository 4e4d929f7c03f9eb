//! A semaphore for hand-written `poll` functions.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::{AcquireError, AcquireOwned, OwnedSemaphorePermit, Semaphore};

/// A [`Semaphore`] with `poll` methods, like `PollSemaphore` of the crate `tokio-util`.
///
/// It keeps its position in the line from one poll to the next.
///
/// # Differences from `tokio_util::sync::PollSemaphore`
///
/// - Polling yields a `Result`, because a store can fail. There is no `Stream` over it.
/// - Methods that are asynchronous here are called through [`semaphore`](Self::semaphore).
///
/// # Examples
///
/// ```
/// use std::future::poll_fn;
/// use std::sync::Arc;
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, PollSemaphore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let locks = Locks::new(MemoryBackend::new());
/// let mut slots = PollSemaphore::new(Arc::new(locks.semaphore("slots", 1)?));
/// let permit = poll_fn(|context| slots.poll_acquire(context)).await?;
/// assert_eq!(permit.num_permits(), 1);
/// # Ok(())
/// # }
/// ```
pub struct PollSemaphore {
    semaphore: Arc<Semaphore>,
    /// The number of permits of the present wait, if there is one. The box is used again.
    waiting: Option<u32>,
    acquire: Option<Pin<Box<AcquireOwned>>>,
}

impl PollSemaphore {
    /// Polls this semaphore.
    pub fn new(semaphore: Arc<Semaphore>) -> Self {
        Self { semaphore, waiting: None, acquire: None }
    }

    /// The polled semaphore.
    pub fn semaphore(&self) -> &Arc<Semaphore> {
        &self.semaphore
    }

    /// Another handle of the polled semaphore.
    ///
    /// See [`PollSemaphore`](crate::PollSemaphore#examples) for an example.
    pub fn clone_inner(&self) -> Arc<Semaphore> {
        Arc::clone(&self.semaphore)
    }

    /// Gives up the position in the line, and returns the semaphore.
    ///
    /// See [`PollSemaphore`](crate::PollSemaphore#examples) for an example.
    pub fn into_inner(self) -> Arc<Semaphore> {
        self.semaphore
    }

    /// Closes the handle: see [`Semaphore::close`].
    pub fn close(&self) {
        self.semaphore.close();
    }

    /// Polls for a permit. While the poll is pending, a permit wakes the last task that polled.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    pub fn poll_acquire(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<OwnedSemaphorePermit, AcquireError>> {
        self.poll_acquire_many(context, 1)
    }

    /// Polls for several permits at once. A poll for another number than before begins a new wait, at the end
    /// of the line.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire_many`].
    pub fn poll_acquire_many(
        &mut self,
        context: &mut Context<'_>,
        n: u32,
    ) -> Poll<Result<OwnedSemaphorePermit, AcquireError>> {
        let begin = || Arc::clone(&self.semaphore).acquire_many_owned(n);
        let acquire = match &mut self.acquire {
            Some(acquire) => {
                if self.waiting != Some(n) {
                    acquire.set(begin());
                }
                acquire
            }
            none => none.insert(Box::pin(begin())),
        };
        self.waiting = Some(n);
        let result = ready!(acquire.as_mut().poll(context));
        self.waiting = None;
        Poll::Ready(result)
    }
}

impl Clone for PollSemaphore {
    /// A new poller of this semaphore, which does not wait yet.
    fn clone(&self) -> Self {
        Self::new(self.clone_inner())
    }
}

impl AsRef<Semaphore> for PollSemaphore {
    fn as_ref(&self) -> &Semaphore {
        &self.semaphore
    }
}

impl fmt::Debug for PollSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollSemaphore")
            .field("semaphore", &self.semaphore)
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}
