//! What a lock protects, and what those do who are inside.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::yield_once::yield_once;
use crate::Rule;

/// One in so many sections gives up the thread before its end, so that an overlap shows. The others are
/// as short as can be.
const YIELD_EVERY: u64 = 8;

/// What a lock protects. Whoever is inside beside whom it must not be leaves a trace.
#[derive(Debug, Default)]
pub(super) struct Protected {
    /// Goes up by one for each that was inside alone; by two for a writer, and is odd meanwhile.
    count: AtomicU64,
    /// How many are inside, of those who have a permit.
    inside: AtomicU64,
    /// How often somebody was inside beside whom it must not be.
    intrusions: AtomicU64,
    holder: AtomicUsize,
    handovers: AtomicU64,
}

impl Protected {
    /// How often it went from one task to another, if one alone could have it.
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

    /// A counter goes up by one, by a read and a write.
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

    /// A counter becomes odd, and even again.
    pub(super) async fn write(&self, pass: u64) {
        let change = Change::begin(self);
        maybe_yield(pass).await;
        change.complete();
    }

    /// The counter is even, and remains what it is.
    pub(super) async fn read(&self, pass: u64) {
        let before = self.count.load(Ordering::Acquire);
        maybe_yield(pass).await;
        let after = self.count.load(Ordering::Acquire);
        if before != after || !before.is_multiple_of(2) {
            self.intrusions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There are no more inside than there are permits.
    pub(super) async fn enter(&self, permits: u32, pass: u64) {
        let inside = Inside::enter(self, permits);
        maybe_yield(pass).await;
        drop(inside);
    }
}

/// Gives up the thread, in one of some passes.
pub(crate) async fn maybe_yield(pass: u64) {
    if pass.is_multiple_of(YIELD_EVERY) {
        yield_once().await;
    }
}

/// A write under way. If its task is aborted nothing was written.
struct Change<'a> {
    protected: &'a Protected,
    /// What is stored at the end.
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

/// Somebody who has a permit.
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
