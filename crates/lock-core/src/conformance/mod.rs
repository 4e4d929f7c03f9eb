//! The laws of [`Backend`](crate::Backend), and of what only some backends can do, as test suites for
//! every backend and every wrapper around one.
//!
//! Tell the suite how to handle your store by implementing [`Harness`], and have it make one test
//! of each law:
//!
//! ```
//! # mod tests {
//! use lock_core::memory::MemoryBackend;
//!
//! // `MemoryBackend` is a harness for itself; here goes an expression that makes yours.
//! lock_core::conformance_tests!(MemoryBackend::new());
//! # }
//! # mod more {
//! # use lock_core::memory::MemoryBackend;
//!
//! // The same, and the laws of the abilities that the backend implements the traits of.
//! lock_core::conformance_tests!(
//!     MemoryBackend::new(),
//!     abilities: [shared, joint, permits, cell, inspect, quorum]
//! );
//! # }
//! ```
//!
//! The tests are ordinary `#[tokio::test]`s, so the crate that calls
//! [`conformance_tests!`](crate::conformance_tests) needs tokio with its `macros` and `rt`. Call it
//! once per module; [`run`] does the same for one law where there is no test runner, and
//! [`Suite::run`] for one of an ability.
//!
//! Nearly every law works with **two independent clients** on one key, because one client alone
//! cannot tell a distributed lock from a local one. A backend that answers "granted" without
//! asking its store fails.
//!
//! A law that needs a hook which the harness does not have, or hints, a queue or a mode that the
//! backend does not offer, is [not applicable](Verdict::NotApplicable). Such a test passes, and says
//! so on the standard error stream even where the test runner hides the output of tests that pass.
//! So a backend that means to have a queue should look at what was said. What a backend has promised
//! by implementing the trait of an ability, it cannot lack: that breaks the law.
//!
//! A semaphore of one permit is a mutex, so [the laws of a mutex](Suite::one_permit) are tested with
//! it as well. The same goes for the writer of an `RwLock`, which asks for
//! [`Mode::Exclusive`](crate::Mode::Exclusive) as a mutex does: its laws are the mutex laws themselves.

mod ballots;
mod harness;
mod laws;
mod line;
mod macros;
mod scene;
mod suite;
mod tables;
mod verdict;
mod voter;

pub use self::harness::{Harness, Hook};
pub use self::suite::Suite;
pub use self::tables::Law;
pub use self::verdict::Verdict;

/// Every law of [`Backend`](crate::Backend), in the order of its contract.
pub fn laws() -> &'static [Law] {
    Suite::<crate::memory::MemoryBackend>::backend().laws()
}

/// Tests one law of [`Backend`](crate::Backend): see [`Suite::run`].
pub async fn run<H: Harness>(law: &str, harness: &H) -> Verdict {
    Suite::backend().run(law, harness).await
}

/// Tests one law of [`Backend`](crate::Backend), and panics if it is broken.
///
/// # Panics
///
/// If the law is broken.
pub async fn enforce<H: Harness>(law: &str, harness: &H) {
    Suite::backend().enforce(law, harness).await;
}
