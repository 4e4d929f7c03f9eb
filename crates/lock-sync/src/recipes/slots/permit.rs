//! A slot that was acquired.

use std::fmt;
use std::sync::Arc;

use super::SlotSemaphore;
use crate::bare::Hold;
use crate::lease::Lease;

/// A permit of a [`SlotSemaphore`], and a lease on its slot.
///
/// # Dropping
///
/// Dropping the permit gives the slot back. If another task of this process waits and may have the slot next, that
/// task gets the slot at once. Otherwise the release is *enqueued*: the driver sends it to the store a moment later,
/// from its own thread. A drop never blocks, spawns or panics, and needs no runtime. Use [`release`](Self::release)
/// to wait for the store, and [`Locks::shutdown`](crate::Locks::shutdown) before the process ends.
///
/// # If the lease is lost
///
/// The permit still exists, but its slot has gone back to the semaphore, and another holder may have the
/// slot. Its [`Lease`] reports the loss by the clock and as a future.
#[clippy::has_significant_drop]
#[must_use = "if unused the permit is given back at once"]
pub struct SlotPermit<'a> {
    hold: Hold,
    slot: usize,
    semaphore: &'a SlotSemaphore,
}

/// A permit of a [`SlotSemaphore`] that borrows nothing: it keeps an `Arc` of its semaphore.
///
/// Otherwise it is like [`SlotPermit`].
#[clippy::has_significant_drop]
#[must_use = "if unused the permit is given back at once"]
pub struct OwnedSlotPermit {
    hold: Hold,
    slot: usize,
    semaphore: Arc<SlotSemaphore>,
}

impl<'a> SlotPermit<'a> {
    pub(super) fn new(semaphore: &'a SlotSemaphore, slot: usize, hold: Hold) -> Self {
        Self { hold, slot, semaphore }
    }

    /// The semaphore that this permit belongs to.
    ///
    /// See [`SlotSemaphore`](crate::SlotSemaphore#examples) for an example.
    pub fn semaphore(&self) -> &'a SlotSemaphore {
        self.semaphore
    }
}

impl OwnedSlotPermit {
    pub(super) fn new(semaphore: Arc<SlotSemaphore>, slot: usize, hold: Hold) -> Self {
        Self { hold, slot, semaphore }
    }

    /// The semaphore that this permit belongs to.
    ///
    /// See [`SlotSemaphore`](crate::SlotSemaphore#examples) for an example.
    pub fn semaphore(&self) -> &Arc<SlotSemaphore> {
        &self.semaphore
    }
}

/// The methods of both kinds of permit.
macro_rules! permit_methods {
    ([$($generics:tt)*], $permit:ty, $name:literal) => {
        impl<$($generics)*> $permit {
            /// The number of the slot, from zero. No other holder has this slot while the permit is valid, so the
            /// number can select one of several resources. The name of the lock in the [`Lease`] is the name of the
            /// semaphore, `#`, and the number of the slot.
            pub fn slot(&self) -> usize {
                self.slot
            }

            crate::guard::leased!(
                "Gives the slot back, and waits until the store has confirmed it or the slot has gone to \
                 another task of this process.",
                (&self) => Lease::of(&self.hold),
                (self) => self.hold.release().await
            );
        }

        impl<$($generics)*> fmt::Debug for $permit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct($name)
                    .field("key", self.hold.key())
                    .field("fencing_token", &self.hold.fencing_token())
                    .finish_non_exhaustive()
            }
        }
    };
}

permit_methods!(['a], SlotPermit<'a>, "SlotPermit");
permit_methods!([], OwnedSlotPermit, "OwnedSlotPermit");
