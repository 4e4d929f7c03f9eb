//! What a cell returns instead of its value.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use crate::bare::Denial;
use crate::error::LeaseLost;
use crate::recipes::cell::Unstored;

/// Why there is no value. `E` is the error of the initialization, if that can fail.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OnceCellError<E = Infallible> {
    /// The initialization failed.
    Init(E),
    /// The lease was lost before the value was stored: somebody else may be about to initialize it.
    Lost(LeaseLost),
    /// The wait limit was reached.
    ///
    /// If the store had failed or not answered at the end of it, `source` says so; otherwise somebody else
    /// was about to initialize the value, or nobody was.
    Timeout {
        /// The last failure of the backend, unless it has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The value cannot be stored, or what is stored is not of this type.
    Value(Error),
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

impl<E> From<Denial> for OnceCellError<E> {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Timeout(source) => Self::Timeout { source },
            // Only a caller that does not wait is turned away so.
            Denial::WouldBlock => Self::Timeout { source: None },
            Denial::Closed => Self::Closed,
            Denial::Lost(lost) => Self::Lost(lost),
            Denial::Failed(error) => Self::Backend(error),
        }
    }
}

impl<E> From<Unstored> for OnceCellError<E> {
    fn from(unstored: Unstored) -> Self {
        match unstored {
            Unstored::Lost(lost) => Self::Lost(lost),
            Unstored::Failed(error) => Self::Backend(error),
        }
    }
}

impl<E> fmt::Display for OnceCellError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init(_) => "the initialization of the value failed",
            Self::Lost(_) => "the lease was lost before the value was stored",
            Self::Timeout { .. } => "the value was not there within the wait limit",
            Self::Closed => "the locks are shutting down",
            Self::Value(_) => "the value cannot be stored or read",
            Self::Backend(_) => "the lock backend failed",
        })
    }
}

impl<E: StdError + 'static> StdError for OnceCellError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Init(source) => Some(source),
            Self::Lost(source) => Some(source),
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Closed => None,
            Self::Value(source) | Self::Backend(source) => Some(source),
        }
    }
}

/// Why a value was not set, and the value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SetError<T> {
    /// There is a value.
    AlreadyInitializedError(T),
    /// There is none, but somebody is about to initialize it.
    InitializingError(T),
    /// Neither could be found out, or the value could not be stored.
    Failed(T, OnceCellError),
}

impl<T> SetError<T> {
    /// Whether there is a value.
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, Self::AlreadyInitializedError(_))
    }

    /// Whether somebody is about to initialize the value.
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, Self::InitializingError(_))
    }

    /// The value that was not set.
    pub fn into_value(self) -> T {
        match self {
            Self::AlreadyInitializedError(value)
            | Self::InitializingError(value)
            | Self::Failed(value, _) => value,
        }
    }
}

impl<T> fmt::Display for SetError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyInitializedError(_) => "AlreadyInitializedError",
            Self::InitializingError(_) => "InitializingError",
            Self::Failed(..) => "the value could not be set",
        })
    }
}

impl<T: fmt::Debug> StdError for SetError<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(_, source) => Some(source),
            Self::AlreadyInitializedError(_) | Self::InitializingError(_) => None,
        }
    }
}
