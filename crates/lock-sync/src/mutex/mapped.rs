//! The guards of a part of the data.

use std::sync::Arc;

use super::Mutex;
use crate::bare::Hold;
use crate::guard::{Guarded, guard, narrowing};

/// A [`MutexGuard`](super::MutexGuard) that was narrowed with
/// [`map`](super::MutexGuard::map).
///
/// # Examples
///
/// ```
/// # use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, MutexGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let pair = locks.mutex("pair", (1, 2))?;
/// let mut second = MutexGuard::map(pair.lock().await?, |pair| &mut pair.1);
/// *second += 1;
/// assert_eq!(*second, 3);
/// # Ok(())
/// # }
/// ```
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MappedMutexGuard<'a, T: ?Sized> {
    pub(super) core: Guarded<tokio::sync::MappedMutexGuard<'a, T>, Hold>,
}

impl<'a, T: ?Sized> MappedMutexGuard<'a, T> {
    narrowing! {
        /// Narrows the guard further.
        map,
        /// Narrows the guard further, if the closure finds the part.
        try_map,
        [U, F] &mut T => &mut U,
        by tokio::sync::MappedMutexGuard,
        into MappedMutexGuard['a, U]
    }
}

guard!(['a, T: ?Sized] MappedMutexGuard<'a, T> => mut T);

/// An [`OwnedMutexGuard`](super::OwnedMutexGuard) that was narrowed with
/// [`map`](super::OwnedMutexGuard::map).
///
/// The [example](crate::MappedMutexGuard#examples) of the borrowed guard shows how to get one.
#[clippy::has_significant_drop]
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct OwnedMappedMutexGuard<T: ?Sized, U: ?Sized = T> {
    pub(super) core: Guarded<tokio::sync::OwnedMappedMutexGuard<T, U>, Hold, Arc<Mutex<T>>>,
}

impl<T: ?Sized, U: ?Sized> OwnedMappedMutexGuard<T, U> {
    narrowing! {
        /// Narrows the guard further.
        map,
        /// Narrows the guard further, if the closure finds the part.
        try_map,
        [S, F] &mut U => &mut S,
        by tokio::sync::OwnedMappedMutexGuard,
        into OwnedMappedMutexGuard[T, S]
    }
}

guard!([T: ?Sized, U: ?Sized] OwnedMappedMutexGuard<T, U> => mut U);
