//! Counted permits.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{Claim, ConvertBackend, Error, ErrorKind, Key, Mode, Released};

/// A store that counts permits and remembers how many there are. A `Semaphore` needs this.
///
/// Such a store is also a [`ConvertBackend`], because giving back some permits of a lease converts the lease.
///
/// # Fencing tokens
///
/// Each acquisition of permits has a unique fencing token, which the parts of a split permit share. The token
/// is higher than every token of a grant that ended before the permit's own grant was asked for. A permit's
/// grant is the grant of the lease that the permit is a part of; a process passes the permits of one lease
/// from task to task. Tokens of grants that overlap in time have no order.
///
/// A backend that keeps the laws under *Fencing* in the contract of [`Backend`](crate::Backend) does enough for this.
///
/// # Contract
///
/// A backend that implements the trait promises to serve [`Mode::Permits`](crate::Mode::Permits) by the laws
/// under *Counting* in the contract of [`Backend`](crate::Backend). It also promises:
///
/// - The first request for a key, or the first call of one of these methods, MUST store the limit that it
///   declares. Every later request or call that declares another limit MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind) with both limits in the message, even if no client holds
///   a permit (`the_first_user_declares_the_limit`). A limit that is the number that was declared last MAY be
///   forgotten when no client has used it for an hour.
/// - [`permits`](Self::permits) MUST tell how many permits there are, how many are held and how many requests
///   wait (`the_state_of_a_semaphore_can_be_seen`).
/// - Permits that are added MUST serve the waiters (`added_permits_serve_the_waiters`) and all later
///   requests. The limit may be zero at first. A request for more permits than there are MUST
///   wait as any other (`more_than_there_are_can_be_waited_for`). Every watcher of the key MUST be
///   told of added permits, as of a release (`added_permits_wake_every_watcher`).
/// - A permit that a claim holds or waits for MUST NOT be removed
///   (`only_free_permits_can_be_removed`). A changed limit MUST stay as it is (`a_changed_limit_stays`).
/// - A lease may be converted to fewer permits, at once and with its tokens. The permits that it gives up
///   MUST serve the waiters (`a_lease_can_give_back_some_permits`).
/// - Forgetting a lease MUST end it and take its permits out of the limit in one step
///   (`forgotten_permits_are_gone_for_good`). A repetition MUST NOT take any (`forgetting_twice_takes_once`).
/// - A closed semaphore MUST NOT grant a permit. A request gets
///   [`ErrorKind::Closed`](crate::ErrorKind), every waiter gets a hint to ask again, and permits that are held stay
///   (`a_closed_semaphore_grants_nothing`).
/// - [`Resize::Declare`] is never refused because of the number that it declares. It MUST make the declared number
///   the limit, in place of the number that was declared before it and of all changes of that number. The waiters that
///   there is room for MUST be served, and all watchers MUST be told if there are more permits than before
///   (`the_last_declaration_sets_the_limit`).
/// - After a declaration, requests and calls that declare an earlier number MUST be served under the limit as it is,
///   as long as it is one of the last [`Permits::DECLARATIONS`] numbers. Another number MUST be refused as before
///   (`an_earlier_declaration_goes_on_under_the_limit`). Declaring the number that was declared last MUST change
///   nothing (`a_repeated_declaration_changes_nothing`).
/// - A declaration MUST NOT end a lease. If more permits are held than there are afterwards, none MUST be granted
///   until enough of them have come back (`a_smaller_limit_ends_no_lease`).
/// - A semaphore MUST be [undeclared](Self::undeclare) only under a claim that holds the key in
///   [`Mode::Exclusive`](crate::Mode::Exclusive), so never while a permit is held
///   (`only_the_exclusive_holder_can_undeclare`). Afterwards the next user MUST declare the limit as the first one did,
///   of a semaphore that is open. The tokens of the key MUST go on increasing
///   (`an_undeclared_semaphore_begins_anew`). A repetition MUST be no error (`undeclaring_twice_is_no_error`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot count permits",
    label = "a `Semaphore` needs a backend that counts",
    note = "implement `lock_core::PermitBackend` for it if it can",
    note = "a quorum cannot: two permits on each of three nodes can be granted to three holders, two on \
            each node. There, `Locks::slot_semaphore` takes one of several exclusive slots instead",
    note = "over `dyn Backend` only the mutex is left: use `lock_core::AnyBackend` instead"
)]
#[async_trait]
pub trait PermitBackend: ConvertBackend {
    /// How many permits there are, how many are held, and how many requests wait. `of` is the limit that the
    /// caller declares.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if another limit was declared before;
    /// [`ErrorKind::ForeignKey`](crate::ErrorKind) if the key is another kind of lock; else any error of the
    /// store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the limit declared, and nothing else.
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error>;

    /// Adds permits, removes free ones, or declares another number, for good.
    ///
    /// A request may then take as many permits as there are, whatever limit it declares. A request for more
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

    /// Ends a lease of permits, and takes its permits out of the limit, in one step.
    ///
    /// A claim that holds nothing takes no permit away, and gives up its place if it waits.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if the mode of the claim is not one of permits; else as
    /// [`release`](crate::Backend::release). Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease has ended and its permits are gone. Either both are
    /// true or neither is. Repeat the call.
    async fn forget(&self, claim: &Claim) -> Result<Released, Error>;

    /// Closes the semaphore: the store grants no more permits of this key. Only [undeclaring](Self::undeclare) the
    /// semaphore undoes that.
    ///
    /// Permits that are held stay, and are renewed, given back and forgotten as before.
    ///
    /// # Errors
    ///
    /// As [`permits`](Self::permits). Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the semaphore is closed. Repeat the call.
    async fn close(&self, key: &Key, of: u32) -> Result<(), Error>;

    /// Removes what the store keeps of the semaphore beyond its leases: the declared numbers, how many permits there
    /// are, and whether it is closed.
    ///
    /// Returns whether the claim holds the key. Otherwise nothing is removed. `Locks::destroy` of `lock-sync` calls
    /// this; a backend first [checks](Permits::check_undeclaring) the claim.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) for a claim that is not exclusive; else any error of the store or
    /// of the connection to it. Repeating is harmless.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the numbers are removed. Repeat the call.
    async fn undeclare(&self, claim: &Claim) -> Result<bool, Error>;
}

/// The state of a semaphore when the store was asked.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Key, PermitBackend, Permits, Resize};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let key = Key::new("mail/senders")?;
/// assert_eq!(store.permits(&key, 2).await?, Permits::new(2));
///
/// let resized = store.resize(&key, 2, Resize::Add(3)).await?;
/// assert_eq!((resized.changed, resized.permits.available()), (3, 5));
///
/// // Another number replaces the first one. Users that declare the first number go on.
/// let resized = store.resize(&key, 4, Resize::Declare).await?;
/// assert_eq!((resized.changed, resized.permits.limit), (1, 4));
/// assert_eq!(store.permits(&key, 2).await?, Permits::new(4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// How many permits there are.
    pub limit: u32,
    /// How many permits are held.
    pub held: u32,
    /// How many requests wait in the queue.
    pub waiting: u32,
    /// Whether the semaphore is closed, so that it grants no more permits.
    pub closed: bool,
}

impl Permits {
    /// The most permits that a semaphore can have. Every number up to this one is exact, also in a store that
    /// counts in doubles.
    ///
    /// The [example](Permits#examples) of permits shows how their number is declared.
    pub const MAX: u32 = u32::MAX;

    /// How many declared numbers a store remembers: the last one, and the ones before it.
    ///
    /// The [example](Permits#examples) of permits shows how one number replaces another.
    pub const DECLARATIONS: usize = 8;

    /// Checks that a semaphore can be [undeclared](PermitBackend::undeclare) under a claim: for backends.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if the claim is not exclusive.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{Claim, Key, Mode, OwnerToken, Permits};
    ///
    /// let claim = Claim::exclusive(Key::new("printers")?, OwnerToken::generate()?);
    /// assert!(Permits::check_undeclaring(&claim).is_ok());
    /// assert!(Permits::check_undeclaring(&claim.in_mode(Mode::Shared)).is_err());
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn check_undeclaring(claim: &Claim) -> Result<(), Error> {
        if claim.mode == Mode::Exclusive {
            return Ok(());
        }
        let message = "a semaphore is undeclared by the exclusive holder of its key";
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }

    /// A semaphore with `limit` permits, all free, for which no request waits.
    pub fn new(limit: u32) -> Self {
        Self { limit, held: 0, waiting: 0, closed: false }
    }

    /// How many permits a new request could get: zero while another request waits.
    pub fn available(&self) -> u32 {
        if self.waiting > 0 || self.closed { 0 } else { self.limit.saturating_sub(self.held) }
    }
}

/// A change of the number of permits.
///
/// The [example](Permits#examples) of permits shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resize {
    /// Adds this many permits.
    Add(u32),
    /// Removes this many permits, as far as they are free and no request waits for them.
    Remove(u32),
    /// Makes the number that the caller declares the number of permits, whatever was declared before.
    ///
    /// Permits that are held stay held, even if there are fewer permits now. If the number was declared last, nothing
    /// changes.
    Declare,
}

/// The outcome of a change of the number of permits.
///
/// The [example](Permits#examples) of permits shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resized {
    /// How many permits were added, or removed.
    pub changed: u32,
    /// The state afterwards.
    pub permits: Permits,
}

impl Resized {
    /// An outcome: `changed` permits were added or removed, which led to this state.
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

            async fn undeclare(&self, claim: &Claim) -> Result<bool, Error> {
                (**self).undeclare(claim).await
            }
        }
    )*};
}

forward!(Arc, Box);
