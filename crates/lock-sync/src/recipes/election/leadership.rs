//! The leadership of an election.

use std::fmt;
use std::sync::Arc;

use lock_core::Cell;

use crate::bare::Hold;
use crate::error::ReleaseError;
use crate::lease::Lease;
use crate::recipes::cell::{RemoteCell, Unstored};
use crate::recipes::stored::SaveError;

/// The leadership of an [`Election`](crate::Election), and a lease on it.
///
/// # Dropping
///
/// Dropping the leadership resigns. The release is *enqueued*: the driver sends it to the store a moment
/// later, from its own thread. A drop never blocks, spawns or panics, and needs no runtime. Use
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

    /// Replaces the value of the leader. Observers see the new value.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may or may not have been stored.
    ///
    /// # Errors
    ///
    /// - [`SaveError::Lost`] if the lease was lost before: another candidate may lead;
    /// - [`SaveError::Refused`] if the value is too long, or if the store refused: nothing was stored;
    /// - [`SaveError::Unknown`] if the store was out of reach for as long as a lease lives, or if a request had no answer
    ///   and the call then failed. The value may or may not have been stored.
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
    pub async fn update(&mut self, value: impl AsRef<[u8]>) -> Result<(), SaveError> {
        let value = value.as_ref();
        Cell::check_len(value).map_err(SaveError::Refused)?;
        self.remote.store(&self.hold, Some(value)).await.map_err(|unstored| match unstored {
            Unstored::Lost(_, Some(doubt)) | Unstored::Failed(_, Some(doubt)) => {
                SaveError::Unknown(doubt)
            }
            Unstored::Lost(lost, None) => SaveError::Lost(lost),
            Unstored::Failed(error, None) => SaveError::Refused(error),
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
    /// The error is [`ReleaseError::Lost`]. The call does not affect the lease of a later leader.
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
