//! Foreign code that a library calls: observers, wakers and the values that a waker owns. [`survive`] runs such code.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign code, and catches its panic. The panic hook has reported the panic by then.
///
/// The caller must hold no lock that the foreign code may need.
///
/// # Examples
///
/// ```
/// # std::panic::set_hook(Box::new(|_| ()));
/// let mut told = Vec::new();
/// for name in ["first", "second", "third"] {
///     lock_core::foreign::survive(|| {
///         assert_ne!(name, "second");
///         told.push(name);
///     });
/// }
/// assert_eq!(told, ["first", "third"]);
/// ```
pub fn survive(work: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        // The drop of the payload could panic again.
        std::mem::forget(panic);
    }
}
