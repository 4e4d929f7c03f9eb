//! The release of a lease that no other task waits for.

use lock_core::OwnerToken;

use crate::sync::atomic::{AtomicU64, Ordering};

/// A release that concerns only the task that sent it. Its answer needs no pass: the next call that locks the entry
/// notes the answer.
///
/// It keeps the first digits of the owner of the lease, so that a late answer to an earlier release does not count.
#[derive(Debug)]
pub(super) struct Parting(AtomicU64);

/// There is no such release, or a call has locked the entry since.
const NONE: u64 = 0;
/// Added to the digits once the store has the lease back. Digits are ASCII, so this bit is free.
const BACK: u64 = 1 << 63;

impl Parting {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(NONE))
    }

    /// The release of this owner's lease goes out. The entry is locked.
    pub(super) fn begin(&self, owner: OwnerToken) {
        self.0.store(digits(owner), Ordering::Release);
    }

    /// A call has locked the entry. Returns whether the call has to note that the lease is back. From now on, the
    /// answer to the release needs a pass.
    pub(super) fn look(&self) -> bool {
        self.0.load(Ordering::Acquire) != NONE && self.0.swap(NONE, Ordering::AcqRel) & BACK != 0
    }

    /// The store has this owner's lease back. Returns `false` if that needs a pass.
    pub(super) fn end(&self, owner: OwnerToken) -> bool {
        let away = digits(owner);
        self.0.compare_exchange(away, away | BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// The first digits of a token. They are random, and each claim has its own.
fn digits(owner: OwnerToken) -> u64 {
    owner.expose().first_chunk().map_or(1, |digits| u64::from_be_bytes(*digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_to_an_earlier_release_does_not_count() {
        let [first, next] = [1, 2].map(|n| OwnerToken::from_bytes([n; 16]));
        let parting = Parting::new();
        parting.begin(first);
        assert!(!parting.look());
        parting.begin(next);
        assert!(!parting.end(first));
        assert!(parting.end(next));
        assert!(parting.look());
        assert!(!parting.end(next), "a call has locked the entry");
    }
}
