//! Hints that a lock may have become free.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::Stream;

use crate::{Grant, OwnerToken};

/// Something happened to a key.
///
/// A hint, never a truth: it may come late, twice, forged or not at all. A lost hint costs time,
/// never correctness, because a waiter also asks again when the present lease ends.
///
/// A holder that hears anything but [`Wanted`](Self::Wanted) or [`Next`](Self::Next) renews to learn
/// whether it still is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The key was released or deleted, or has nobody left but an upgradable holder, or has more permits than
    /// before, or is closed.
    Released,
    /// The lease on the key ended by itself, or the store dropped it.
    Expired,
    /// The key was given another value.
    Changed,
    /// A claim of this client that stood in the store's queue was granted.
    ///
    /// The lease is short: it lives for [`Ttl::claim`](crate::Ttl::claim) unless it is renewed.
    Granted {
        /// Whose claim it is. Nobody else knows this token, which is what makes the hint credible.
        owner: OwnerToken,
        /// The grant, if the client can prove how much of it is left. If not, repeat the request:
        /// the store knows.
        grant: Option<Grant>,
    },
    /// A claim of this client that stands in the store's queue is now the first there.
    ///
    /// The store has given the key to the claim before it. That lease is short until its owner acts,
    /// and no message tells that it has ended. So ask the store after this time: the turn of the claim
    /// may have come.
    Next {
        /// Whose claim it is. No other client knows this token.
        owner: OwnerToken,
        /// What was left of the lease before this claim when the store said so.
        after: Duration,
    },
    /// Somebody has joined the queue for the key that this client holds.
    Wanted,
    /// Hints may have been missed: ask the store.
    Resync,
}

/// The hints about one key, from the moment [`Backend::watch`](crate::Backend::watch) returned.
///
/// A stream that ends once the backend can no longer say anything; its user then watches anew and
/// asks the store. Dropping it ends the watch.
pub struct Watch(Pin<Box<dyn Stream<Item = Hint> + Send>>);

impl Watch {
    /// Wraps a stream of hints.
    pub fn new(hints: impl Stream<Item = Hint> + Send + 'static) -> Self {
        Self(Box::pin(hints))
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
