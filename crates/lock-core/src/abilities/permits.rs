//! Counting.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{Claim, ConvertBackend, Error, Key, Released};

/// A store that counts permits, and remembers how many there are: what a `Semaphore` needs.
///
/// It is a [`ConvertBackend`], because to give back some permits of a lease is to convert it.
///
/// # Fencing tokens
///
/// A permit's fencing token is unique, and it is higher than every token of a grant that ended before
/// the permit's own grant was asked for. A permit's grant is the grant of the lease that the permit is a
/// part of; a process passes the permits of one lease from task to task. Tokens of grants that overlap
/// in time have no order.
///
/// The laws under *Fencing* in the contract of [`Backend`](crate::Backend) are all that a backend does for this.
///
/// # Contract
///
/// A backend that implements it promises to serve [`Mode::Permits`](crate::Mode::Permits) by the laws
/// under *Counting* in the contract of [`Backend`](crate::Backend), and besides:
///
/// - The first request for a key, or the first of these methods, MUST store the limit that it declares,
///   and every later one that declares another MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind) with both in the message, whether or not anybody holds
///   a permit (`the_first_user_declares_the_limit`). A limit that was never changed MAY be forgotten when
///   nobody has used it for an hour.
/// - [`permits`](Self::permits) MUST tell how many there are, are held and are waited for
///   (`the_state_of_a_semaphore_can_be_seen`).
/// - Permits that are added MUST be there for those who wait (`added_permits_serve_those_who_wait`), and
///   for everybody from then on. There may be none at first, and a request for more than there are MUST
///   wait for them as any other (`more_than_there_are_can_be_waited_for`). All who watch the key MUST be
///   told of them, as of a release (`added_permits_wake_every_watcher`).
/// - Of those that are removed only free ones MUST go
///   (`only_free_permits_can_be_removed`). What is changed MUST stay so (`a_changed_limit_stays`).
/// - A lease may be converted to one of fewer permits: at once, with the same tokens, and what it gave up
///   MUST be there for those who wait (`a_lease_can_give_back_some_permits`).
/// - Forgetting a lease MUST end it and take its permits out of the limit in one step
///   (`forgotten_permits_are_gone_for_good`); a repetition MUST take nothing (`forgetting_twice_takes_once`).
/// - Once it was closed nobody MUST be granted a permit: whoever asks gets
///   [`ErrorKind::Closed`](crate::ErrorKind), whoever waits is told to ask, and permits that are held stay
///   (`a_closed_semaphore_grants_nothing`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot count permits",
    label = "a `Semaphore` needs a backend that counts",
    note = "implement `lock_core::PermitBackend` for it if it can",
    note = "a quorum cannot: two permits on each of three nodes can be granted to three holders, two on \
            each node. There, `Locks::slot_semaphore` takes one of several exclusive slots instead",
    note = "over `dyn Backend` only the mutex is left: keep the backend's own type, or `dyn PermitBackend`"
)]
#[async_trait]
pub trait PermitBackend: ConvertBackend {
    /// How many permits there are, held and waited for. `of` is the limit that the caller declares.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if another limit was declared before;
    /// [`ErrorKind::ForeignKey`](crate::ErrorKind) if the key is another kind of lock; else whatever the
    /// store or the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the limit declared, and nothing else.
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error>;

    /// Adds permits, or removes free ones, for good.
    ///
    /// A request may take as many permits as there are then, whatever limit it declares. One for more
    /// waits until there are enough.
    ///
    /// # Errors
    ///
    /// As [`permits`](Self::permits); [`ErrorKind::InvalidConfig`](crate::ErrorKind) if there would be more
    /// than [`Permits::MAX`]. After a [retryable](Error::is_retryable) error the change may have been made:
    /// look before repeating it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the change was made.
    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error>;

    /// Ends a lease of permits, and takes them out of the limit in the same step.
    ///
    /// A claim that holds nothing takes no permit away, and gives up its place if it waits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if the claim is not one of permits; else as
    /// [`release`](crate::Backend::release). Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease has ended and its permits are gone; one without
    /// the other cannot be. Repeat it.
    async fn forget(&self, claim: &Claim) -> Result<Released, Error>;

    /// Grants no permit of this key to anybody any more. That cannot be undone.
    ///
    /// Permits that are held stay, and are renewed, given back and forgotten as before.
    ///
    /// # Errors
    ///
    /// As [`permits`](Self::permits). Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it is closed. Repeat it.
    async fn close(&self, key: &Key, of: u32) -> Result<(), Error>;
}

/// The state of a semaphore when the store was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// How many there are.
    pub limit: u32,
    /// How many are held.
    pub held: u32,
    /// How many requests wait in the queue.
    pub waiting: u32,
    /// Whether no more will be granted.
    pub closed: bool,
}

impl Permits {
    /// The most permits that a semaphore can have. Every number up to it is exact, also in a store that
    /// counts in doubles.
    pub const MAX: u32 = u32::MAX;

    /// A semaphore with so many permits, of which none is held or waited for.
    pub fn new(limit: u32) -> Self {
        Self { limit, held: 0, waiting: 0, closed: false }
    }

    /// How many a newcomer could get: none while anybody waits.
    pub fn available(&self) -> u32 {
        if self.waiting > 0 || self.closed { 0 } else { self.limit.saturating_sub(self.held) }
    }
}

/// A change of the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resize {
    /// So many more.
    Add(u32),
    /// So many fewer, as far as they are free and nobody waits for them.
    Remove(u32),
}

/// What a change came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resized {
    /// How many permits were added, or removed.
    pub changed: u32,
    /// The state afterwards.
    pub permits: Permits,
}

impl Resized {
    /// So many were added or removed, which led to this state.
    pub fn new(changed: u32, permits: Permits) -> Self {
        Self { changed, permits }
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: PermitBackend + ?Sized> PermitBackend for $pointer<B> {
            async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error> {
                (**self).permits(key, of).await
            }

            async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error> {
                (**self).resize(key, of, change).await
            }

            async fn forget(&self, claim: &Claim) -> Result<Released, Error> {
                (**self).forget(claim).await
            }

            async fn close(&self, key: &Key, of: u32) -> Result<(), Error> {
                (**self).close(key, of).await
            }
        }
    )*};
}

forward!(Arc, Box);
