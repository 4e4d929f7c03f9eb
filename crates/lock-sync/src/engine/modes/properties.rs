//! The properties that hold in any order of events.

use lock_core::Mode;
use proptest::prelude::*;

use super::World;
use super::events::{event, fixed_wants, manner, policy, wants};
use super::gates::opening;
use super::rest::{run, tell};
use crate::engine::policy::Policy;
use crate::engine::tests::common::{any_answer, cases};

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(500), max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Holders that hold at once may hold together, waiters are served in order, every waiter gets an
    /// outcome, and nothing stays behind.
    #[test]
    fn all_holders_at_once_are_compatible(
        policy in policy(),
        manner in manner(),
        wants in wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        events in proptest::collection::vec(event(false), 1..120),
    ) {
        run(policy, manner, wants, few, events);
    }

    /// The machine does not ask a store endlessly at one instant, whether the store fails or answers.
    #[test]
    fn nothing_spins_while_time_stands_still(
        policy in policy(),
        converts in any::<bool>(),
        manner in manner(),
        wants in wants(),
        fixed in fixed_wants(),
        hears in any::<bool>(),
        last in any_answer(),
        events in proptest::collection::vec(event(true), 1..80),
    ) {
        let wants = if converts { wants } else { fixed };
        tell(async move {
            let policy = Policy { converts, ..policy.clone() };
            let mut world = World::new(policy, manner, wants, None).await;
            for event in events {
                world.event(event).await;
            }
            world.storm(last, hears).await;
        });
    }

    /// The properties hold even if requests and replies get lost.
    #[test]
    fn all_holders_at_once_are_compatible_when_requests_are_lost(
        policy in policy(),
        manner in manner(),
        wants in wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        events in proptest::collection::vec(event(true), 1..120),
    ) {
        run(policy, manner, wants, few, events);
    }

    /// The properties hold while readers come and go by the gate.
    #[test]
    fn and_so_they_are_where_most_callers_read(
        policy in policy(),
        manner in manner(),
        other in prop_oneof![Just(Mode::Exclusive), Just(Mode::Upgradable)],
        faults in any::<bool>(),
        losing in proptest::collection::vec(event(true), 1..120),
        quiet in proptest::collection::vec(event(false), 1..120),
    ) {
        let policy = Policy { renew: true, max_hold: None, ..policy.clone() };
        let events = opening().into_iter().chain(if faults { losing } else { quiet }).collect();
        run(policy, manner, vec![Mode::Shared, Mode::Shared, Mode::Shared, other], None, events);
    }

    /// Over a store that does not convert leases, a lease keeps its mode until it ends.
    #[test]
    fn and_so_they_do_where_no_lease_is_converted(
        policy in policy(),
        manner in manner(),
        wants in fixed_wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        losing in any::<bool>(),
        events in proptest::collection::vec(event(true), 1..120),
        quiet in proptest::collection::vec(event(false), 1..120),
    ) {
        let events = if losing { events } else { quiet };
        run(Policy { converts: false, ..policy.clone() }, manner, wants, few, events);
    }
}
