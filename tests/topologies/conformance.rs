//! Every law of the contract and of the capabilities over a cluster and behind sentinels, while no server fails.
//!
//! All tests share one deployment of each kind, and each test has a prefix of its own. The laws of a quorum are not
//! among these: a deployment is no node of a quorum.

use lock_core::conformance::Suite;
use lock_redis::{Notifications, Protocol};
use lock_tests::in_all_setups;
use tokio::runtime;

use crate::support::{Deployed, Kind};

/// A deployment, and a way to set up its clients.
type Setup = (&'static str, fn() -> Deployed);

/// The setups for all laws.
static ALL: [Setup; 3] = [
    ("a cluster, RESP3", || Deployed::new(Kind::Cluster, |it| it.protocol(Protocol::Resp3))),
    ("a cluster, RESP2", || Deployed::new(Kind::Cluster, |it| it.protocol(Protocol::Resp2))),
    ("sentinels", || Deployed::new(Kind::Service, |it| it)),
];

/// The setups for the laws of hints as well: each with one source of hints alone.
static HINTS: [Setup; 2] = [
    ("a cluster, notifications alone", || {
        Deployed::new(Kind::Cluster, |it| {
            it.release_messages(false).notifications(Notifications::Enable)
        })
    }),
    ("a cluster, tracking alone", || {
        Deployed::new(Kind::Cluster, |it| {
            it.tracking(true).release_messages(false).notifications(Notifications::Off)
        })
    }),
];

fn enforce(setups: [&'static [Setup]; 2], suite: fn() -> Suite<Deployed>, law: &str) {
    let enforced = |(name, world): &'static Setup| {
        let enforce = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { suite().enforce(law, &world()).await });
        };
        (*name, enforce)
    };
    in_all_setups(law, setups.into_iter().flatten().map(enforced));
}

/// Makes a test of each law.
macro_rules! tests_of_laws {
    ($suite:ident ($setups:expr) () $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            enforce($setups, Suite::$suite, stringify!($law));
        }
    )*)*};
}

lock_core::__lock_core_laws! { [tests_of_laws] backend ([&ALL, &HINTS]) () }
lock_core::__lock_core_shared_laws! { [tests_of_laws] shared ([&ALL, &[]]) () }
lock_core::__lock_core_convert_laws! { [tests_of_laws] convert ([&ALL, &[]]) () }
lock_core::__lock_core_joint_laws! { [tests_of_laws] joint ([&ALL, &[]]) () }
lock_core::__lock_core_permit_laws! { [tests_of_laws] permits ([&ALL, &[]]) () }
lock_core::__lock_core_cell_laws! { [tests_of_laws] cell ([&ALL, &[]]) () }
lock_core::__lock_core_inspect_laws! { [tests_of_laws] inspect ([&ALL, &[]]) () }

/// The laws of a mutex, with a semaphore of one permit.
mod one_permit {
    use super::*;

    lock_core::__lock_core_mutex_laws! { [tests_of_laws] one_permit ([&ALL, &[]]) () }
}
