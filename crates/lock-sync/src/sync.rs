//! The locks and the atomics of the engine, and its random numbers.
//!
//! The package `lock-interleavings` builds this crate again, with `cfg(shuttle)`. There a scheduler of the tests
//! decides at each of these operations which thread goes on. At all other operations it changes no thread.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, atomic};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};

use lock_core::{Clock, Error, Instant, OwnerToken};

#[cfg(test)]
thread_local! {
    /// How often this thread has read a clock by [`now`].
    pub(crate) static READ: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Reads the clock. Every look at a clock on the way of a pass goes through here, so that a test can count them.
#[inline]
pub(crate) fn now(clock: Clock) -> Instant {
    #[cfg(test)]
    READ.set(READ.get() + 1);
    clock.now()
}

/// Draws the token of a claim.
#[cfg(not(shuttle))]
pub(crate) fn owner() -> Result<OwnerToken, Error> {
    OwnerToken::generate()
}

/// Draws the token of a claim from the seed of the schedule, so that the schedule can be repeated.
#[cfg(shuttle)]
pub(crate) fn owner() -> Result<OwnerToken, Error> {
    let mut bytes = [0; 16];
    shuttle::rand::Rng::fill(&mut shuttle::rand::thread_rng(), &mut bytes);
    Ok(OwnerToken::from_bytes(bytes))
}
