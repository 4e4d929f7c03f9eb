//! The guard that reads and may come to write, and borrows its lock.

use lock_core::{Convertible, Mode, Upgradable};

use super::admission::Admitted;
use super::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::lease::{lease_methods, lease_scope, reader_traits};

impl<'a, T: ?Sized, C> RwLockWriteGuard<'a, T, C> {
    /// Goes on to read with the prospect of writing again, with no other writer in between.
    ///
    /// Only over a backend that can convert a lease. As [`downgrade`](Self::downgrade), but what remains can be
    /// [upgraded](RwLockUpgradableReadGuard::upgrade).
    pub fn downgrade_to_upgradable(self) -> RwLockUpgradableReadGuard<'a, T, C>
    where
        C: Upgradable,
    {
        let Self { data, mut hold, lock } = self;
        let data = data.downgrade();
        hold.downgrade(Mode::Upgradable);
        RwLockUpgradableReadGuard::new(data, hold, lock)
    }
}

/// The right to read the data of an [`RwLock`] and to be the next to write it, and a lease on its lock.
///
/// Dropping it, and losing its lease, are as with [`RwLockReadGuard`].
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockUpgradableReadGuard<'a, T: ?Sized, C = Convertible> {
    // In this order: whoever gets the lock next finds the data free.
    pub(super) data: tokio::sync::RwLockReadGuard<'a, T>,
    pub(super) hold: Admitted,
    pub(super) lock: &'a RwLock<T, C>,
}

impl<'a, T: ?Sized, C> RwLockUpgradableReadGuard<'a, T, C> {
    pub(super) fn new(
        data: tokio::sync::RwLockReadGuard<'a, T>,
        hold: Admitted,
        lock: &'a RwLock<T, C>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// Goes on to read without the prospect of writing, so that another reader can have it.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        let Self { data, mut hold, .. } = self;
        hold.downgrade(Mode::Shared);
        RwLockReadGuard::new(data, hold)
    }

    lease_methods!(shared);
    lease_scope!(shared, T, "upgradable_read");
}

reader_traits!(['a, T: ?Sized, C], RwLockUpgradableReadGuard<'a, T, C>, T);
