//! How a test of a law ends.

use crate::Error;

/// The outcome of testing one law.
///
/// A [`Suite`](super::Suite) shows how laws are run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a broken law is a value here, not a panic"]
pub enum Verdict {
    /// The backend kept the law.
    Holds,
    /// The law does not apply, for this reason.
    NotApplicable(String),
    /// The backend broke the law, in this way.
    Broken(String),
}

/// Why a test of a law ended early.
#[derive(Debug)]
pub(super) enum Failure {
    Broken(String),
    NotApplicable(String),
    /// The test came too late to see what it looks for, as on a busy machine. The suite repeats it. If it is late each
    /// time, the law is broken.
    Late(String),
}

/// The result of a test of a law.
pub(super) type Check<T = ()> = Result<T, Failure>;

impl Failure {
    /// This failure, with the name of its law among several that are tested together.
    pub(super) fn of(self, law: &str) -> Self {
        match self {
            Self::Broken(reason) => Self::Broken(format!("{law}: {reason}")),
            Self::NotApplicable(reason) => Self::NotApplicable(format!("{law}: {reason}")),
            Self::Late(reason) => Self::Late(format!("{law}: {reason}")),
        }
    }
}

impl From<Failure> for Verdict {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Broken(reason) | Failure::Late(reason) => Self::Broken(reason),
            Failure::NotApplicable(reason) => Self::NotApplicable(reason),
        }
    }
}

/// An error that the law did not expect.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Broken(format!("unexpected error: {error} ({:?})", error.kind()))
    }
}

/// Ends the test of a law unless `condition` holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::conformance::verdict::Failure::Broken(format!($($message)+)));
        }
    };
}

pub(super) use ensure;
