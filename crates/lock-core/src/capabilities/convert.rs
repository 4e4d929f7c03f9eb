//! Leases that change their mode.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{AcquireOutcome, Backend, Convert, Error};

/// A store that converts leases. It makes a lease weaker, or exclusive, while the owner goes on holding the key.
///
/// With this capability a `Semaphore` gives back some of its permits, an `RwLock` lets other readers in after a
/// downgrade, and an upgradable reader becomes the writer. Over a store without it a lease keeps its mode until
/// it ends.
///
/// A backend that implements the trait returns itself from [`Backend::capabilities`], and promises:
///
/// - Between all modes that the backend serves, every conversion that [exists](Convert) MUST be served
///   (`every_conversion_is_served`).
/// - A weaker mode MUST be granted at once, before every claim that waits (`a_downgrade_leaves_no_gap`).
///   The lease MUST keep its tokens, and the store MUST grant the claims in the queue for which there is room
///   now (`a_downgrade_lets_readers_in`).
/// - An upgrade MUST wait until its owner is the only holder, and bring new tokens
///   (`an_upgrade_waits_for_readers`). It MUST come before every claim in the queue
///   (`an_upgrade_goes_before_those_in_line`). Until then the upgradable lease MUST stay
///   (`a_waiting_upgrade_keeps_its_lease`). When that lease is over, the upgrade MUST NOT be granted any
///   more (`an_upgrade_ends_with_its_lease`). The upgraded lease MUST live for at least the time that the former
///   lease had left (`an_upgrade_never_shortens_the_lease`).
/// - An upgrade that is repeated without asking to be queued MUST give up its place in the queue, or be
///   granted. Either way the lease stays (`an_upgrade_can_leave_the_line`).
/// - When a release leaves no holder but an upgradable one, every watcher MUST hear
///   [`Hint::Released`](crate::Hint::Released), because an upgrade may be waiting that has no place in the queue
///   (`an_upgradable_holder_hears_that_it_is_alone`). While other claims have places, the hint MAY be left out.
/// - A conversion that is repeated after it was granted MUST return the grant again
///   (`a_repeated_conversion_returns_the_same_grant`).
/// - A conversion of a lease that is not held MUST fail with [`ErrorKind::NotHeld`](crate::ErrorKind)
///   (`converting_what_is_not_held_fails`). A conversion that does not exist MUST fail with
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind) (`impossible_conversions_are_refused`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot convert a lease that is held",
    label = "this needs a backend that makes leases weaker or exclusive",
    note = "implement `lock_core::ConvertBackend` for it, and name it in `Backend::capabilities`",
    note = "a quorum cannot: half-done conversions on some of its nodes would have to be undone"
)]
#[async_trait]
pub trait ConvertBackend: Backend {
    /// Asks once to convert a lease that is held to another mode. Never waits for a holder.
    ///
    /// Until the conversion is granted, the lease stays in its former mode, and is renewed and released in that
    /// mode. While an upgrade waits in the queue, its grant may come at any time, as for any claim there.
    ///
    /// An upgrade that waits in the queue gives up its place when its claim is released, or when it is repeated
    /// without [`queued`](Convert::queued). The repetition does not end an upgrade that was granted in the
    /// meantime: then the answer is the grant.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotHeld`](crate::ErrorKind) if the lease is over;
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if [no such conversion exists](Convert::check); else as
    /// [`try_acquire`](Backend::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open in which of the two modes the lease is held. Repeat the request, or
    /// release both claims.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Convert, ConvertBackend, Key};
    /// use lock_core::{Mode, OwnerToken, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let backend = MemoryBackend::new();
    /// let written = Claim::exclusive(Key::new("prices")?, OwnerToken::generate()?);
    /// let _granted = backend.try_acquire(&Acquire::new(written.clone(), Ttl::DEFAULT)).await?;
    ///
    /// let downgrade = Convert::new(written, Mode::Shared, Ttl::DEFAULT);
    /// assert!(matches!(backend.convert(&downgrade).await?, AcquireOutcome::Granted(_)));
    /// # Ok(())
    /// # }
    /// ```
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error>;
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: ConvertBackend + ?Sized> ConvertBackend for $pointer<B> {
            async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
                (**self).convert(request).await
            }
        }
    )*};
}

forward!(Arc, Box);

/// Whether leases can be converted, as a type: [`Convertible`] or [`Fixed`].
///
/// A backend that [shares](crate::SharedBackend) names one of the two, so that a lock over it knows at compile
/// time whether a reader can become the writer.
///
/// The [example](crate::Convert#examples) of a conversion shows what can be converted.
pub trait Conversion: sealed::Sealed + Send + Sync + 'static {}

/// Leases of a [`ConvertBackend`]: they can change their mode.
///
/// The [example](crate::Convert#examples) of a conversion shows what can be converted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Convertible {}

/// Leases that keep their mode until they end, as those of a quorum do.
///
/// The [example](crate::Convert#examples) of a conversion shows what can be converted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Fixed {}

impl Conversion for Convertible {}
impl Conversion for Fixed {}

/// Says that a reader can become the writer. Only [`Convertible`] leases allow that.
///
/// The [example](crate::Convert#examples) of a conversion shows what can be converted.
#[diagnostic::on_unimplemented(
    message = "the backend of this lock cannot convert a lease, so that no reader can become the writer",
    label = "this needs a backend that implements `lock_core::ConvertBackend`",
    note = "over a quorum, lock with `write` and call `downgrade` when the writing is done, or read, let go and \
            look again after `write`"
)]
pub trait Upgradable: Conversion {}

impl Upgradable for Convertible {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Convertible {}
    impl Sealed for super::Fixed {}
}
