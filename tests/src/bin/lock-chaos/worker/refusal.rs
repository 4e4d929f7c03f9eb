//! The reason why there is no guard, or why a guard did not end as it should, in the words of a
//! history.

use lock_core::Error;
use lock_sync::{
    AcquireError, CommitError, LockError, OnceCellError, ReleaseError, SaveError, TryAcquireError,
    TryLockError,
};
use lock_tests::chaos::history::Refusal;

use super::pages::{Page, Pages};

/// An error instead of a guard, or of its end.
pub(crate) trait Denial: Send {
    fn refusal(&self) -> Refusal;
}

fn failed(error: &Error) -> Refusal {
    Refusal::Failed(format!("{:?}", error.kind()))
}

/// An error of a kind that did not exist when this was written.
fn unknown() -> Refusal {
    Refusal::Failed("Unknown".to_owned())
}

macro_rules! denials {
    ($($error:ident { $($variant:pat => $refusal:expr),* $(,)? })*) => {$(
        impl Denial for $error {
            fn refusal(&self) -> Refusal {
                use $error::*;

                match self {
                    $($variant => $refusal,)*
                    Closed => Refusal::Closed,
                    Backend(error) => failed(error),
                    _ => unknown(),
                }
            }
        }
    )*};
}

denials! {
    LockError { Timeout { .. } => Refusal::TimedOut, Lost(_) => Refusal::Lost }
    TryLockError { WouldBlock => Refusal::Busy, Lost(_) => Refusal::Lost }
    AcquireError { Timeout { .. } => Refusal::TimedOut }
    TryAcquireError { NoPermits => Refusal::Busy }
}

/// An error instead of a version.
pub(crate) trait Unstored {
    /// Why, and whether nothing was stored.
    fn unstored(&self) -> (Refusal, bool);
}

macro_rules! unstored {
    ($($error:ty, $type:ident { $($variant:pat => $outcome:expr),* $(,)? })*) => {$(
        impl Unstored for $error {
            fn unstored(&self) -> (Refusal, bool) {
                use $type::*;

                match self {
                    $($variant => $outcome,)*
                    _ => (unknown(), false),
                }
            }
        }
    )*};
}

fn unencoded() -> (Refusal, bool) {
    (Refusal::Failed("Encode".to_owned()), true)
}

unstored! {
    CommitError<Page, Pages>, CommitError {
        Encode { .. } => unencoded(),
        Refused { source, .. } => (failed(source), true),
        Lost { .. } => (Refusal::Lost, true),
        Unknown { source, .. } => (failed(source), false),
    }
    SaveError, SaveError {
        Encode(_) => unencoded(),
        Refused(source) => (failed(source), true),
        Lost(_) => (Refusal::Lost, true),
        Unknown(source) => (failed(source), false),
    }
}

impl Denial for ReleaseError {
    fn refusal(&self) -> Refusal {
        match self {
            Self::Lost(_) => Refusal::Lost,
            Self::Backend(error) => failed(error),
            _ => unknown(),
        }
    }
}

impl<E: Send> Denial for OnceCellError<E> {
    fn refusal(&self) -> Refusal {
        match self {
            Self::Init(_) => Refusal::Failed("Init".to_owned()),
            Self::Lost(_) => Refusal::Lost,
            Self::Timeout { .. } => Refusal::TimedOut,
            Self::Closed => Refusal::Closed,
            Self::Unknown(error) | Self::Value(error) | Self::Backend(error) => failed(error),
            _ => unknown(),
        }
    }
}
