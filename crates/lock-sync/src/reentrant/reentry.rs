//! A guard on loan to a function that runs under the lock.

use crate::bare::Hold;
use crate::error::LeaseLost;
use crate::guard::reach;
use crate::lease::Lease;

/// A nested entry into a locked mutex. [`MutexGuard::reenter`](crate::MutexGuard::reenter) returns it.
///
/// The reentry borrows the guard and gives write access to the data. It costs no request, and has the fencing token
/// of the guard. The compiler allows one reentry at a time, so two concurrent branches cannot both have one:
///
/// ```compile_fail,E0499
/// # use lock_core::memory::MemoryBackend;
/// # use lock_sync::{Locks, Reentry};
/// async fn add(mut total: Reentry<'_, u32>) {
///     *total += 1;
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locks = Locks::new(MemoryBackend::new());
/// let mutex = locks.mutex("total", 0)?;
/// let mut guard = mutex.lock().await?;
/// tokio::join!(add(guard.reenter()?), add(guard.reenter()?)); // does not compile
/// # Ok(())
/// # }
/// ```
///
/// # If the lease is lost
///
/// A new entry fails. An existing reentry still gives access to the data, as a guard does, and its
/// [`Lease`] reports the loss.
pub struct Reentry<'g, T: ?Sized> {
    data: &'g mut T,
    hold: &'g Hold,
}

impl<'g, T: ?Sized> Reentry<'g, T> {
    pub(crate) fn new(data: &'g mut T, hold: &'g Hold) -> Result<Self, LeaseLost> {
        hold.check()?;
        Ok(Self { data, hold })
    }

    /// Enters once more, for the next nested call.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] if the lease is lost.
    pub fn reenter(&mut self) -> Result<Reentry<'_, T>, LeaseLost> {
        Reentry::new(self.data, self.hold)
    }

    /// A handle to the lease of the guard: see [`Lease`].
    pub fn lease(this: &Self) -> Lease {
        Lease::of(this.hold)
    }
}

reach!(['g, T: ?Sized] Reentry<'g, T> => mut T, |this| *this.data);
