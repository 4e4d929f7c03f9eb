//! Histories written by hand, for the tests of the checkers. Times are in milliseconds.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use crate::chaos::history::{Deed, Event, Op, Patience, Refusal, Way};

/// How long operations wait by default.
pub(super) const PATIENCE: Patience = Patience::Within(Duration::from_secs(10));

/// This many milliseconds after the beginning.
pub(super) fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// A history that is being written.
#[derive(Debug, Default)]
pub(super) struct Scene {
    events: Vec<Event>,
    next: HashMap<&'static str, Op>,
}

/// An operation in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Id(&'static str, Op);

impl Scene {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// In the order of times.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(super) fn event(&mut self, client: &str, millis: u64, deed: Deed) {
        let place = self.events.partition_point(|event| event.at <= at(millis));
        self.events.insert(place, Event { at: at(millis), client: client.to_owned(), deed });
    }

    pub(super) fn says(&mut self, id: Id, millis: u64, deed: impl FnOnce(Op) -> Deed) {
        self.event(id.0, millis, deed(id.1));
    }

    pub(super) fn asks(&mut self, client: &'static str, key: &str, way: Way, when: u64) -> Id {
        self.waits(client, key, way, PATIENCE, when)
    }

    pub(super) fn tries(&mut self, client: &'static str, key: &str, way: Way, when: u64) -> Id {
        self.waits(client, key, way, Patience::None, when)
    }

    /// It asks, and may wait this long.
    pub(super) fn waits(
        &mut self,
        client: &'static str,
        key: &str,
        way: Way,
        patience: Patience,
        when: u64,
    ) -> Id {
        let next = self.next.entry(client).or_default();
        let id = Id(client, *next);
        *next += 1;
        let (task, key) = (id.1 as u32, key.to_owned());
        self.says(id, when, |op| Deed::Ask { op, task, key, way, patience });
        id
    }

    /// It asks for several locks in one call.
    pub(super) fn asks_for_all(
        &mut self,
        client: &'static str,
        keys: &[&str],
        when: u64,
    ) -> Vec<Id> {
        let task = *self.next.entry(client).or_default() as u32;
        let way = Way::Write;
        let one = |key: &&str| {
            let next = self.next.entry(client).or_default();
            let id = Id(client, *next);
            *next += 1;
            let key = (*key).to_owned();
            self.says(id, when, |op| Deed::Ask { op, task, key, way, patience: PATIENCE });
            id
        };
        keys.iter().map(one).collect()
    }

    /// It gets its lock.
    pub(super) fn gets(&mut self, id: Id, token: u64, when: u64, valid: u64) {
        let token = FencingToken::new(token);
        self.says(id, when, |op| Deed::Got { op, token, valid_until: at(valid) });
    }

    /// An operation that asks and is granted at these times.
    pub(super) fn had(
        &mut self,
        client: &'static str,
        key: &str,
        way: Way,
        token: u64,
        [asks, gets]: [u64; 2],
        valid: u64,
    ) -> Id {
        let id = self.asks(client, key, way, asks);
        self.gets(id, token, gets, valid);
        id
    }

    /// It releases, and has left a millisecond later.
    pub(super) fn leaves(&mut self, id: Id, when: u64, valid: u64) {
        self.says(id, when, |op| Deed::Leave { op, valid_until: at(valid) });
        self.says(id, when + 1, |op| Deed::Left { op, confirmed: true, why: None });
    }

    /// An operation that asks, is granted and leaves at these times, while its lease lives.
    pub(super) fn held(
        &mut self,
        client: &'static str,
        key: &str,
        way: Way,
        token: u64,
        [asks, gets, leaves]: [u64; 3],
    ) -> Id {
        let id = self.had(client, key, way, token, [asks, gets], leaves + 1_000);
        self.leaves(id, leaves, leaves + 1_000);
        id
    }

    /// It ends without a lock.
    pub(super) fn fails(&mut self, id: Id, when: u64, why: Refusal) {
        self.says(id, when, |op| Deed::Not { op, why });
    }

    /// Its conversion succeeds.
    pub(super) fn turns(
        &mut self,
        id: Id,
        way: Way,
        [asks, has]: [u64; 2],
        token: u64,
        valid: u64,
    ) {
        let (token, valid_until) = (FencingToken::new(token), at(valid));
        self.turn(id, way, asks, valid);
        self.says(id, has, |op| Deed::Turned { op, token, valid_until });
    }

    /// It requests a conversion.
    pub(super) fn turn(&mut self, id: Id, way: Way, asks: u64, valid: u64) {
        self.turns_within(id, way, PATIENCE, asks, valid);
    }

    /// As above, and it may wait this long.
    pub(super) fn turns_within(
        &mut self,
        id: Id,
        way: Way,
        patience: Patience,
        asks: u64,
        valid: u64,
    ) {
        let valid_until = at(valid);
        self.says(id, asks, |op| Deed::Turn { op, way, patience, valid_until });
    }
}
