//! Every law of the contract and of the capabilities over a cluster and behind sentinels, while no server fails.
//!
//! All tests share one deployment of each kind, and each test has a prefix of its own. The laws of a quorum are not
//! among these: a deployment is no node of a quorum.

use lock_core::conformance::Suite;
use lock_redis::{Notifications, Protocol};
use lock_tests::{enforce_all_but, in_all_setups};

use crate::support::{Deployed, Kind};

/// A deployment, a way to set up its clients, and the laws that do not apply there.
type Setup = (&'static str, &'static [&'static str], fn() -> Deployed);

/// The locks of the first laws are in several slots. That locks of one slot are granted in one step is another test.
const IN_A_CLUSTER: &[&str] = &[
    "backend::leases_are_granted_together_or_not_at_all",
    "backend::leases_granted_together_are_leases_like_any_other",
    "backend::no_waiter_is_overtaken_together",
    OF_PERMITS,
];

/// A permit is released, and asked for again, in two steps.
pub(crate) const OF_PERMITS: &str = "one_permit::a_release_and_requeue_hands_over_and_queues_again";

/// The setups for all laws.
static ALL: [Setup; 3] = [
    ("a cluster, RESP3", IN_A_CLUSTER, || {
        Deployed::new(Kind::Cluster, |it| it.protocol(Protocol::Resp3))
    }),
    ("a cluster, RESP2", IN_A_CLUSTER, || {
        Deployed::new(Kind::Cluster, |it| it.protocol(Protocol::Resp2))
    }),
    ("sentinels", &[OF_PERMITS], || Deployed::new(Kind::Service, |it| it)),
];

/// The setups for the laws of hints as well: each with one source of hints alone.
static HINTS: [Setup; 2] = [
    ("a cluster, notifications alone", IN_A_CLUSTER, || {
        Deployed::new(Kind::Cluster, |it| {
            it.release_messages(false).notifications(Notifications::Enable)
        })
    }),
    ("a cluster, tracking alone", IN_A_CLUSTER, || {
        Deployed::new(Kind::Cluster, |it| {
            it.tracking(true).release_messages(false).notifications(Notifications::Off)
        })
    }),
];

fn enforce(setups: [&'static [Setup]; 2], suite: fn() -> Suite<Deployed>, law: &str) {
    let enforced = |(name, not_apply, world): &'static Setup| {
        (*name, move || enforce_all_but(not_apply, suite, law, world))
    };
    in_all_setups(law, setups.into_iter().flatten().map(enforced));
}

/// Makes a test of each law.
macro_rules! tests_of_laws {
    ($suite:ident ($setups:expr) () $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[test]
        fn $law() {
            enforce($setups, Suite::$suite, concat!(stringify!($suite), "::", stringify!($law)));
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
