//! A small value beside a lock.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{Backend, Claim, Error, ErrorKind, FencingToken, Key, Mode, Released};

/// A store that keeps a small value beside a lock, which only the holder can write. A `OnceCell`,
/// a `StoredMutex`, a `Barrier` and a `Leader` election need this.
///
/// - Every client MUST load the value that was stored (`a_stored_value_can_be_loaded`), also after the
///   lease under which it was written is over (`a_value_outlives_its_lease`).
/// - A value MUST be written only if its claim holds the key in
///   [`Mode::Exclusive`](crate::Mode::Exclusive). The store checks this and writes in one step
///   (`only_the_holder_can_store`). It MUST NOT replace a value that has a higher token
///   (`a_value_with_a_lower_token_is_refused`).
/// - A load MUST tell whether the lease under which the value was written is still held
///   (`loading_tells_whether_the_writer_still_holds`).
/// - A value that was reported as [written](Stored::Written) MUST be loaded as [settled](Cell::settled)
///   (`what_was_written_is_settled`). A store of several nodes may also load a value that is not settled: one
///   that has reached only a few of its nodes, and that other clients may not see. If such a value is loaded as
///   settled, every later load MUST return it, until another value is written after it.
/// - After the holder has [loaded under its claim](CellBackend::load_under), a value of an earlier holder that
///   it has not seen MUST NOT become settled or come back (`the_holder_loads_all_that_there_is`).
/// - If loads [are conclusive](CellBackend::load_is_conclusive), a load after the release of a claim MUST show whether
///   the last value under that claim was stored. If the load does not return the value, no later load may return it
///   (`a_conclusive_load_is_final`).
/// - Storing MUST give every watcher of the key a hint (`storing_wakes_watchers`).
/// - Erasing MUST leave no value (`an_erased_value_is_gone`). Storing a value again MUST be no error
///   (`storing_twice_is_no_error`).
/// - A value of more than [`Cell::MAX_LEN`] bytes MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind) (`a_value_has_a_limit`).
/// - A grant MAY bring the value, if its request [asks for it](crate::Acquire::value). If a grant brings a value, or
///   brings that there is none, that MUST be what its holder would load (`a_grant_brings_what_its_holder_would_load`).
///   This also holds for a grant that a [hint](crate::Hint::Granted) announces
///   (`a_pushed_grant_brings_what_its_holder_would_load`).
/// - A [commit](CellBackend::commit) MUST store the value under the token of the holder, and MUST end the lease
///   (`a_commit_stores_and_releases`). It MUST do so only for the holder. For another claim it MUST change nothing,
///   and say so (`only_the_holder_can_commit`).
/// - A commit that is repeated after it was done MUST be answered as done, as long as its value is the present one
///   (`committing_twice_is_no_error`).
/// - A commit MUST wake watchers, and hand the key over, as a [release](crate::Backend::release) does
///   (`a_commit_passes_the_key_on`).
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
    /// Any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error>;

    /// The value beside the lock that this claim holds, as its holder may rely on it: no earlier holder can
    /// change it any more.
    ///
    /// In a store of one node this is [`load`](Self::load), because the node takes values from the holder
    /// alone. A store of several nodes has to ask the nodes that granted the claim. The answer is meant for the
    /// client that was granted the claim. It is undefined for other clients.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotHeld`](crate::ErrorKind) if the claim is known not to be held; else any error of the store
    /// or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>, Error> {
        self.load(&claim.key).await
    }

    /// Whether a [load](Self::load) that does not return a value proves that the value is not stored, once its claim
    /// was released.
    ///
    /// A store of one node can prove that, and so the default is `true`. In a store of several nodes, a value that was
    /// not written on enough nodes may still be on a few of them. A load may not see it there, and a later holder may.
    fn load_is_conclusive(&self) -> bool {
        true
    }

    /// Writes the value beside the lock that this claim holds, or erases it.
    ///
    /// `token` is the fencing token of the holder.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) for a value that is too long or a claim that is not
    /// exclusive; else any error of the store or of the connection to it. After a
    /// [retryable](Error::is_retryable) error the value may have been written. Repeating the call is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the value was written.
    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error>;

    /// Stores the value beside the lock that this claim holds, and releases the claim.
    ///
    /// `token` is the fencing token of the holder. The default implementation stores, and then releases. A store
    /// that can do both in one step SHOULD do so. An error after the value was written MUST be retryable: see
    /// [`Stored::in_doubt`].
    ///
    /// # Errors
    ///
    /// As [`store`](Self::store). After a [retryable](Error::is_retryable) error the value may have been stored, and
    /// the claim may have been released. Repeating the call is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open how much was done. Release the claim afterwards.
    async fn commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Result<Committed, Error> {
        match self.store(claim, token, Some(value)).await? {
            Stored::Written => {}
            Stored::NotHeld => {
                let kept = self.load(&claim.key).await?;
                return Ok(Committed::late(kept.as_ref(), token, value));
            }
        }
        Ok(match self.release(claim).await.map_err(Stored::in_doubt)? {
            Released::Freed { told } => Committed::Done { told },
            // The lease has ended by itself since the value was stored.
            Released::NotHeld => Committed::Done { told: 0 },
        })
    }
}

/// A value beside a lock.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, AcquireOutcome, Backend, Cell, CellBackend, Claim, Key, OwnerToken, Stored, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let claim = Claim::exclusive(Key::new("leader")?, OwnerToken::generate()?);
/// let AcquireOutcome::Granted(grant) = store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?
/// else {
///     unreachable!("the key is free")
/// };
/// let token = grant.tokens.nth(0).expect("a grant has a token at least");
/// assert_eq!(store.store(&claim, token, Some(b"10.0.0.7")).await?, Stored::Written);
///
/// store.release(&claim).await?;
/// let cell: Option<Cell> = store.load(&claim.key).await?;
/// let cell = cell.expect("a value outlives the lease");
/// assert_eq!((&cell.value[..], cell.token, cell.held), (&b"10.0.0.7"[..], token, false));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// The bytes that were stored.
    pub value: Vec<u8>,
    /// The fencing token of the holder that stored the value.
    pub token: FencingToken,
    /// Whether the lease under which the value was stored is still held.
    pub held: bool,
    /// Whether every later load returns this value, or one that is written after it.
    ///
    /// One client may see a value that is not settled while the next client does not. If all clients have to
    /// agree, take the lock, [load](CellBackend::load_under) again, and store the loaded value under the new
    /// token before you rely on it.
    pub settled: bool,
}

impl Cell {
    /// The most bytes that a value can have: 64 KiB.
    pub const MAX_LEN: usize = 64 * 1024;

    /// A loaded value that is [settled](Self::settled), as every value of a store of one node is.
    pub fn new(value: Vec<u8>, token: FencingToken, held: bool) -> Self {
        Self { value, token, held, settled: true }
    }

    /// This value as one that is not [settled](Self::settled).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Cell, FencingToken};
    ///
    /// let cell = Cell::new(b"10.0.0.7".to_vec(), FencingToken::new(7), false);
    /// assert!(cell.settled);
    /// assert!(!cell.unsettled().settled);
    /// ```
    #[must_use]
    pub fn unsettled(mut self) -> Self {
        self.settled = false;
        self
    }

    /// Refuses a value or a claim that cannot be stored, before anything is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the claim is not [exclusive](Mode::Exclusive), or the value is too
    /// long.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Cell, Claim, ErrorKind, Key, OwnerToken};
    ///
    /// let claim = Claim::exclusive(Key::new("leader")?, OwnerToken::generate()?);
    /// Cell::check(&claim, Some(b"10.0.0.7"))?;
    /// let error = Cell::check_len(&vec![0; Cell::MAX_LEN + 1]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
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
    /// [`ErrorKind::InvalidConfig`] for such a value.
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
///
/// The [example](Cell#examples) of a cell shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "only `Written` says that the value was stored"]
pub enum Stored {
    /// The value was stored, or erased.
    Written,
    /// The claim does not hold the lock, or the present value has a higher token. Nothing was
    /// written, on any node.
    NotHeld,
}

impl Stored {
    /// The error of a request that may have written the value before it failed: a [retryable](Error::is_retryable)
    /// error. Another error would say that nothing was written.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Error, ErrorKind, Stored};
    ///
    /// let refused = Error::new(ErrorKind::Denied, "the user may not release leases");
    /// let error = Stored::in_doubt(refused);
    /// assert!(error.is_retryable());
    /// assert!(error.to_string().ends_with("the user may not release leases"));
    /// ```
    #[must_use]
    pub fn in_doubt(error: Error) -> Error {
        if error.is_retryable() {
            return error;
        }
        let message = format!("the value may have been written: {error}");
        Error::with_source(ErrorKind::NotReady, message, error)
    }
}

/// What the holder of a lock would load: a value, or that there is none.
///
/// A [`Grant`](crate::Grant::value) can bring it. Cheap to clone.
///
/// A grant brings it: see [`Acquire::with_value`](crate::Acquire::with_value) for an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedValue(Option<Arc<Cell>>);

impl LoadedValue {
    /// What [`CellBackend::load_under`] returned.
    pub fn new(loaded: Option<Cell>) -> Self {
        Self(loaded.map(Arc::new))
    }

    /// The value, if there is one.
    pub fn cell(&self) -> Option<&Cell> {
        self.0.as_deref()
    }
}

/// The answer to a commit.
///
/// The [example](Cell#examples) of a cell shows how a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "only `Done` says that the value was stored"]
pub enum Committed {
    /// The value was stored, and the claim does not hold the lock any more.
    Done {
        /// As in [`Released::Freed`](crate::Released::Freed).
        told: u32,
    },
    /// The claim does not hold the lock, or the present value has a higher token. This call wrote nothing.
    NotHeld,
}

impl Committed {
    /// The answer to a commit under a claim that does not hold the lock, from the value beside the lock. An earlier
    /// call, whose answer was lost, may have done the commit.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Cell, Committed, FencingToken};
    ///
    /// let token = FencingToken::new(7);
    /// let kept = Cell::new(b"five".to_vec(), token, false);
    /// assert_eq!(Committed::late(Some(&kept), token, b"five"), Committed::Done { told: 0 });
    /// assert_eq!(Committed::late(None, token, b"five"), Committed::NotHeld);
    /// ```
    pub fn late(kept: Option<&Cell>, token: FencingToken, value: &[u8]) -> Self {
        let is_done = |kept: &Cell| kept.token == token && kept.value == value && kept.settled;
        if kept.is_some_and(is_done) { Self::Done { told: 0 } } else { Self::NotHeld }
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<B: CellBackend + ?Sized> CellBackend for $pointer<B> {
            async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
                (**self).load(key).await
            }

            async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>, Error> {
                (**self).load_under(claim).await
            }

            fn load_is_conclusive(&self) -> bool {
                (**self).load_is_conclusive()
            }

            async fn store(
                &self,
                claim: &Claim,
                token: FencingToken,
                value: Option<&[u8]>,
            ) -> Result<Stored, Error> {
                (**self).store(claim, token, value).await
            }

            async fn commit(
                &self,
                claim: &Claim,
                token: FencingToken,
                value: &[u8],
            ) -> Result<Committed, Error> {
                (**self).commit(claim, token, value).await
            }
        }
    )*};
}

forward!(Arc, Box);
