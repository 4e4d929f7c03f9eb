//! The common part of guards of all kinds.

use lock_core::{FencingToken, Fixed, Instant, Key};
use lock_sync::{
    AllGuard, Leadership, LeaseLost, Lost, MutexGuard, OwnedMutexGuard, OwnedRwLockReadGuard,
    OwnedRwLockUpgradableReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, OwnedSlotPermit,
    OwnerGuard, ReentrantGuard, ReleaseError, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard, SemaphorePermit, SlotPermit,
};

use super::shelf::SLOT_KEYS;

/// A guard, and the lease of its hold.
pub(crate) trait Grip: Send {
    /// The token for this lock, which is one of the held locks.
    fn token(&self, key: &str) -> FencingToken;

    /// The lock in use, if one name stands for several.
    fn slot(&self) -> Option<&'static str> {
        None
    }

    fn valid_until(&self) -> Instant;

    fn check(&self) -> Result<(), LeaseLost>;

    fn lost(&self) -> Lost;

    /// Releases, and waits until the store knows.
    fn release(self) -> impl Future<Output = Result<(), ReleaseError>> + Send;
}

macro_rules! grips {
    ($($guard:ty $({ $more:item })?),* $(,)?) => {$(
        impl Grip for $guard {
            $($more)?

            fn token(&self, _: &str) -> FencingToken {
                self.fencing_token()
            }

            grips!(@rest);

            async fn release(self) -> Result<(), ReleaseError> {
                self.release().await
            }
        }
    )*};

    (@rest) => {
        fn valid_until(&self) -> Instant {
            self.valid_until()
        }

        fn check(&self) -> Result<(), LeaseLost> {
            self.check()
        }

        fn lost(&self) -> Lost {
            self.lost()
        }
    };
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
    OwnerGuard<'_, ()>,
    ReentrantGuard<'_, ()>,
);

impl Grip for Leadership {
    fn token(&self, _: &str) -> FencingToken {
        self.fencing_token()
    }

    grips!(@rest);

    async fn release(self) -> Result<(), ReleaseError> {
        self.resign().await
    }
}

impl Grip for AllGuard {
    fn token(&self, key: &str) -> FencingToken {
        let token = Key::new(key).ok().and_then(|key| self.fencing_token(&key));
        token.unwrap_or_else(|| panic!("{self:?} does not hold {key}"))
    }

    grips!(@rest);

    async fn release(self) -> Result<(), ReleaseError> {
        self.release().await
    }
}
