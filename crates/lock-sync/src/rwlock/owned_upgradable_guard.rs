//! The guard that reads and may come to write, and keeps its lock alive.

use std::sync::Arc;

use lock_core::{Convertible, Mode, Upgradable};

use super::admission::Admitted;
use super::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use crate::lease::{lease_methods, lease_scope, reader_traits};

impl<T: ?Sized, C> OwnedRwLockWriteGuard<T, C> {
    /// Goes on to read with the prospect of writing again, with no other writer in between.
    pub fn downgrade_to_upgradable(self) -> OwnedRwLockUpgradableReadGuard<T, C>
    where
        C: Upgradable,
    {
        let Self { data, mut hold, lock } = self;
        let data = data.downgrade();
        hold.downgrade(Mode::Upgradable);
        OwnedRwLockUpgradableReadGuard::new(data, hold, lock)
    }
}

/// An [`RwLockUpgradableReadGuard`](super::RwLockUpgradableReadGuard) that borrows nothing: it keeps an
/// `Arc` of its lock.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockUpgradableReadGuard<T: ?Sized, C = Convertible> {
    // In this order: see `OwnedRwLockWriteGuard`.
    pub(super) data: tokio::sync::OwnedRwLockReadGuard<T>,
    pub(super) hold: Admitted,
    pub(super) lock: Arc<RwLock<T, C>>,
}

impl<T: ?Sized, C> OwnedRwLockUpgradableReadGuard<T, C> {
    pub(super) fn new(
        data: tokio::sync::OwnedRwLockReadGuard<T>,
        hold: Admitted,
        lock: Arc<RwLock<T, C>>,
    ) -> Self {
        Self { data, hold, lock }
    }

    /// The lock that this guard came from.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.lock
    }

    /// Goes on to read without the prospect of writing, so that another reader can have it.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T, T, C> {
        let Self { data, mut hold, lock } = self;
        hold.downgrade(Mode::Shared);
        OwnedRwLockReadGuard::new(data, hold, lock)
    }

    lease_methods!(shared);
    lease_scope!(shared, T, "upgradable_read");
}

reader_traits!([T: ?Sized, C], OwnedRwLockUpgradableReadGuard<T, C>, T);
