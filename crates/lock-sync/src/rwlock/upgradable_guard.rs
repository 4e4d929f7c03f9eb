//! The guards of an upgradable read lock: one that borrows its lock, and one that keeps its lock alive.

use std::sync::Arc;

use lock_core::{Convertible, Mode, Upgradable};

use super::admission::Admitted;
use super::{
    OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use crate::guard::{Guarded, guard};

impl<'a, T: ?Sized, C> RwLockWriteGuard<'a, T, C> {
    /// Downgrades to an upgradable read lock, with no other writer in between.
    ///
    /// The call needs a backend that can convert a lease. It works as [`downgrade`](Self::downgrade), but the new
    /// guard can be [upgraded](RwLockUpgradableReadGuard::upgrade) again.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgradable guard.
    pub fn downgrade_to_upgradable(self) -> RwLockUpgradableReadGuard<'a, T, C>
    where
        C: Upgradable,
    {
        let core = self.core.map(|data| data.downgrade());
        RwLockUpgradableReadGuard { core: core.downgrade(Mode::Upgradable) }
    }
}

impl<T: ?Sized, C> OwnedRwLockWriteGuard<T, C> {
    /// Downgrades to an upgradable read lock, with no other writer in between.
    ///
    /// See [`RwLock`](crate::RwLock#examples) for an example of an upgradable guard.
    pub fn downgrade_to_upgradable(self) -> OwnedRwLockUpgradableReadGuard<T, C>
    where
        C: Upgradable,
    {
        let core = self.core.map(|data| data.downgrade());
        OwnedRwLockUpgradableReadGuard { core: core.downgrade(Mode::Upgradable) }
    }
}

/// Read access to the data of an [`RwLock`], the right to become its next writer, and a lease on its lock.
///
/// [`RwLockReadGuard`] says what a drop does, and what happens if the lease is lost.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockUpgradableReadGuard<'a, T: ?Sized, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::RwLockReadGuard<'a, T>, Admitted, &'a RwLock<T, C>>,
}

impl<'a, T: ?Sized, C> RwLockUpgradableReadGuard<'a, T, C> {
    /// Downgrades to an ordinary read lock, so that another reader can take the upgradable one.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    ///
    /// See [`RwLockWriteGuard::downgrade`](crate::RwLockWriteGuard::downgrade) for an example of a downgrade.
    pub fn downgrade(self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard { core: self.core.downgrade(Mode::Shared).without_lock() }
    }
}

guard!(['a, T: ?Sized, C] RwLockUpgradableReadGuard<'a, T, C> => T);

/// An [`RwLockUpgradableReadGuard`] that borrows nothing: it keeps an `Arc` of its lock.
///
/// See [`RwLock`](crate::RwLock#examples) for an example.
#[clippy::has_significant_drop]
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct OwnedRwLockUpgradableReadGuard<T: ?Sized, C = Convertible> {
    pub(super) core: Guarded<tokio::sync::OwnedRwLockReadGuard<T>, Admitted, Arc<RwLock<T, C>>>,
}

impl<T: ?Sized, C> OwnedRwLockUpgradableReadGuard<T, C> {
    /// The lock that this guard belongs to.
    pub fn rwlock(this: &Self) -> &Arc<RwLock<T, C>> {
        &this.core.lock
    }

    /// Downgrades to an ordinary read lock, so that another reader can take the upgradable one.
    ///
    /// No writer gets in between. The guard keeps its fencing token.
    ///
    /// See [`RwLockWriteGuard::downgrade`](crate::RwLockWriteGuard::downgrade) for an example of a downgrade.
    pub fn downgrade(self) -> OwnedRwLockReadGuard<T, T, C> {
        OwnedRwLockReadGuard { core: self.core.downgrade(Mode::Shared) }
    }
}

guard!([T: ?Sized, C] OwnedRwLockUpgradableReadGuard<T, C> => T);
