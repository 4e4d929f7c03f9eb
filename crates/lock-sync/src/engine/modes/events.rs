//! The events of a process, and how a property draws them.

use std::time::Duration;

use lock_core::{Mode, OwnerToken, Ttl};
use proptest::prelude::*;

use super::OF;
use crate::engine::manner::Manner;
use crate::engine::policy::Policy;
use crate::engine::tests::common::{Answer, Limit, TTL};
use crate::handoff::Handoff;

/// The longest lease that a holder asks for, in milliseconds.
const LONGEST: u64 = 2 * TTL.as_millis() as u64;

/// One event. Numbers choose among the present waiters, holds, messages and requests.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Enter(usize, Limit),
    Cancel(usize),
    Release(usize),
    Downgrade(usize, bool),
    Upgrade(usize, Limit),
    AbandonUpgrade,
    Split(usize),
    Extend(usize, u64),
    Forget(usize),
    Answer(usize, Answer),
    /// The store carries out a request now, and answers later.
    Delay(usize),
    Watch(bool),
    Deliver(usize),
    Lose(usize),
    RivalAsks(usize, usize),
    RivalLeaves(usize),
    Advance(u64),
    Sleep(u64),
    TakeRelease,
    /// A query is about to ask the store what is free.
    Query,
    Run,
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![3 => Just(Limit::None), 1 => (0u64..5_000).prop_map(Limit::Millis), 1 => Just(Limit::Try)]
}

fn answer(faults: bool) -> impl Strategy<Value = Answer> {
    let fault = u32::from(faults);
    prop_oneof![
        12 => Just(Answer::Truth),
        fault => Just(Answer::ReplyLost),
        fault => Just(Answer::Lost),
        fault => Just(Answer::Denied),
    ]
}

pub(super) fn event(faults: bool) -> impl Strategy<Value = Event> {
    let some = 0usize..6;
    prop_oneof![
        8 => (some.clone(), limit()).prop_map(|(want, limit)| Event::Enter(want, limit)),
        2 => some.clone().prop_map(Event::Cancel),
        6 => some.clone().prop_map(Event::Release),
        2 => (some.clone(), any::<bool>()).prop_map(|(nth, far)| Event::Downgrade(nth, far)),
        3 => (some.clone(), limit()).prop_map(|(nth, limit)| Event::Upgrade(nth, limit)),
        1 => Just(Event::AbandonUpgrade),
        1 => some.clone().prop_map(Event::Split),
        1 => (some.clone(), 10u64..LONGEST).prop_map(|(nth, millis)| Event::Extend(nth, millis)),
        1 => some.clone().prop_map(Event::Forget),
        16 => (some.clone(), answer(faults)).prop_map(|(nth, answer)| Event::Answer(nth, answer)),
        4 => some.clone().prop_map(Event::Delay),
        3 => prop::bool::weighted(0.85).prop_map(Event::Watch),
        6 => some.clone().prop_map(Event::Deliver),
        1 => some.clone().prop_map(Event::Lose),
        3 => (some.clone(), some.clone()).prop_map(|(nth, want)| Event::RivalAsks(nth, want)),
        3 => some.prop_map(Event::RivalLeaves),
        4 => prop_oneof![0u64..50, 0u64..4_000].prop_map(Event::Advance),
        1 => (0u64..2_000).prop_map(Event::Sleep),
        8 => Just(Event::TakeRelease),
        2 => Just(Event::Query),
        10 => Just(Event::Run),
    ]
}

pub(super) fn wants() -> impl Strategy<Value = Vec<Mode>> {
    let permits = |take| Mode::Permits { take, of: OF };
    let joint = |n| Mode::Joint { group: OwnerToken::from_bytes([n; 16]) };
    prop_oneof![
        3 => Just(vec![Mode::Shared, Mode::Exclusive, Mode::Upgradable, Mode::Shared]),
        2 => Just(vec![permits(1), permits(2), permits(1), permits(3)]),
        1 => Just(vec![permits(1)]),
        1 => Just(vec![joint(1)]),
        1 => Just(vec![Mode::Exclusive, permits(1), Mode::Shared]),
    ]
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let limit = || proptest::option::weighted(0.2, 0u64..6_000);
    (prop::bool::weighted(0.8), limit(), limit()).prop_map(|(renew, max_hold, outage)| Policy {
        ttl: Ttl::new(TTL).unwrap(),
        renew,
        max_hold: max_hold.map(|millis| Duration::from_millis(millis + 1)),
        outage_limit: outage.map(Duration::from_millis),
        converts: true,
        label: None,
    })
}

/// The modes that callers want of a store that does not convert leases.
pub(super) fn fixed_wants() -> impl Strategy<Value = Vec<Mode>> {
    let (read, write) = (Mode::Shared, Mode::Exclusive);
    prop_oneof![Just(vec![read, write, read]), Just(vec![write, write, read])]
}

pub(super) fn manner() -> impl Strategy<Value = Manner> {
    let handoff = prop_oneof![
        2 => Just(Handoff::default()),
        1 => Just(Handoff::Fair),
        1 => Just(Handoff::Never),
    ];
    let cache = proptest::option::weighted(0.3, (1u64..3_000).prop_map(Duration::from_millis));
    (handoff, cache).prop_map(|(handoff, cache)| Manner::new(handoff).with_cache(cache))
}
