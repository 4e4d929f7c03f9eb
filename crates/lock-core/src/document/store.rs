//! What a store of documents has to do.

use async_trait::async_trait;

use crate::{Clock, Instant, Key, Limits, Result};

/// A store that keeps a row for each key, and replaces a row if no other client has changed it: a table of a database, a
/// folder, a bucket with conditional writes beside a clock. [`DocumentBackend`](super::DocumentBackend) makes a backend
/// of it.
///
/// A key has up to [`Key::MAX_LEN`] arbitrary bytes. The store compares keys byte by byte. So text that ignores case, and
/// the plain name of a file, are no such keys. A row holds a value of up to [`Cell::MAX_LEN`](crate::Cell::MAX_LEN)
/// bytes, some 64 bytes for each lease, and a few more. So the `BLOB` of MySQL is too short.
///
/// The store never looks into a row. It SHOULD keep every row, because a row counts the tokens of its key. It MAY delete
/// a row if all of this holds:
///
/// - The row has not changed for a day and a minute: no lease is longer than [`Ttl::MAX`](crate::Ttl::MAX).
/// - No app needs the value and the changed semaphore that may be in the row.
/// - The wall clocks of all clients agree within that time, because they give the first token of a new row.
/// - The delete compares the version, as a swap does, and no later row of the key has an earlier version.
///
/// # Examples
///
/// The [first backend](crate::Backend#a-first-backend) is such a store.
#[async_trait]
pub trait DocumentStore: Send + Sync + 'static {
    /// What tells two rows of a key apart: a number of the store, an entity tag, or the row itself.
    ///
    /// No two rows in succession that [`DocumentBackend`](super::DocumentBackend) writes under one key are equal.
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
    /// `false` MUST mean that this call has not written the row and never will. So a client of the store MUST NOT repeat
    /// the write by itself: the second attempt would find the row of the first.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it, after a bounded time. An error after which the row may be
    /// written MUST be [retryable](crate::Error::is_retryable).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the row is written.
    async fn swap(&self, key: &Key, seen: &Self::Version, row: Vec<u8>) -> Result<bool>;

    /// Waits between two looks of a watch, for example by `tokio::time::sleep(interval)`. A request rests, too, while
    /// other clients are faster.
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

    /// The shortest lease of this store, the steps of its lease times, and how late it may be. The
    /// [example](crate::Limits#examples) of limits shows some.
    fn limits(&self) -> Limits {
        Limits::default()
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
    /// The time of the *store*, since any moment that all its clients share. Leases begin and end on this clock.
    ///
    /// It MUST be taken after the read began, and all clients MUST get it from one clock. A database returns its time
    /// with the row: in PostgreSQL that is `clock_timestamp()`, and not `now()`, which is the begin of the transaction.
    /// Processes of one machine may take the boot clock, if the rows do not outlive a restart of the machine. The boot
    /// clocks of two machines are no such clock.
    ///
    /// The clock may jump forward, be coarse, or differ between the servers of the store by less than the
    /// [drift](crate::Ttl::drift) of the shortest lease in all. Otherwise a lease ends under its holder. A jump backward
    /// makes leases last longer.
    pub time: Instant,
}
