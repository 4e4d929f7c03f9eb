//! A small value beside a lock.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Backend, Claim, Error, ErrorKind, FencingToken, Key, Mode};

/// A store that keeps a small value beside a lock, which only the holder can write: what a `OnceCell`,
/// a `Barrier` and a `Leader` election need.
///
/// - What was stored MUST be loaded again, by every client (`a_stored_value_can_be_loaded`), also when the
///   lease under which it was written is over (`a_value_outlives_its_lease`).
/// - A value MUST be written only while its claim holds the key in
///   [`Mode::Exclusive`](crate::Mode::Exclusive), in one step with looking
///   (`only_the_holder_can_store`), and never over one with a higher token
///   (`a_value_with_a_lower_token_is_refused`).
/// - Loading MUST tell whether the lease under which the value was written is still held
///   (`loading_tells_whether_the_writer_still_holds`).
/// - What was reported as [written](Stored::Written) MUST be loaded as [settled](Cell::settled)
///   (`what_was_written_is_settled`). A store that is several may load what is not: what has reached a few of
///   them, and others may not see. Whatever of this is loaded as settled MUST be what every later load returns,
///   until something is written after it.
/// - What the holder [loads under its claim](CellBackend::load_under) MUST be all that there is
///   (`the_holder_loads_all_that_there_is`): nothing of an earlier holder's that it has not seen becomes settled
///   after that, or comes back.
/// - Storing MUST give every watcher of the key a hint (`storing_wakes_watchers`).
/// - Erasing MUST leave no value (`an_erased_value_is_gone`); storing the same again MUST be no error
///   (`storing_twice_is_no_error`).
/// - A value of more than [`Cell::MAX_LEN`] bytes MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind) (`a_value_has_a_limit`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` keeps no values beside its locks",
    label = "this needs a backend that keeps a value which only the holder can write",
    note = "implement `lock_core::CellBackend` for it"
)]
#[async_trait]
pub trait CellBackend: Backend {
    /// The value beside this lock, if there is one.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error>;

    /// The value beside the lock that this claim holds, for its holder to decide by: what others stored before
    /// it can change no more.
    ///
    /// A store that is one need not do more than [`load`](Self::load), since it takes values from the holder
    /// alone. One that is several has to ask those of them that have granted the claim. It answers clients that
    /// were granted the claim; what others are told is open.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotHeld`](crate::ErrorKind) if the claim is known not to be held; else whatever the store or
    /// the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>, Error> {
        self.load(&claim.key).await
    }

    /// Writes the value beside the lock that this claim holds, or erases it.
    ///
    /// `token` is that of the holder who writes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) for too long a value or a claim that is not
    /// exclusive; else whatever the store or the way to it does. After a
    /// [retryable](Error::is_retryable) error it may have been written; repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it was written.
    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error>;
}

/// A value beside a lock.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// What was stored.
    pub value: Vec<u8>,
    /// The fencing token of the holder who stored it.
    pub token: FencingToken,
    /// Whether the lease under which it was stored is still held.
    pub held: bool,
    /// Whether every later load returns it, or what is written after it.
    ///
    /// What is not settled may be seen by one and not by the next. Whoever wants all to see the same takes the
    /// lock, [loads](CellBackend::load_under) again, and stores what is there under its own token before it
    /// believes it.
    pub settled: bool,
}

impl Cell {
    /// The most bytes that a value can have: 64 KiB.
    pub const MAX_LEN: usize = 64 * 1024;

    /// A value as it was loaded, and [settled](Self::settled), as every value of a single store is.
    pub fn new(value: Vec<u8>, token: FencingToken, held: bool) -> Self {
        Self { value, token, held, settled: true }
    }

    /// The same, but others may not see it.
    #[must_use]
    pub fn unsettled(mut self) -> Self {
        self.settled = false;
        self
    }

    /// Refuses what can never be stored, before anything is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the claim is not [exclusive](Mode::Exclusive), or the value is too
    /// long.
    pub fn check(claim: &Claim, value: Option<&[u8]>) -> Result<(), Error> {
        if claim.mode != Mode::Exclusive {
            let message = "a value is stored by the exclusive holder of its key";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        value.map_or(Ok(()), Self::check_len)
    }

    /// Refuses a value of more than [`MAX_LEN`](Self::MAX_LEN) bytes.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`].
    pub fn check_len(value: &[u8]) -> Result<(), Error> {
        let (len, most) = (value.len(), Self::MAX_LEN);
        if len > most {
            let message = format!("a value of {len} bytes is too long: at most {most}");
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        Ok(())
    }
}

/// Does not show the value, which may be a secret.
impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("len", &self.value.len())
            .field("token", &self.token)
            .field("held", &self.held)
            .field("settled", &self.settled)
            .finish()
    }
}

/// The answer to a request to store a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "only `Written` says that the value was stored"]
pub enum Stored {
    /// It is stored.
    Written,
    /// The claim does not hold the lock, or somebody with a higher token has stored a value: nothing was
    /// written.
    NotHeld,
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: CellBackend + ?Sized> CellBackend for $pointer<B> {
            async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
                (**self).load(key).await
            }

            async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>, Error> {
                (**self).load_under(claim).await
            }

            async fn store(
                &self,
                claim: &Claim,
                token: FencingToken,
                value: Option<&[u8]>,
            ) -> Result<Stored, Error> {
                (**self).store(claim, token, value).await
            }
        }
    )*};
}

forward!(Arc, Box);
