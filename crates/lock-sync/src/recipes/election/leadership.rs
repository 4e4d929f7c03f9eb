//! The leadership of an election.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use lock_core::{Cell, Error};

use crate::bare::Hold;
use crate::error::{LeaseLost, ReleaseError};
use crate::lease::Lease;
use crate::recipes::cell::{RemoteCell, Unstored};

/// The leadership of an [`Election`](crate::Election), and a lease on it.
///
/// # Dropping
///
/// Dropping it resigns. The release is *enqueued*: the driver sends it to the store a moment later, from
/// its own thread. A drop never blocks, spawns or panics, and needs no runtime. Use
/// [`resign`](Self::resign) to wait for the store, and [`Locks::shutdown`](crate::Locks::shutdown) before
/// the process ends.
///
/// # If the lease is lost
///
/// Another candidate may lead. The [`Lease`] reports the loss as a future and by the clock.
/// [`while_held`](Lease::while_held) ends the work of a leader with its term.
#[clippy::has_significant_drop]
#[must_use = "if unused the leader resigns at once"]
pub struct Leadership {
    remote: Arc<RemoteCell>,
    hold: Hold,
}

impl Leadership {
    pub(super) fn new(remote: Arc<RemoteCell>, hold: Hold) -> Self {
        Self { remote, hold }
    }

    /// A handle to the lease of this term, with the name of the election and the fencing token: see [`Lease`]. The
    /// handle does not keep the leadership.
    pub fn lease(&self) -> Lease {
        Lease::of(&self.hold)
    }

    /// Changes the value of the leader. Observers see the new value.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may or may not have been stored.
    ///
    /// # Errors
    ///
    /// - [`UpdateError::Lost`] if the lease was lost before: another candidate may lead;
    /// - [`UpdateError::Backend`] if the value is too long, if the store refused, or if the store was out of reach
    ///   for as long as a lease lives. The value may or may not have been stored.
    ///
    /// # Examples
    ///
    /// ```
    /// # use lock_core::memory::MemoryBackend;
    /// # use lock_sync::Locks;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locks = Locks::new(MemoryBackend::new());
    /// let election = locks.election("primary")?;
    /// let mut leadership = election.campaign("starting").await?;
    /// leadership.update("ready").await?;
    /// let leader = election.leader().await?.ok_or("there is no leader")?;
    /// assert_eq!(leader.value, b"ready");
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update(&mut self, value: impl AsRef<[u8]>) -> Result<(), UpdateError> {
        let value = value.as_ref();
        Cell::check_len(value).map_err(UpdateError::Backend)?;
        self.remote.store(&self.hold, Some(value)).await.map_err(|unstored| match unstored {
            Unstored::Lost(lost) => UpdateError::Lost(lost),
            Unstored::Failed(error) => UpdateError::Backend(error),
        })
    }

    /// Resigns, and waits until the store has confirmed the release.
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, the leader resigns even if the future is dropped.
    ///
    /// # If the lease is lost
    ///
    /// The error says so. The lease of a later leader is not affected.
    ///
    /// # Errors
    ///
    /// - [`ReleaseError::Lost`] if the lease had ended before;
    /// - [`ReleaseError::Backend`] if the store did not confirm the release. If another attempt can succeed, the
    ///   driver goes on trying until the lease has ended by itself.
    pub async fn resign(self) -> Result<(), ReleaseError> {
        self.hold.release().await
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leadership")
            .field("key", self.hold.key())
            .field("fencing_token", &self.hold.fencing_token())
            .finish_non_exhaustive()
    }
}

/// Why a leader could not change its value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UpdateError {
    /// The lease is over: another candidate may lead.
    Lost(LeaseLost),
    /// The backend failed in a way that waiting does not cure, or for longer than a lease lives.
    Backend(Error),
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost(_) => "the lease of the leader was lost before its value was stored",
            Self::Backend(_) => "the lock backend failed",
        })
    }
}

impl StdError for UpdateError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Lost(source) => Some(source),
            Self::Backend(source) => Some(source),
        }
    }
}
