//! The properties that hold in any order of events.

use proptest::prelude::*;

use super::World;
use super::common::{any_answer, cases};
use super::events::{Event, event, manner, policy};
use super::express::quiet;

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// In any order of events, with any answers of the store: at most one task holds the lock, waiters are
    /// served in order, tokens increase, every waiter gets an outcome, and nothing stays behind.
    #[test]
    fn the_machine_keeps_its_word(
        policy in policy(),
        manner in manner(),
        events in proptest::collection::vec(event(), 1..120),
        close in proptest::option::weighted(0.2, 0usize..120),
        busy in proptest::bool::weighted(0.2),
    ) {
        let mut world = World::new(policy, manner);
        if busy {
            quiet().into_iter().for_each(|event| world.event(event));
        }
        for (n, event) in events.into_iter().enumerate() {
            if close == Some(n) {
                world.event(Event::Close);
            }
            world.event(event);
        }
        world.come_to_rest();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_000), failure_persistence: None, ..ProptestConfig::default() })]

    /// The machine does not ask a store endlessly at one instant, whether the store fails or answers.
    #[test]
    fn nothing_spins_while_time_stands_still(
        policy in policy(),
        manner in manner(),
        events in proptest::collection::vec(event(), 1..80),
        last in any_answer(),
    ) {
        let mut world = World::new(policy, manner);
        for event in events {
            world.event(event);
        }
        world.storm(last);
    }
}
