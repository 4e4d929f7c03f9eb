//! Why there is no guard, before it becomes the error of the call.

use lock_core::Error;

use crate::bare::Denial;
use crate::error::{LockError, TryLockError};

pub(crate) enum Unentered {
    /// The code runs outside an owner scope.
    NoOwnerScope,
    /// The operating system gives no random bytes for an owner.
    NoOwner(Error),
    Denied(Denial),
}

macro_rules! from_unentered {
    ($($error:ident),*) => {$(
        impl From<Unentered> for $error {
            fn from(reason: Unentered) -> Self {
                match reason {
                    Unentered::NoOwnerScope => Self::NoOwnerScope,
                    Unentered::NoOwner(error) => Self::Backend(error),
                    Unentered::Denied(denial) => denial.into(),
                }
            }
        }
    )*};
}

from_unentered!(LockError, TryLockError);
