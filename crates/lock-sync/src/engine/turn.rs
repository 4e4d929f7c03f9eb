//! The turn of a process, and what the store said about other processes.

use lock_core::{Contention, Instant};

/// The turn of this process with a lease, which the hand-off budget limits, and the contention of other processes.
#[derive(Debug)]
pub(super) struct Turn {
    contention: Contention,
    /// Since when other processes may be waiting.
    since: Instant,
    /// The number of the present holder in the turn. A holder that comes while no other process waits is the first.
    served: u32,
    /// The last answer of the store could not tell whether other processes wait.
    silent: bool,
    /// The process has asked the store for the contention since hints may have been missed. If no answer comes, it asks
    /// again with the next renewal, not at once.
    inquired: bool,
    /// A hint said that another process waits while a request was under way. The answer may be older than the hint.
    wish: bool,
}

impl Turn {
    /// The turn after a grant.
    pub(super) fn new(contention: Contention, now: Instant) -> Self {
        Self { contention, since: now, served: 0, silent: false, inquired: false, wish: false }
    }

    #[inline]
    pub(super) fn contention(&self) -> Contention {
        self.contention
    }

    /// Whether the store said that no other process waits.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.contention == Contention::Quiet
    }

    /// Whether another process waits.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.contention == Contention::Contended
    }

    /// Whether the process has yet to ask the store for the contention.
    #[inline]
    pub(super) fn is_unasked(&self) -> bool {
        self.contention == Contention::Unknown && !self.inquired
    }

    /// Whether the store has been asked for the contention, and could not tell.
    pub(super) fn is_silent(&self) -> bool {
        self.contention == Contention::Unknown && self.silent
    }

    /// How many holders the turn has had, and since when it lasts.
    #[inline]
    pub(super) fn progress(&self) -> (u32, Instant) {
        (self.served, self.since)
    }

    /// The lease has one more holder. The budget of its turn begins anew only with a holder that comes while no other
    /// process waits: a moment without other processes, in the middle of a hold, gives no further hand-offs.
    #[inline]
    pub(super) fn serve(&mut self) {
        self.served = if self.is_quiet() { 1 } else { self.served.saturating_add(1) };
    }

    /// The process asks the store.
    pub(super) fn inquire(&mut self) {
        self.inquired = true;
    }

    /// The store has answered a request about the lease.
    pub(super) fn answer(&mut self, contention: Contention, now: Instant) {
        let contention =
            if std::mem::take(&mut self.wish) { Contention::Contended } else { contention };
        self.silent = contention == Contention::Unknown;
        self.set(contention, now);
    }

    /// A hint says that another process waits. `busy`: a request about the lease is under way.
    pub(super) fn hear_wish(&mut self, busy: bool, now: Instant) {
        self.wish = busy;
        self.set(Contention::Contended, now);
    }

    /// From now on no hint tells that another process waits.
    pub(super) fn hear_nothing(&mut self, now: Instant) {
        self.listen_again();
        self.set(Contention::Unknown, now);
    }

    /// No longer assumes that the store cannot tell the contention: it may be able to now.
    pub(super) fn listen_again(&mut self) {
        (self.silent, self.inquired) = (false, false);
    }

    /// Notes the contention. If it was quiet before and is not now, the time of a turn begins.
    fn set(&mut self, contention: Contention, now: Instant) {
        if self.is_quiet() && contention != Contention::Quiet {
            self.since = now;
        }
        self.contention = contention;
    }
}
