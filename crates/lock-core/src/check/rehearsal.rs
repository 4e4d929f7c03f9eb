//! Each verb of a lock, once.

use std::future::Future;
use std::pin::pin;

use futures::future::{Either, select};

use crate::{
    Acquire, AcquireOutcome, Claim, Error, ErrorKind, Hint, InspectBackend, Key, OwnerToken, Renew,
    Renewal, Ttl, Watch,
};

/// How a lock went that was acquired, renewed, watched, inspected and handed over.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::check::{Outcome, Rehearsal};
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Key, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let (store, key, ttl) = (MemoryBackend::new(), Key::new("check")?, Ttl::new(Duration::from_secs(10))?);
/// let patience = async { tokio::time::sleep(Duration::from_secs(5)).await };
/// let rehearsal = Rehearsal::of(&store, &key, ttl, patience).await;
/// assert!(matches!(rehearsal.outcome, Outcome::Worked));
/// assert!(!rehearsal.has_failed() && rehearsal.unwatched.is_none() && !rehearsal.unheard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Rehearsal {
    /// What became of the lock.
    pub outcome: Outcome,
    /// Why the lock could not be watched.
    pub unwatched: Option<String>,
    /// Why the holders of the lock could not be listed.
    pub unseen: Option<String>,
    /// Whether the second claim got no place in the queue, though it wanted one and watched.
    pub unqueued: bool,
    /// Whether no message of the release came in time.
    pub unheard: bool,
    /// Whether the message of a grant came, and the second claim did not have the lock.
    pub uncounted: bool,
}

/// What became of the lock of a rehearsal.
///
/// The [example](Rehearsal#examples) of a rehearsal shows one.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Outcome {
    /// The store granted and renewed the lock.
    #[default]
    Worked,
    /// Another client had the lock. That client probably runs this check.
    Busy,
    /// The lock was gone a moment after its grant.
    Vanished,
    /// A request failed with an error of this kind, and of this text.
    Failed(ErrorKind, String),
}

impl Rehearsal {
    /// Uses each verb once on this key, which no app may use as a lock. `patience` ends when no message is expected any
    /// more; it is first polled when the wait for the message begins.
    ///
    /// # Cancel safety
    ///
    /// The lock remains until its ttl is over.
    pub async fn of<B: InspectBackend + ?Sized>(
        backend: &B,
        key: &Key,
        ttl: Ttl,
        patience: impl Future<Output = ()> + Send,
    ) -> Self {
        let mut rehearsal = Self::default();
        if let Err(error) = rehearsal.run(backend, key, ttl, patience).await {
            rehearsal.outcome = Outcome::Failed(error.kind(), error.to_string());
        }
        rehearsal
    }

    /// Whether a request failed, perhaps because the connection has ended.
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(..))
    }

    async fn run<B: InspectBackend + ?Sized>(
        &mut self,
        backend: &B,
        key: &Key,
        ttl: Ttl,
        patience: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        let watch = self.watch(backend, key).await?;
        let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
        let attempt = match backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await {
            Ok(attempt) => attempt,
            Err(error) => {
                // The store may have granted it.
                let _best_effort = backend.release(&claim).await;
                return Err(error);
            }
        };
        if !matches!(attempt, AcquireOutcome::Granted(_)) {
            self.outcome = Outcome::Busy;
            return Ok(());
        }
        let next = Claim::exclusive(key.clone(), OwnerToken::generate()?);
        let next = Acquire::new(next, ttl).queued();
        let used = self.use_it(backend, &claim, &next, watch, patience).await;
        // Whatever failed, the lock does not stay behind if it can be released.
        let released = backend.release(&claim).await;
        let next_released = backend.release(&next.claim).await;
        used?;
        released.and(next_released).map(drop)
    }

    /// Starts to watch.
    async fn watch<B: InspectBackend + ?Sized>(
        &mut self,
        backend: &B,
        key: &Key,
    ) -> Result<Option<Watch>, Error> {
        match backend.watch(key).await {
            Ok(watch) => Ok(Some(watch)),
            Err(error) if error.is_retryable() => Err(error),
            Err(error) => {
                self.unwatched = Some(error.to_string());
                Ok(None)
            }
        }
    }

    async fn use_it<B: InspectBackend + ?Sized>(
        &mut self,
        backend: &B,
        claim: &Claim,
        next: &Acquire,
        watch: Option<Watch>,
        patience: impl Future<Output = ()> + Send,
    ) -> Result<(), Error> {
        if is_lost(backend, claim, next.ttl).await? {
            self.outcome = Outcome::Vanished;
            return Ok(());
        }
        match backend.inspect(&claim.key).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Denied => {
                self.unseen = Some(error.to_string())
            }
            Err(error) => return Err(error),
        }
        let queued = backend.try_acquire(next).await?;
        backend.release(claim).await?;
        let Some(watch) = watch else { return Ok(()) };
        if matches!(queued, AcquireOutcome::Queued { .. }) {
            let owner = next.claim.owner;
            let is_it =
                |hint: &Hint| matches!(hint, Hint::Granted { owner: it, .. } if *it == owner);
            // A release hands a lock over only to a claim whose client hears of it.
            if self.hears(watch, is_it, patience).await {
                self.uncounted = is_lost(backend, &next.claim, next.ttl).await?;
            }
        } else {
            self.unqueued = true;
            self.hears(watch, |hint| *hint == Hint::Released, patience).await;
        }
        Ok(())
    }

    /// Whether the watch yields this hint in time.
    async fn hears(
        &mut self,
        mut watch: Watch,
        is_it: impl Fn(&Hint) -> bool,
        patience: impl Future<Output = ()> + Send,
    ) -> bool {
        let hearing = async {
            loop {
                match watch.next().await {
                    Some(hint) if is_it(&hint) => return true,
                    Some(_) => {}
                    None => return false,
                }
            }
        };
        match select(pin!(hearing), pin!(patience)).await {
            Either::Left((heard, _)) => heard,
            Either::Right(_) => {
                self.unheard = true;
                false
            }
        }
    }
}

/// Renews a lease, and says whether it is over.
async fn is_lost<B: InspectBackend + ?Sized>(
    backend: &B,
    claim: &Claim,
    ttl: Ttl,
) -> Result<bool, Error> {
    match backend.renew(&Renew::new(claim.clone(), ttl)).await {
        Renewal::Unknown(error) => Err(error),
        renewal => Ok(matches!(renewal, Renewal::Lost)),
    }
}
