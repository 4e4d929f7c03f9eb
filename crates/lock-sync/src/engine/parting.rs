//! The release of a lease that no other task waits for.

use crate::sync::atomic::{AtomicU32, Ordering};

/// A release that concerns only the task that sent it. Its answer needs no pass: the next call that locks the entry
/// notes the answer.
#[derive(Debug)]
pub(super) struct Parting(AtomicU32);

/// There is no such release.
const NONE: u32 = 0;
/// The release is under way, and no call has locked the entry since.
const AWAY: u32 = 1;
/// The store has the lease back, and no call has locked the entry since.
const BACK: u32 = 2;

impl Parting {
    pub(super) fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// The release goes out. The entry is locked.
    pub(super) fn begin(&self) {
        self.0.store(AWAY, Ordering::Release);
    }

    /// A call has locked the entry. Returns whether the call has to note that the lease is back. From now on, the
    /// answer to the release needs a pass.
    pub(super) fn look(&self) -> bool {
        self.0.load(Ordering::Acquire) != NONE && self.0.swap(NONE, Ordering::AcqRel) == BACK
    }

    /// The store has the lease back. Returns `false` if that needs a pass.
    pub(super) fn end(&self) -> bool {
        self.0.compare_exchange(AWAY, BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
