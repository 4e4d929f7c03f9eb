//! The requests of a lock to its store.

use crate::Failure;

/// The three requests of a lock, each by itself. They do not wait for a lock that is held.
pub trait Verbs: Send + Sync + 'static {
    /// A key and its owner.
    type Claim: Send + Sync + 'static;

    /// The commands that its scripts call on the server, as those of a
    /// [`Contestant`](crate::Contestant::INNER).
    const INNER: &'static [&'static str];

    /// A new owner for the key of this name. Sends nothing.
    ///
    /// # Errors
    ///
    /// If the library refuses the name, or the system gives no random numbers.
    fn claim(&self, name: &str) -> Result<Self::Claim, Failure>;

    /// Acquires a free key.
    ///
    /// # Errors
    ///
    /// If the key was not granted.
    ///
    /// # Cancel safety
    ///
    /// The key may be held afterwards.
    fn acquire(&self, claim: &Self::Claim) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Prolongs the lease.
    ///
    /// # Errors
    ///
    /// If the key was no longer held.
    ///
    /// # Cancel safety
    ///
    /// The lease may be prolonged or not.
    fn renew(&self, claim: &Self::Claim) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Gives the key back.
    ///
    /// # Errors
    ///
    /// If the key was no longer held.
    ///
    /// # Cancel safety
    ///
    /// The key may be held or free.
    fn release(&self, claim: &Self::Claim) -> impl Future<Output = Result<(), Failure>> + Send;
}
