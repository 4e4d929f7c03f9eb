//! Hints that a lock may have become free.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::{self, Stream};

use crate::{Grant, OwnerToken, Result};

/// News about a key.
///
/// A hint is never a truth: it may come late, twice, forged or not at all. A lost hint costs time,
/// never correctness, because a waiter also asks again when the present lease ends.
///
/// A holder that hears any hint but [`Contended`](Self::Contended) or [`Next`](Self::Next) renews, to learn
/// whether it still holds the key.
///
/// The [example](Watch#examples) of a watch shows one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The key was released or deleted, only an upgradable holder is left, permits were added, or the semaphore
    /// was closed.
    Released,
    /// The lease on the key ended by itself, or the store dropped it.
    Expired,
    /// Another value was stored under the key.
    Changed,
    /// A claim of this client that stood in the store's queue was granted.
    ///
    /// The lease is short: it lives for [`Ttl::for_grant`](crate::Ttl::for_grant) unless it is renewed.
    Granted {
        /// The owner of the claim. No other client knows this token, so the hint is credible.
        owner: OwnerToken,
        /// The grant, if the client can prove how much time it has left. If not, repeat the request:
        /// the store knows.
        grant: Option<Grant>,
    },
    /// A claim of this client is now the first in the store's queue.
    ///
    /// The store has given the key to the claim before it. That lease is short until its owner acts,
    /// and no message tells when it ends. So ask the store after this time: the turn of the claim
    /// may have come.
    Next {
        /// The owner of the claim. No other client knows this token.
        owner: OwnerToken,
        /// The time that the lease before this claim had left when the store sent the hint.
        after: Duration,
    },
    /// A claim has joined the queue for the key that this client holds.
    Contended,
    /// Hints may have been missed: ask the store.
    Resync,
}

/// The hints about one key, from the moment [`Backend::watch`](crate::Backend::watch) returned.
///
/// A stream that ends once the backend can give no more hints. The client then watches anew and
/// asks the store. Dropping the stream ends the watch.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Backend, Claim, Hint, Key, OwnerToken, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let (ours, theirs) = { let store = MemoryBackend::new(); (store.client(), store.client()) };
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let _granted = theirs.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
///
/// let mut watch = ours.watch(&claim.key).await?;
/// theirs.release(&claim).await?;
/// assert_eq!(watch.next().await, Some(Hint::Released));
/// # Ok(())
/// # }
/// ```
pub struct Watch(Pin<Box<dyn Stream<Item = Hint> + Send>>);

impl Watch {
    /// Wraps a stream of hints.
    pub fn new(hints: impl Stream<Item = Hint> + Send + 'static) -> Self {
        Self(Box::pin(hints))
    }

    /// A watch for a store that sends no messages. It looks at the key again and again.
    ///
    /// `look` asks the store for a value that every release of the key changes: a version, or the number of
    /// the last release. `first` is that value at the beginning of the watch. Each change becomes a
    /// [`Hint::Released`]. The watch ends with the first error. `rest` waits between two looks. It decides on
    /// the interval and on the runtime, because this crate has none: `|| tokio::time::sleep(interval)` is an
    /// example.
    ///
    /// A short interval costs the store requests. A long interval delays every hand-over by half of it on average.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    /// use lock_core::{Hint, Watch};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let releases = Arc::new(AtomicU64::new(7));
    /// let store = Arc::clone(&releases);
    /// let mut watch = Watch::polling(
    ///     7,
    ///     move || std::future::ready(Ok(store.load(Ordering::SeqCst))),
    ///     || tokio::time::sleep(Duration::from_millis(20)),
    /// );
    /// releases.fetch_add(1, Ordering::SeqCst);
    /// assert_eq!(watch.next().await, Some(Hint::Released));
    /// # }
    /// ```
    pub fn polling<T, L, A, R, S>(first: T, look: L, rest: R) -> Self
    where
        T: PartialEq + Send + 'static,
        L: FnMut() -> A + Send + 'static,
        A: Future<Output = Result<T>> + Send + 'static,
        R: FnMut() -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let looks = async move |(seen, mut look, mut rest): (T, L, R)| {
            loop {
                rest().await;
                let found = look().await.ok()?;
                if found != seen {
                    return Some((Hint::Released, (found, look, rest)));
                }
            }
        };
        Self::new(stream::unfold((first, look, rest), looks))
    }

    /// The next hint; `None` once the watch has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no hint.
    pub async fn next(&mut self) -> Option<Hint> {
        std::future::poll_fn(|context| self.0.as_mut().poll_next(context)).await
    }
}

impl Stream for Watch {
    type Item = Hint;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        self.0.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::{Error, ErrorKind};

    #[test]
    fn a_polling_watch_tells_of_each_change_and_ends_with_an_error() {
        let mut found = vec![Ok(1), Ok(1), Ok(2), Ok(2), Ok(1)].into_iter();
        let failed = || Err(Error::new(ErrorKind::Unreachable, "gone"));
        let look = move || std::future::ready(found.next().unwrap_or_else(failed));
        let mut watch = Watch::polling(1, look, || std::future::ready(()));
        let mut next = || watch.next().now_or_never().expect("it rests for no time");
        assert_eq!(next(), Some(Hint::Released));
        assert_eq!(next(), Some(Hint::Released));
        assert_eq!(next(), None);
    }

    #[test]
    fn a_polling_watch_rests_before_each_look() {
        let look = || -> std::future::Ready<Result<u32>> { panic!("it looked at once") };
        let mut watch = Watch::polling(1, look, std::future::pending::<()>);
        assert_eq!(watch.next().now_or_never(), None);
    }
}
