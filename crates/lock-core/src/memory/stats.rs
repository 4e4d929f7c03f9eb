//! The number of requests that a client made.

use std::sync::atomic::{AtomicU64, Ordering};

/// One kind of request.
///
/// The [example](Stats#examples) of the counts shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// [`Backend::try_acquire`](crate::Backend::try_acquire) and
    /// [`try_acquire_all`](crate::Backend::try_acquire_all).
    Acquire,
    /// [`Backend::renew`](crate::Backend::renew).
    Renew,
    /// [`Backend::release`](crate::Backend::release) and
    /// [`release_and_requeue`](crate::Backend::release_and_requeue).
    Release,
    /// [`Backend::watch`](crate::Backend::watch).
    Watch,
    /// Every method of [`PermitBackend`](crate::PermitBackend).
    Count,
    /// Every method of [`CellBackend`](crate::CellBackend).
    Cell,
    /// Every method of [`InspectBackend`](crate::InspectBackend).
    Inspect,
    /// [`QuorumNode::vote`](crate::QuorumNode::vote).
    Vote,
    /// [`QuorumNode::confirm`](crate::QuorumNode::confirm).
    Confirm,
    /// [`QuorumNode::standing`](crate::QuorumNode::standing) and
    /// [`vouch`](crate::QuorumNode::vouch).
    Standing,
    /// [`Backend::introduce`](crate::Backend::introduce).
    Introduce,
}

impl Verb {
    /// The number of verbs.
    pub(super) const COUNT: usize = Self::Introduce as usize + 1;
}

/// The requests of one client, by kind.
///
/// A request counts when it is sent, whether or not it arrives and whatever the answer is.
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
    /// Requests to renew a lease.
    pub renewals: u64,
    /// Requests to release a lease.
    pub releases: u64,
    /// Requests to watch a key.
    pub watches: u64,
    /// Requests about permits that neither acquire nor release them.
    pub counts: u64,
    /// Requests to load or store a value.
    pub cells: u64,
    /// Requests to inspect a key, or to release it by force.
    pub inspections: u64,
    /// Requests for a vote.
    pub votes: u64,
    /// Requests to confirm a token.
    pub confirmations: u64,
    /// Requests about the quarantine of the node, or to end it.
    pub standings: u64,
    /// Labels that the client told.
    pub introductions: u64,
}

impl Stats {
    /// All requests together.
    ///
    /// [`MemoryBackend::client`](super::MemoryBackend::client) has an example.
    #[must_use]
    pub fn total(self) -> u64 {
        self.to_array().iter().sum()
    }

    /// The requests since `earlier`, an older reading of this client.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let (mut counts, earlier) = (self.to_array(), earlier.to_array());
        for (count, earlier) in counts.iter_mut().zip(earlier) {
            *count = count.saturating_sub(earlier);
        }
        Self::from_array(counts)
    }

    /// By kind, in the order of [`Verb`].
    fn to_array(self) -> [u64; Verb::COUNT] {
        let Self { acquires, renewals, releases, watches, counts, cells, inspections, .. } = self;
        let Self { votes, confirmations, standings, introductions, .. } = self;
        [
            acquires,
            renewals,
            releases,
            watches,
            counts,
            cells,
            inspections,
            votes,
            confirmations,
            standings,
            introductions,
        ]
    }

    fn from_array(counts: [u64; Verb::COUNT]) -> Self {
        let [acquires, renewals, releases, watches, counts, cells, more @ ..] = counts;
        let [inspections, votes, confirmations, standings, introductions] = more;
        Self {
            acquires,
            renewals,
            releases,
            watches,
            counts,
            cells,
            inspections,
            votes,
            confirmations,
            standings,
            introductions,
        }
    }
}

/// The counters behind [`Stats`].
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; Verb::COUNT]);

impl Counters {
    pub(super) fn count(&self, verb: Verb) {
        self.0[verb as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Stats {
        Stats::from_array(self.0.each_ref().map(|counter| counter.load(Ordering::Relaxed)))
    }
}
