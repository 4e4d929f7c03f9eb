//! How many requests a client made.

use std::sync::atomic::{AtomicU64, Ordering};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`Backend::try_acquire`](crate::Backend::try_acquire).
    Acquire,
    /// [`Backend::renew`](crate::Backend::renew).
    Renew,
    /// [`Backend::release`](crate::Backend::release).
    Release,
    /// [`Backend::watch`](crate::Backend::watch).
    Watch,
}

/// The requests of one client, by kind.
///
/// A request counts when it is sent: whether it arrives, and what it is answered, does not matter.
///
/// # Examples
///
/// ```
/// use lock_core::memory::{MemoryBackend, Stats};
///
/// let backend = MemoryBackend::new();
/// let before = backend.stats();
/// // ... what should cost no request ...
/// assert_eq!(backend.stats().since(before), Stats::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stats {
    /// Requests for a lease.
    pub acquires: u64,
    /// Requests to renew one.
    pub renewals: u64,
    /// Requests to release one.
    pub releases: u64,
    /// Requests to watch a key.
    pub watches: u64,
}

impl Stats {
    /// All requests together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.acquires + self.renewals + self.releases + self.watches
    }

    /// The requests since `earlier`, an older reading of the same client.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            acquires: self.acquires.saturating_sub(earlier.acquires),
            renewals: self.renewals.saturating_sub(earlier.renewals),
            releases: self.releases.saturating_sub(earlier.releases),
            watches: self.watches.saturating_sub(earlier.watches),
        }
    }
}

/// The same, while it is being counted.
#[derive(Debug, Default)]
pub(super) struct Counters {
    acquires: AtomicU64,
    renewals: AtomicU64,
    releases: AtomicU64,
    watches: AtomicU64,
}

impl Counters {
    pub(super) fn count(&self, verb: Verb) {
        let counter = match verb {
            Verb::Acquire => &self.acquires,
            Verb::Renew => &self.renewals,
            Verb::Release => &self.releases,
            Verb::Watch => &self.watches,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Stats {
        Stats {
            acquires: self.acquires.load(Ordering::Relaxed),
            renewals: self.renewals.load(Ordering::Relaxed),
            releases: self.releases.load(Ordering::Relaxed),
            watches: self.watches.load(Ordering::Relaxed),
        }
    }
}
