//! The laws of the contract and of the capabilities, over real servers.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use lock_core::conformance::{Harness, Hook, Suite, Verdict};
use tokio::runtime;

use crate::Proxy;

/// Makes a test of each law of the named suites. Each test calls a function with the suite and the name of the law. The
/// suite `one_permit` gets a module of its own, because its laws have the names of those of a mutex.
///
/// ```
/// use lock_core::conformance::Suite;
/// use lock_core::memory::MemoryBackend;
///
/// fn enforce(suite: fn() -> Suite<MemoryBackend>, law: &str) {
///     lock_tests::enforce(suite, law, MemoryBackend::new);
/// }
///
/// lock_tests::laws! { (enforce) backend shared permits one_permit }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! laws {
    ($enforce:tt) => {};
    ($enforce:tt backend $($more:ident)*) => {
        ::lock_core::__lock_core_laws! { [$crate::__tests_of_laws] backend $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt shared $($more:ident)*) => {
        ::lock_core::__lock_core_shared_laws! { [$crate::__tests_of_laws] shared $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt convert $($more:ident)*) => {
        ::lock_core::__lock_core_convert_laws! { [$crate::__tests_of_laws] convert $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt joint $($more:ident)*) => {
        ::lock_core::__lock_core_joint_laws! { [$crate::__tests_of_laws] joint $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt permits $($more:ident)*) => {
        ::lock_core::__lock_core_permit_laws! { [$crate::__tests_of_laws] permits $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt cell $($more:ident)*) => {
        ::lock_core::__lock_core_cell_laws! { [$crate::__tests_of_laws] cell $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt inspect $($more:ident)*) => {
        ::lock_core::__lock_core_inspect_laws! { [$crate::__tests_of_laws] inspect $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt quorum $($more:ident)*) => {
        ::lock_core::__lock_core_quorum_laws! { [$crate::__tests_of_laws] quorum $enforce () }
        $crate::laws! { $enforce $($more)* }
    };
    ($enforce:tt one_permit $($more:ident)*) => {
        /// The laws of a mutex, with a semaphore of one permit.
        mod one_permit {
            use super::*;

            ::lock_core::__lock_core_mutex_laws! { [$crate::__tests_of_laws] one_permit $enforce () }
        }
        $crate::laws! { $enforce $($more)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tests_of_laws {
    (
        $suite:ident ($enforce:expr) ()
        $($group:ident { $($law:ident: $sentence:literal,)* })*
    ) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            ($enforce)(::lock_core::conformance::Suite::$suite, stringify!($law));
        }
    )*)*};
}

/// Tests a law on a runtime of one thread.
///
/// # Panics
///
/// If the law is broken.
pub fn enforce<H: Harness>(suite: fn() -> Suite<H>, law: &str, world: impl FnOnce() -> H) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { suite().enforce(law, &world()).await });
}

/// Tests a law as [`enforce`] does, with the names of all laws that do `not_apply` to this harness. A law that no
/// longer applies would otherwise go untested without notice.
///
/// A law is named with its suite, as in `cell::what_was_written_is_settled`: several suites have laws of one name.
///
/// # Panics
///
/// If the law is broken, if it does not apply and is not named, or if it holds and is named.
pub fn enforce_all_but<H: Harness>(
    not_apply: &[&str],
    suite: fn() -> Suite<H>,
    law: &str,
    world: impl FnOnce() -> H,
) {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (_, name) = law.split_once("::").expect("the suite of the law");
    match runtime.block_on(async { suite().run(name, &world()).await }) {
        Verdict::Holds => assert!(!not_apply.contains(&law), "{law} applies, and holds"),
        Verdict::NotApplicable(reason) => {
            assert!(not_apply.contains(&law), "{law} does not apply: {reason}");
        }
        other => panic!("{law} is broken: {other:?}"),
    }
}

/// The proxies of each client of a harness, by the visible name of the client: the hooks that cut a client off.
#[derive(Debug, Default)]
pub struct Ways(Mutex<HashMap<String, Vec<Proxy>>>);

impl Ways {
    /// Keeps the proxies through which this client comes to its servers.
    pub fn keep(&self, client: impl Debug, ways: Vec<Proxy>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(format!("{client:?}"), ways);
    }

    /// Cuts this client off from its servers.
    ///
    /// # Panics
    ///
    /// If no proxies of the client are kept.
    pub fn cut_off(&self, client: impl Debug) -> Hook {
        self.each(client, Proxy::cut_off);
        Hook::Done
    }

    /// Ends what [`cut_off`](Self::cut_off) has begun.
    ///
    /// # Panics
    ///
    /// If no proxies of the client are kept.
    pub fn heal(&self, client: impl Debug) {
        self.each(client, Proxy::pass);
    }

    fn each(&self, client: impl Debug, act: fn(&Proxy)) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all[&format!("{client:?}")].iter().for_each(act);
    }
}
