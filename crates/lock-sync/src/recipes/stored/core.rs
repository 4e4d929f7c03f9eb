//! The part that a mutex and its guards share.

use std::sync::Arc;

use lock_core::{Cell, Error, ErrorKind};

use super::codec::{Codec, CodecError};
use crate::recipes::cell::RemoteCell;

/// The lock with its value, and the codec. Clones are cheap.
pub(super) struct Core<C> {
    pub(super) remote: RemoteCell,
    pub(super) codec: Arc<C>,
    /// The greatest length of an encoded value, in bytes.
    pub(super) longest: usize,
}

/// Why a value cannot be sent.
pub(super) enum Unsendable {
    Encode(CodecError),
    TooLong(Error),
}

impl<C> Core<C> {
    pub(super) fn new(remote: RemoteCell, codec: C) -> Self {
        Self { remote, codec: Arc::new(codec), longest: Cell::MAX_LEN }
    }

    /// This core, for a caller that blocks its thread.
    pub(super) fn on_driver(&self) -> Self {
        let Self { remote, codec, longest } = self.clone();
        Self { remote: remote.map(|bare| bare.on_driver()), codec, longest }
    }

    /// The bytes of a value. Refuses a value that is too long.
    pub(super) fn encode<T>(&self, value: &T) -> Result<Vec<u8>, Unsendable>
    where
        C: Codec<T>,
    {
        let bytes = self.codec.encode(value).map_err(Unsendable::Encode)?;
        let (len, most) = (bytes.len(), self.longest);
        if len > most {
            let message = format!("a value of {len} bytes is too long: at most {most}");
            return Err(Unsendable::TooLong(Error::new(ErrorKind::InvalidConfig, message)));
        }
        Ok(bytes)
    }
}

impl<C> Clone for Core<C> {
    fn clone(&self) -> Self {
        Self { remote: self.remote.clone(), codec: Arc::clone(&self.codec), longest: self.longest }
    }
}
