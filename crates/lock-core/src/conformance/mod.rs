//! The laws of [`Backend`](crate::Backend) as a test suite, for every backend and every wrapper
//! around one.
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
//! ```
//!
//! The tests are ordinary `#[tokio::test]`s, so the crate that calls
//! [`conformance_tests!`](crate::conformance_tests) needs tokio with its `macros` and `rt`. Call it
//! once per module; [`run`] does the same for one law where there is no test runner.
//!
//! Nearly every law works with **two independent clients** on one key, because one client alone
//! cannot tell a distributed lock from a local one. A backend that answers "granted" without
//! asking its store fails.
//!
//! A law that needs a hook which the harness does not have, or hints, a queue or a mode that the
//! backend does not offer, is [not applicable](Verdict::NotApplicable). Such a test passes, and says
//! so on the standard error stream even where the test runner hides the output of tests that pass.
//! So a backend that means to have a queue should look at what was said.

mod harness;
mod laws;
mod line;
mod macros;
mod scene;
mod table;
mod verdict;

use std::io::Write;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;

pub use self::harness::{Harness, Hook};
pub use self::table::{Law, laws};
pub use self::verdict::Verdict;

use self::scene::Scene;

/// Tests one law.
///
/// The law is broken, too, if the backend or the harness panics, or if it takes more than six times
/// the [patience](Harness::patience) of the harness. Needs a tokio runtime with time.
pub async fn run<H: Harness>(law: &str, harness: &H) -> Verdict {
    let Some(test) = table::test_of(law, Scene::new(harness)) else {
        return Verdict::Broken(format!("there is no law with the name {law}"));
    };
    let limit = harness.patience() * 6;
    match tokio::time::timeout(limit, AssertUnwindSafe(test).catch_unwind()).await {
        Ok(Ok(Ok(()))) => Verdict::Holds,
        Ok(Ok(Err(failure))) => failure.into(),
        Ok(Err(panic)) => Verdict::Broken(format!("panicked: {}", message(&*panic))),
        Err(_) => Verdict::Broken(format!("not decided within {limit:?}")),
    }
}

/// Tests one law, and panics if it is broken: the body of the tests that
/// [`conformance_tests!`](crate::conformance_tests) makes.
///
/// # Panics
///
/// If the law is broken.
pub async fn enforce<H: Harness>(law: &str, harness: &H) {
    match run(law, harness).await {
        Verdict::Holds => {}
        // Written past the print macros, whose output the test runner hides.
        Verdict::NotApplicable(reason) => {
            let line = format!("note: {law} is not applicable: {reason}\n");
            let _best_effort = std::io::stderr().write_all(line.as_bytes());
        }
        Verdict::Broken(reason) => panic!("{law} is broken: {reason}"),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
