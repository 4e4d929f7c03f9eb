//! The errors of a cell.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;

use lock_core::Error;

use crate::bare::denied;
use crate::error::{LeaseLost, LockError};
use crate::recipes::cell::Unstored;

/// Why there is no value. `E` is the error of an initialization that can fail.
///
/// The type is a [`std::error::Error`] for every `E` with `Display`, so also for an `anyhow::Error` or a `Box<dyn
/// Error>`, which are not `Error` themselves. For that reason [`source`](StdError::source) does not return `E`. The
/// message contains the message of `E`.
///
/// Two errors are equal if they have equal variants, and if the backend errors in them have equal [kinds](Error::kind).
///
/// See [`OnceCell::get_or_try_init`](crate::OnceCell::get_or_try_init) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnceCellError<E = Infallible> {
    /// The initialization failed.
    Init(E),
    /// The lease was lost before the value was stored or erased. Another caller may be initializing the value.
    Lost(LeaseLost),
    /// The store has not said whether the value was stored or erased. A request had no answer, and the call then
    /// failed. [`load`](crate::OnceCell::load) asks for the value.
    Unknown(Error),
    /// The wait limit was reached.
    ///
    /// If `source` is `Some`, the store had failed or had not answered by then. Otherwise no caller had initialized
    /// the value by then.
    Timeout {
        /// The last failure of the backend, unless the backend has answered since.
        source: Option<Error>,
    },
    /// [`Locks::shutdown`](crate::Locks::shutdown) was called.
    Closed,
    /// The value cannot be stored, or the stored value is not of this type.
    Value(Error),
    /// The backend failed with an error that is not retryable, or for longer than a lease lives.
    Backend(Error),
}

denied!(OnceCellError<E>);

impl<E> From<Unstored> for OnceCellError<E> {
    fn from(unstored: Unstored) -> Self {
        match unstored {
            Unstored::Lost(_, Some(doubt)) | Unstored::Failed(_, Some(doubt)) => {
                Self::Unknown(doubt)
            }
            Unstored::Lost(lost, None) => Self::Lost(lost),
            Unstored::Failed(error, None) => Self::Backend(error),
        }
    }
}

/// The alternate form (`{:#}`) shows the error of the initialization in its alternate form.
impl<E: fmt::Display> fmt::Display for OnceCellError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init(_) => "the initialization of the value failed: ",
            Self::Lost(_) => "the lease was lost before the value was stored or erased",
            Self::Unknown(_) => "it is unknown whether the value was stored or erased",
            Self::Timeout { .. } => "the value was not there within the wait limit",
            Self::Closed => "the locks are shutting down",
            Self::Value(_) => "the value cannot be stored or read",
            Self::Backend(_) => "the lock backend failed",
        })?;
        match self {
            Self::Init(error) => error.fmt(f),
            _ => Ok(()),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> StdError for OnceCellError<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(source) => Some(source),
            Self::Timeout { source } => source.as_ref().map(|source| source as _),
            Self::Init(_) | Self::Closed => None,
            Self::Unknown(source) | Self::Value(source) | Self::Backend(source) => Some(source),
        }
    }
}

/// An error whose outcome is [unknown](OnceCellError::Unknown) becomes [`LockError::Backend`].
impl From<OnceCellError> for LockError {
    fn from(error: OnceCellError) -> Self {
        match error {
            OnceCellError::Init(never) => match never {},
            OnceCellError::Lost(lost) => Self::Lost(lost),
            OnceCellError::Timeout { source } => Self::Timeout { source },
            OnceCellError::Closed => Self::Closed,
            OnceCellError::Value(error) => Self::Value(error),
            OnceCellError::Unknown(error) | OnceCellError::Backend(error) => Self::Backend(error),
        }
    }
}

/// Why a value was not set, or may not have been set, and the value.
///
/// See [`OnceCell::set`](crate::OnceCell::set) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError<T> {
    /// There is a value.
    AlreadyInitializedError(T),
    /// There is no value, but another caller is initializing it.
    InitializingError(T),
    /// The store could not be asked, or the value could not be stored. With [`OnceCellError::Unknown`], the store may
    /// have the value.
    Failed(T, OnceCellError),
}

impl<T> SetError<T> {
    /// Whether there is a value.
    pub fn is_already_init_err(&self) -> bool {
        matches!(self, Self::AlreadyInitializedError(_))
    }

    /// Whether another caller is initializing the value.
    ///
    /// See [`OnceCell::set`](crate::OnceCell::set) for an example.
    pub fn is_initializing_err(&self) -> bool {
        matches!(self, Self::InitializingError(_))
    }

    /// The value of the caller.
    ///
    /// See [`OnceCell::set`](crate::OnceCell::set) for an example.
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
            Self::Failed(_, OnceCellError::Unknown(_)) => "it is unknown whether the value was set",
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
