//! The laws of one trait, and how to test them.

use std::fmt;
use std::io::Write;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::scene::{Scene, Terms};
use super::verdict::{Check, Failure, Verdict};
use super::{Harness, Law};

/// How often a test is repeated that comes too late to see what it looks for.
const REPEATS: usize = 2;

/// The laws of [`Backend`](crate::Backend) or of one capability, for the clients of a harness.
///
/// A harness has a suite only if its clients implement the trait.
///
/// # Examples
///
/// ```
/// use lock_core::conformance::{Suite, Verdict};
/// use lock_core::memory::MemoryBackend;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let harness = MemoryBackend::new();
/// let suite = Suite::inspect();
/// for law in suite.laws() {
///     assert_eq!(suite.run(law.name(), &harness).await, Verdict::Holds, "{}", law.sentence());
/// }
/// # }
/// ```
pub struct Suite<H> {
    pub(super) laws: &'static [Law],
    pub(super) terms: Terms,
    /// The test of the law with this name, ready to be polled.
    pub(super) test_of: TestOf<H>,
}

pub(super) type TestOf<H> = for<'n, 'h> fn(&'n str, Scene<'h, H>) -> Option<BoxFuture<'h, Check>>;

impl<H: Harness> Suite<H> {
    /// The laws, in the order of the trait's documentation.
    pub fn laws(&self) -> &'static [Law] {
        self.laws
    }

    /// Tests one law.
    ///
    /// The law is also broken if the backend or the harness panics, or if the test takes more than six times
    /// the [patience](Harness::patience) of the harness. On a busy machine, a test may come too late to see what it looks
    /// for. Then it is repeated, twice at most. This needs a tokio runtime with time.
    pub async fn run(&self, law: &str, harness: &H) -> Verdict {
        let limit = harness.patience() * 6;
        let mut repeats = 0..REPEATS;
        loop {
            let Some(test) = (self.test_of)(law, Scene::new(harness, self.terms)) else {
                return Verdict::Broken(format!("there is no law with the name {law}"));
            };
            return match tokio::time::timeout(limit, AssertUnwindSafe(test).catch_unwind()).await {
                Ok(Ok(Ok(()))) => Verdict::Holds,
                Ok(Ok(Err(Failure::Late(_)))) if repeats.next().is_some() => continue,
                Ok(Ok(Err(failure))) => failure.into(),
                Ok(Err(panic)) => Verdict::Broken(format!("panicked: {}", message(&*panic))),
                Err(_) => Verdict::Broken(format!("not decided within {limit:?}")),
            };
        }
    }

    /// Tests one law, and panics if it is broken. The tests that
    /// [`conformance_tests!`](crate::conformance_tests) makes call this.
    ///
    /// # Panics
    ///
    /// If the law is broken.
    ///
    /// The [example](Suite#examples) of a suite tests every law.
    pub async fn enforce(&self, law: &str, harness: &H) {
        match self.run(law, harness).await {
            Verdict::Holds => {}
            // Written directly, because the test runner hides the output of the print macros.
            Verdict::NotApplicable(reason) => {
                let line = format!("note: {law} is not applicable: {reason}\n");
                let _best_effort = std::io::stderr().write_all(line.as_bytes());
            }
            Verdict::Broken(reason) => panic!("{law} is broken: {reason}"),
        }
    }
}

impl<H> fmt::Debug for Suite<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("laws", &self.laws).finish_non_exhaustive()
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
