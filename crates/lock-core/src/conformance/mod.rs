//! The laws of [`Backend`](crate::Backend) and of the capabilities, as test suites for
//! every backend and every wrapper around one.
//!
//! Implement [`Harness`], which tells the suite how to handle your store. Then let a macro make one test
//! of each law:
//!
//! ```
//! # mod tests {
//! use lock_core::memory::MemoryBackend;
//!
//! // `MemoryBackend` is a harness for itself. Put an expression here that makes your harness.
//! lock_core::conformance_tests!(MemoryBackend::new());
//! # }
//! # mod more {
//! # use lock_core::memory::MemoryBackend;
//!
//! // These laws, and the laws of the capabilities that the backend has.
//! lock_core::conformance_tests!(
//!     MemoryBackend::new(),
//!     capabilities: [shared, joint, permits, cell, inspect, quorum]
//! );
//! # }
//! ```
//!
//! The tests are ordinary `#[tokio::test]`s, so the crate that calls
//! [`conformance_tests!`](crate::conformance_tests) needs tokio with its `macros` and `rt`. Call the macro
//! once per module. Where there is no test runner, [`run`] tests one law of the backend, and
//! [`Suite::run`] one law of a capability.
//!
//! Nearly every law works with **two independent clients** on one key, because one client alone
//! cannot tell a distributed lock from a local one. A backend that answers "granted" without
//! asking its store fails.
//!
//! A law is [not applicable](Verdict::NotApplicable) if it needs a hook that the harness does not have, or
//! hints, a queue or a mode that the backend does not offer. Such a test passes, and says
//! so on the standard error stream, even if the test runner hides the output of tests that pass.
//! So if your backend is meant to have a queue, read that output. A backend that implements the trait of an
//! capability has promised it: if the capability is missing, the law is broken.
//!
//! A semaphore of one permit is a mutex, so [the laws of a mutex](Suite::one_permit) are tested with
//! it as well. The writer of an `RwLock` asks for [`Mode::Exclusive`](crate::Mode::Exclusive) as a mutex does,
//! so it needs no laws of its own.
//!
//! [`enforce_findings`] tests the [check](crate::check) of a backend that has one.

mod ballots;
mod findings;
mod harness;
mod laws;
mod line;
mod macros;
mod scene;
mod suite;
mod tables;
mod verdict;
mod voter;

pub use self::findings::{FindingCase, enforce_findings};
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
