//! Every law of the contract and of the capabilities where two replicas confirm each grant, while no server fails.

use std::time::Duration;

use lock_core::conformance::Suite;

use crate::conformance::OF_PERMITS;
use crate::support::{Deployed, Kind};

/// A grant that is pushed counts only once the client has had it confirmed, so no message dates it.
const NOT_APPLY: &[&str] = &[
    "backend::a_pushed_grant_ends_before_its_lease",
    "one_permit::a_pushed_grant_ends_before_its_lease",
    OF_PERMITS,
];

fn enforce(suite: fn() -> Suite<Deployed>, law: &str) {
    let world = || {
        Deployed::new(Kind::Service, |it| {
            let timeout = Duration::from_secs(2);
            it.command_timeout(2 * timeout).confirm(2, timeout)
        })
    };
    lock_tests::enforce_all_but(NOT_APPLY, suite, law, world);
}

/// Makes a test of each law.
macro_rules! tests_of_laws {
    ($suite:ident () () $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            enforce(Suite::$suite, concat!(stringify!($suite), "::", stringify!($law)));
        }
    )*)*};
}

lock_core::__lock_core_laws! { [tests_of_laws] backend () () }
lock_core::__lock_core_shared_laws! { [tests_of_laws] shared () () }
lock_core::__lock_core_convert_laws! { [tests_of_laws] convert () () }
lock_core::__lock_core_joint_laws! { [tests_of_laws] joint () () }
lock_core::__lock_core_permit_laws! { [tests_of_laws] permits () () }
lock_core::__lock_core_cell_laws! { [tests_of_laws] cell () () }
lock_core::__lock_core_inspect_laws! { [tests_of_laws] inspect () () }

/// The laws of a mutex, with a semaphore of one permit.
mod one_permit {
    use super::*;

    lock_core::__lock_core_mutex_laws! { [tests_of_laws] one_permit () () }
}
