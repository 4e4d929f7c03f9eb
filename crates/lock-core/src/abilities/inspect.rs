//! Who holds a lock, and who waits for it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Backend, Error, FencingToken, Key};

/// A store that can be asked who holds a lock and who waits for it, and made to end its leases.
///
/// - An inspection MUST show every live lease and every place in the queue, and no other
///   (`an_inspection_shows_holders_and_waiters`), without the secrets that prove ownership
///   (`an_inspection_keeps_secrets`).
/// - A forced release MUST end every lease on the key, those of other libraries included, so that renewal
///   reports it lost (`a_forced_release_ends_every_lease`), and serve whoever waits
///   (`a_forced_release_serves_the_queue`). Its tokens MUST go on increasing
///   (`tokens_increase_after_a_forced_release`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot tell who holds its locks",
    label = "this needs a backend that can be inspected",
    note = "implement `lock_core::InspectBackend` for it"
)]
#[async_trait]
pub trait InspectBackend: Backend {
    /// Who holds a key and who waits for it, as the store sees it now.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error>;

    /// Ends every lease on a key, whoever has it. Returns how many there were.
    ///
    /// For people who clean up: holders are not asked. They learn of it from a hint, or with their next
    /// renewal, and what they still write until then is refused only by a resource that compares fencing
    /// tokens.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does. Repeating it ends what was granted meanwhile, too.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the leases have ended.
    async fn force_release(&self, key: &Key) -> Result<u64, Error>;
}

/// Who holds a key and who waits for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// Those who hold it, at most the first [`MAX`](Self::MAX), in no particular order.
    pub holders: Vec<Holder>,
    /// How many hold it in all.
    pub holding: u64,
    /// Those who wait in the store's queue, at most the first [`MAX`](Self::MAX), in their order.
    pub waiters: Vec<Waiter>,
    /// How many wait there in all.
    pub waiting: u64,
}

impl Inspection {
    /// How many holders, and how many waiters, are listed at most.
    pub const MAX: usize = 1000;

    /// These hold the key, and these wait for it; so many in all.
    pub fn new(holders: (Vec<Holder>, u64), waiters: (Vec<Waiter>, u64)) -> Self {
        Self { holders: holders.0, holding: holders.1, waiters: waiters.0, waiting: waiters.1 }
    }
}

/// One lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// How the key is held.
    pub kind: Kind,
    /// One of its fencing tokens: the first or the last that its grant reserved. `None` if it was not granted by this
    /// family of libraries.
    pub token: Option<FencingToken>,
    /// How long the lease lives unless it is renewed; `None` if it has no end.
    pub remaining: Option<Duration>,
}

impl Holder {
    /// A lease of this kind.
    pub fn new(kind: Kind, token: Option<FencingToken>, remaining: Option<Duration>) -> Self {
        Self { kind, token, remaining }
    }
}

/// One place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// How the key is to be held.
    pub kind: Kind,
    /// How long the place is kept unless it is asked for again.
    pub remaining: Duration,
}

impl Waiter {
    /// A place for a lease of this kind.
    pub fn new(kind: Kind, remaining: Duration) -> Self {
        Self { kind, remaining }
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
    /// So many permits: see [`Mode::Permits`](crate::Mode::Permits).
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
