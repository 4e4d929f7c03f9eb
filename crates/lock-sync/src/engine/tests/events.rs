//! The events of a process with one exclusive lock, and how a property draws them.

use std::time::Duration;

use lock_core::{Hint, OwnerToken, Ttl};
use proptest::prelude::*;

use super::common::{Answer, Limit, TTL};
use crate::engine::manner::Manner;
use crate::engine::policy::Policy;
use crate::handoff::Handoff;

/// One event. Numbers choose among the present waiters, messages and requests.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Enter(Limit),
    Cancel(usize),
    Release,
    AnswerAttempt(Answer),
    /// The first answer to a request that was repeated arrives while the release of its grant is under way.
    GrantedAgain,
    TakeRelease,
    AnswerRelease(Answer),
    AnswerRenewal(Answer),
    StartWatch,
    EndWatch(bool),
    Hint(Hint),
    /// A message arrives, in any order. With `again`, it may arrive once more later.
    Deliver {
        nth: usize,
        again: bool,
    },
    /// A message is lost.
    Lose(usize),
    Foreign(bool),
    /// Another process waits outside the line and hears of the next release, or the process goes away.
    Bystander(bool),
    /// Another process asks for the lock, and waits for it.
    Rival,
    /// The other process that holds the lock lets go.
    RivalDone,
    /// Another process that waits gives up.
    RivalGone,
    Advance(u64),
    /// Time passes before the driver looks.
    Sleep(u64),
    /// The woken tasks run. Until then a waiter may have a grant that it has not picked up.
    Run,
    Close,
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        8 => Just(Answer::Truth),
        1 => Just(Answer::ReplyLost),
        1 => Just(Answer::Lost),
        1 => Just(Answer::Denied),
    ]
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => prop_oneof![
            Just(Limit::None),
            (0u64..5_000).prop_map(Limit::Millis),
            Just(Limit::Try)
        ].prop_map(Event::Enter),
        2 => (0usize..8).prop_map(Event::Cancel),
        5 => Just(Event::Release),
        8 => answer().prop_map(Event::AnswerAttempt),
        1 => Just(Event::GrantedAgain),
        4 => Just(Event::TakeRelease),
        5 => answer().prop_map(Event::AnswerRelease),
        2 => answer().prop_map(Event::AnswerRenewal),
        2 => Just(Event::StartWatch),
        1 => any::<bool>().prop_map(Event::EndWatch),
        2 => prop_oneof![
            Just(Hint::Released), Just(Hint::Expired), Just(Hint::Changed), Just(Hint::Contended),
            Just(Hint::Resync), forged().prop_map(|owner| Hint::Granted { owner, grant: None }),
            (forged(), any::<Duration>()).prop_map(|(owner, after)| Hint::Next { owner, after }),
        ].prop_map(Event::Hint),
        6 => (0usize..4, prop::bool::weighted(0.2))
            .prop_map(|(nth, again)| Event::Deliver { nth, again }),
        1 => (0usize..4).prop_map(Event::Lose),
        3 => Just(Event::Rival),
        3 => Just(Event::RivalDone),
        1 => Just(Event::RivalGone),
        2 => any::<bool>().prop_map(Event::Foreign),
        2 => prop::bool::weighted(0.8).prop_map(Event::Bystander),
        4 => prop_oneof![0u64..50, 0u64..4_000].prop_map(Event::Advance),
        1 => (0u64..2_000).prop_map(Event::Sleep),
        10 => Just(Event::Run),
    ]
}

fn forged() -> impl Strategy<Value = OwnerToken> {
    (1u128..40).prop_map(|n| OwnerToken::from_bytes(n.to_be_bytes()))
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    (any::<bool>(), proptest::option::of(1u64..6_000)).prop_map(|(renew, max_hold)| Policy {
        ttl: Ttl::new(TTL).unwrap(),
        renew,
        max_hold: max_hold.map(Duration::from_millis),
        outage_limit: None,
        converts: true,
        label: None,
    })
}

pub(super) fn manner() -> impl Strategy<Value = Manner> {
    let budget = (0u32..5, 0u64..50).prop_map(|(handoffs, millis)| Handoff::Budget {
        handoffs,
        time: Duration::from_millis(millis),
    });
    let handoff = prop_oneof![1 => Just(Handoff::Never), 2 => Just(Handoff::Fair), 6 => budget];
    let cache = proptest::option::of((0u64..9_000).prop_map(Duration::from_millis));
    (handoff, cache).prop_map(|(handoff, cache)| Manner::new(handoff).with_cache(cache))
}
