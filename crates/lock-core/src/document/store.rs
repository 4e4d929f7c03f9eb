//! What a store of documents has to do.

use async_trait::async_trait;

use crate::{Clock, Instant, Key, Result};

/// A store that keeps a row for each key and can replace a row if no other client has changed it: a table of a database, a bucket
/// with conditional writes, a folder. [`DocumentBackend`](super::DocumentBackend) makes a backend of it.
///
/// The store never looks into a row. It keeps every row, because a row counts the tokens of its key. It MAY delete a row
/// that has not changed for longer than [`Ttl::MAX`](crate::Ttl::MAX) and a few seconds, if the values beside locks and
/// the changes of semaphores on this key are not needed any more.
///
/// # Examples
///
/// The [first backend](crate::Backend#a-first-backend) is such a store.
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// What tells two rows of a key apart: a number of the store, an entity tag, or the row itself.
    ///
    /// No two rows that [`DocumentBackend`](super::DocumentBackend) writes under one key are equal.
    type Version: Send + Sync;

    /// Reads the row of a key.
    ///
    /// The row MUST be the last row that was written before the read began, or a later row. A cache or a replica that is
    /// behind its primary breaks this rule.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it, after a bounded time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn read(&self, key: &Key) -> Result<Row<Self::Version>>;

    /// Writes a row, if the row of the key still has the version `seen`, as one step of the store. Returns whether it
    /// was written.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it, after a bounded time. After a
    /// [retryable](crate::Error::is_retryable) error the row may or may not have been written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the row is written.
    async fn swap(&self, key: &Key, seen: &Self::Version, row: Vec<u8>) -> Result<bool>;

    /// Waits between two looks of a watch, for `tokio::time::sleep(interval)` say.
    ///
    /// A short interval costs the store requests. A long interval delays every hand-over by half of it on average.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn rest(&self);

    /// The clock on which the *client* dates its leases: see [`Backend::clock`](crate::Backend::clock).
    fn clock(&self) -> Clock {
        Clock::boot()
    }
}

/// The row of a key, as a [`DocumentStore`] has read it.
///
/// The store of the [first backend](crate::Backend#a-first-backend) makes such rows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores make rows of all their parts")]
pub struct Row<V> {
    /// The bytes of the row. `None` if the key has no row.
    pub bytes: Option<Vec<u8>>,
    /// The version of the row, or of its absence.
    pub version: V,
    /// The time of the *store* when it read the row, since any moment that all its clients share.
    ///
    /// All clients MUST get the time from one clock: that of the database, or that of the machine if all clients are
    /// processes of one machine. It MUST be taken after the read began. Leases begin and end on this clock, so the
    /// rate of the clock MUST be within [`Ttl::drift`](crate::Ttl::drift).
    pub time: Instant,
}
