//! How values become bytes.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How the values of a [`StoredMutex`](crate::StoredMutex) become bytes, and bytes become values.
///
/// All users of a name must use one codec. [`Json`] is the default. [`Bytes`] stores bytes as they are. `Postcard` is
/// short, and needs the feature `postcard`.
///
/// A codec runs in the task that locks or commits, and outside all internal locks of this crate. If the codec panics,
/// the lock is released. If it panics while it encodes a value, nothing is sent.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Codec, CodecError, Locks};
///
/// /// Keeps a number as decimal digits, which other programs can read.
/// struct Digits;
///
/// impl Codec<u64> for Digits {
///     fn encode(&self, value: &u64) -> Result<Vec<u8>, CodecError> {
///         Ok(value.to_string().into_bytes())
///     }
///
///     fn decode(&self, bytes: &[u8]) -> Result<u64, CodecError> {
///         let text = std::str::from_utf8(bytes).map_err(CodecError::new)?;
///         text.parse().map_err(CodecError::new)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let visits = locks.stored_mutex_with("visits", 0, Digits)?;
/// visits.update(|visits| *visits += 1).await?;
/// assert_eq!(visits.snapshot().await?.value, 1);
/// # Ok(())
/// # }
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// The bytes of a value.
    ///
    /// # Errors
    ///
    /// The reason why the value has no bytes.
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError>;

    /// The value of these bytes.
    ///
    /// # Errors
    ///
    /// The reason why the bytes are not a value of this type.
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError>;
}

/// Keeps values as JSON. The default codec.
///
/// See [`Locks::stored_mutex_with`](crate::Locks::stored_mutex_with) for an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        serde_json::to_vec(value).map_err(CodecError::new)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        // The text of the error of `serde_json` may quote the value, which may be a secret.
        serde_json::from_slice(bytes).map_err(|error| {
            let (problem, at) = (error.classify(), error.column());
            let message = format!("{problem:?} error at column {at}").to_lowercase();
            CodecError::new(message)
        })
    }
}

/// Keeps bytes as they are.
///
/// See [`Locks::stored_mutex_with`](crate::Locks::stored_mutex_with) for an example.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes;

impl Codec<Vec<u8>> for Bytes {
    fn encode(&self, value: &Vec<u8>) -> Result<Vec<u8>, CodecError> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
        Ok(bytes.to_vec())
    }
}

/// Keeps values in the format of [`postcard`], which is shorter than JSON and does not describe itself.
///
/// See [`Locks::stored_mutex_with`](crate::Locks::stored_mutex_with) for an example.
#[cfg(feature = "postcard")]
#[cfg_attr(docsrs, doc(cfg(feature = "postcard")))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Postcard;

#[cfg(feature = "postcard")]
impl<T: Serialize + DeserializeOwned> Codec<T> for Postcard {
    fn encode(&self, value: &T) -> Result<Vec<u8>, CodecError> {
        postcard::to_allocvec(value).map_err(CodecError::new)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        let (value, rest) = postcard::take_from_bytes(bytes).map_err(CodecError::new)?;
        if rest.is_empty() { Ok(value) } else { Err(CodecError::new("bytes follow the value")) }
    }
}

/// Why a value has no bytes, or bytes have no value.
///
/// The [example](Codec#examples) of a codec shows one.
#[derive(Clone, Debug)]
pub struct CodecError(Arc<dyn StdError + Send + Sync>);

impl CodecError {
    /// An error for this reason.
    pub fn new(reason: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self(Arc::from(reason.into()))
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl StdError for CodecError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}
