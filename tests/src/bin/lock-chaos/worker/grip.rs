//! The common part of guards of all kinds.

use lock_core::{FencingToken, Fixed, Key};
use lock_sync::{
    Leadership, Lease, MultiGuard, MutexGuard, OwnedMutexGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, OwnedSlotPermit,
    OwnerGuard, ReentrantGuard, ReleaseError, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, SemaphorePermit, SlotPermit, StoredMutexGuard,
};

use super::pages::{Page, Pages};
use super::shelf::SLOT_KEYS;

/// A guard, and the lease of its hold.
pub(crate) trait Grip: Send {
    fn lease(&self) -> Lease;

    /// The token for this lock, which is one of the held locks.
    fn token(&self, _key: &str) -> FencingToken {
        self.lease().fencing_token()
    }

    /// The lock in use, if one name stands for several.
    fn slot(&self) -> Option<&'static str> {
        None
    }

    /// Releases, and waits until the store knows.
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send;
}

macro_rules! grips {
    ($($guard:ty $({ $more:item })?),* $(,)?) => {$(
        impl Grip for $guard {
            $($more)?

            fn lease(&self) -> Lease {
                <$guard>::lease(self)
            }

            async fn release(self) -> Result<(), ReleaseError> {
                <$guard>::release(self).await
            }
        }
    )*};
}

grips!(
    MutexGuard<'_, ()>,
    OwnedMutexGuard<()>,
    RwLockReadGuard<'_, ()>,
    OwnedRwLockReadGuard<()>,
    OwnedRwLockReadGuard<(), (), Fixed>,
    RwLockWriteGuard<'_, ()>,
    RwLockWriteGuard<'_, (), Fixed>,
    OwnedRwLockWriteGuard<()>,
    OwnedRwLockWriteGuard<(), Fixed>,
    RwLockUpgradableReadGuard<'_, ()>,
    OwnedRwLockUpgradableReadGuard<()>,
    SemaphorePermit<'_>,
    OwnedSemaphorePermit,
    SlotPermit<'_> {
        fn slot(&self) -> Option<&'static str> {
            SLOT_KEYS.get(self.slot()).copied()
        }
    },
    OwnedSlotPermit {
        fn slot(&self) -> Option<&'static str> {
            SLOT_KEYS.get(self.slot()).copied()
        }
    },
    MultiGuard {
        fn token(&self, key: &str) -> FencingToken {
            let token = Key::new(key).ok().and_then(|key| self.lease().fencing_token_of(&key));
            token.unwrap_or_else(|| panic!("{self:?} does not hold {key}"))
        }
    },
    OwnerGuard<'_, ()>,
    ReentrantGuard<'_, ()>,
    StoredMutexGuard<Page, Pages>,
);

impl Grip for Leadership {
    fn lease(&self) -> Lease {
        self.lease()
    }

    async fn release(self) -> Result<(), ReleaseError> {
        self.resign().await
    }
}
