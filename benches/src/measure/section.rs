//! The value that a lock protects, and the sections of its holders.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::yield_once::yield_once;
use crate::Rule;

/// One in this many sections gives up the thread before its end, so that an overlap shows. The others are as short as
/// possible.
const YIELD_EVERY: u64 = 8;

/// The value that a lock protects. A holder that is inside when it must not be leaves a trace.
#[derive(Debug, Default)]
pub(super) struct Protected {
    /// Goes up by one for each exclusive holder. A writer adds two, and makes it odd meanwhile.
    count: AtomicU64,
    /// How many holders of a permit are inside.
    inside: AtomicU64,
    /// How often a holder was inside when it must not be.
    intrusions: AtomicU64,
    holder: AtomicUsize,
    handovers: AtomicU64,
}

impl Protected {
    /// How often the lock went from one task to another, if it is exclusive.
    pub(super) fn handovers(&self) -> u64 {
        self.handovers.load(Ordering::Relaxed)
    }

    pub(super) fn intrusions(&self) -> u64 {
        self.intrusions.load(Ordering::Relaxed)
    }

    /// How many updates there were.
    pub(super) fn updates(&self, rule: Rule) -> u64 {
        let count = self.count.load(Ordering::Acquire);
        match rule {
            Rule::Exclusive => count,
            Rule::ReadWrite { .. } => count / 2,
            Rule::Permits(_) => 0,
        }
    }

    /// Adds one to the counter, by a read and a write.
    pub(super) async fn alone(&self, task: usize, pass: u64) {
        let seen = self.count.load(Ordering::Acquire);
        maybe_yield(pass).await;
        self.count.store(seen + 1, Ordering::Release);
        if self.holder.load(Ordering::Relaxed) != task {
            self.holder.store(task, Ordering::Relaxed);
            let handovers = self.handovers.load(Ordering::Relaxed);
            self.handovers.store(handovers + 1, Ordering::Relaxed);
        }
    }

    /// Makes the counter odd, and even again.
    pub(super) async fn write(&self, pass: u64) {
        let change = Change::begin(self);
        maybe_yield(pass).await;
        change.complete();
    }

    /// Checks that the counter is even and does not change.
    pub(super) async fn read(&self, pass: u64) {
        let before = self.count.load(Ordering::Acquire);
        maybe_yield(pass).await;
        let after = self.count.load(Ordering::Acquire);
        if before != after || !before.is_multiple_of(2) {
            self.intrusions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Checks that no more holders are inside than there are permits.
    pub(super) async fn enter(&self, permits: u32, pass: u64) {
        let inside = Inside::enter(self, permits);
        maybe_yield(pass).await;
        drop(inside);
    }
}

/// Gives up the thread in some of the passes.
pub(crate) async fn maybe_yield(pass: u64) {
    if pass.is_multiple_of(YIELD_EVERY) {
        yield_once().await;
    }
}

/// A write under way. If its task is aborted, the write has no effect.
struct Change<'a> {
    protected: &'a Protected,
    /// The value to store at the end.
    outcome: u64,
}

impl<'a> Change<'a> {
    fn begin(protected: &'a Protected) -> Self {
        let seen = protected.count.load(Ordering::Acquire);
        if !seen.is_multiple_of(2) {
            protected.intrusions.fetch_add(1, Ordering::Relaxed);
        }
        protected.count.store(seen | 1, Ordering::Release);
        Self { protected, outcome: seen & !1 }
    }

    fn complete(mut self) {
        self.outcome += 2;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.protected.count.store(self.outcome, Ordering::Release);
    }
}

/// A holder of a permit.
struct Inside<'a>(&'a Protected);

impl<'a> Inside<'a> {
    fn enter(protected: &'a Protected, permits: u32) -> Self {
        let others = protected.inside.fetch_add(1, Ordering::AcqRel);
        if others >= u64::from(permits) {
            protected.intrusions.fetch_add(1, Ordering::Relaxed);
        }
        Self(protected)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::AcqRel);
    }
}
