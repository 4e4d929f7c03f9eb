//! The holders and the waiters of a lock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, Error, FencingToken, Key, Label};

/// A store that can list the holders and the waiters of a lock, and can be made to end its leases.
///
/// - An inspection MUST show every live lease and every place in the queue, and no other
///   (`an_inspection_shows_holders_and_waiters`), without the secrets that prove ownership
///   (`an_inspection_keeps_secrets`).
/// - It MUST show the [label](Backend::introduce) of a client beside each lease and each place of that client, of
///   whichever client asks (`an_inspection_shows_labels`), for as long as the store was told to keep the label and no
///   longer (`a_label_ends_with_its_time`). A label is nothing else: leases MUST NOT depend on it.
/// - A forced release MUST end every lease on the key, including those of other libraries, so that renewals
///   report them lost (`a_forced_release_ends_every_lease`). It MUST serve the queue
///   (`a_forced_release_serves_the_queue`). The tokens of the key MUST go on increasing
///   (`tokens_increase_after_a_forced_release`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot list the holders of its locks",
    label = "this needs a backend that can be inspected",
    note = "implement `lock_core::InspectBackend` for it"
)]
#[async_trait]
pub trait InspectBackend: Backend {
    /// The holders of a key and its waiters, as the store sees them now.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error>;

    /// Ends every lease on a key, of any owner. Returns how many there were.
    ///
    /// This is for people who clean up: the store does not ask the holders. They learn of the release from a hint,
    /// or from their next renewal. What they write until then is refused only by a resource that compares fencing
    /// tokens.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it. A repetition also ends the leases that were granted in
    /// the meantime.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the leases have ended.
    async fn force_release(&self, key: &Key) -> Result<u64, Error>;
}

/// The holders and the waiters of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// The leases on the key, at most [`MAX`](Self::MAX), in no particular order.
    pub holders: Vec<Holder>,
    /// The number of all leases on the key.
    pub holding: u64,
    /// The places in the store's queue, at most the first [`MAX`](Self::MAX), in their order.
    pub waiters: Vec<Waiter>,
    /// The number of all places in the queue.
    pub waiting: u64,
}

impl Inspection {
    /// The most holders, and the most waiters, that an inspection lists.
    pub const MAX: usize = 1000;

    /// An inspection of these holders and these waiters, each with the number of all.
    pub fn new(holders: (Vec<Holder>, u64), waiters: (Vec<Waiter>, u64)) -> Self {
        Self { holders: holders.0, holding: holders.1, waiters: waiters.0, waiting: waiters.1 }
    }
}

/// One lease.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// How the key is held.
    pub kind: Kind,
    /// One of its fencing tokens: the first or the last that its grant reserved. `None` if a client of another
    /// library has the lease.
    pub token: Option<FencingToken>,
    /// How long the lease lives unless it is renewed; `None` if it has no end.
    pub remaining: Option<Duration>,
    /// The label of its client, if the store knows it: see [`Backend::introduce`].
    pub label: Option<Label>,
}

impl Holder {
    /// A lease of this kind.
    pub fn new(kind: Kind, token: Option<FencingToken>, remaining: Option<Duration>) -> Self {
        Self { kind, token, remaining, label: None }
    }

    /// This lease, of a client with this label.
    #[must_use]
    pub fn labelled(self, label: Option<Label>) -> Self {
        Self { label, ..self }
    }
}

/// One place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// How the waiter wants to hold the key.
    pub kind: Kind,
    /// How long the place is kept unless the client repeats its request.
    pub remaining: Duration,
    /// The label of its client, if the store knows it: see [`Backend::introduce`].
    pub label: Option<Label>,
}

impl Waiter {
    /// A place for a lease of this kind.
    pub fn new(kind: Kind, remaining: Duration) -> Self {
        Self { kind, remaining, label: None }
    }

    /// This place, of a client with this label.
    #[must_use]
    pub fn labelled(self, label: Option<Label>) -> Self {
        Self { label, ..self }
    }
}

/// A [`Mode`](crate::Mode) without its secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// See [`Mode::Exclusive`](crate::Mode::Exclusive).
    Exclusive,
    /// See [`Mode::Shared`](crate::Mode::Shared).
    Shared,
    /// See [`Mode::Upgradable`](crate::Mode::Upgradable).
    Upgradable,
    /// This number of permits: see [`Mode::Permits`](crate::Mode::Permits).
    Permits(u32),
    /// See [`Mode::Joint`](crate::Mode::Joint).
    Joint,
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: InspectBackend + ?Sized> InspectBackend for $pointer<B> {
            async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
                (**self).inspect(key).await
            }

            async fn force_release(&self, key: &Key) -> Result<u64, Error> {
                (**self).force_release(key).await
            }
        }
    )*};
}

forward!(Arc, Box);
