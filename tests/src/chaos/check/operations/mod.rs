//! Operations, made from events again.
//!
//! A client *certainly* holds a lock from when it heard of the grant to the first of these: when it released,
//! the end of its lease as it last knew it, or when it heard that the lease is lost. If it died, to its last
//! event about the hold. The store may hold the lock *for* it longer: until a release is confirmed, until a
//! request that was given up is undone, or until the lease has certainly ended.

mod reading;

use std::collections::{HashMap, HashSet};
use std::fmt;

use lock_core::{FencingToken, Instant};

use super::Violation;
use super::terms::Terms;
use super::unrest::Unrest;
use crate::chaos::history::{Event, Op, Patience, Refusal, Way};

/// One operation, from the request to the end.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    /// Its client: a number for the name.
    pub(super) client: usize,
    pub(super) number: Op,
    pub(super) task: u32,
    /// Its lock: a number for the name.
    pub(super) key: usize,
    /// The requested way.
    pub(super) way: Way,
    /// How long it may wait for the grant.
    pub(super) patience: Patience,
    pub(super) asked: Instant,
    /// The ways of its holds, in order. Empty if it was never granted.
    pub(super) spans: Vec<Span>,
    /// The conversions that failed, in order.
    pub(super) kept: Vec<Kept>,
    /// When it was about to release.
    pub(super) leaves: Option<Instant>,
    pub(super) end: End,
    /// When it ended, or the last event of it.
    pub(super) ended: Instant,
    /// Until when its hold is valid, as far as it knew last.
    valid_until: Instant,
    /// It has released, or heard that its lease is lost: no later event proves a hold.
    over: bool,
}

/// A time in which a lock is held in one way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The way of the certain hold: during a conversion, the weaker of both.
    pub(super) way: Way,
    /// The way in which the store may hold it: during a conversion, the stronger of both.
    pub(super) at_most: Way,
    pub(super) token: FencingToken,
    /// When this way was requested.
    pub(super) asked: Instant,
    pub(super) from: Instant,
    /// The end of the certain hold.
    pub(super) until: Instant,
    /// The conversion under way, if there is one, and how long it may wait.
    pub(super) becomes: Option<(Way, Patience)>,
}

/// A conversion that failed.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The requested way.
    pub(super) way: Way,
    /// How long it may wait for that.
    pub(super) patience: Patience,
    pub(super) asked: Instant,
    pub(super) ended: Instant,
    pub(super) why: Refusal,
}

/// How an operation has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Without a lock.
    Refused(Refusal),
    /// It released, and knows whether the store has confirmed that; and the other answer of the release.
    Left { confirmed: bool, why: Option<Refusal> },
    /// It was forgotten.
    Forgot,
    /// Its tasks were ended wherever they were.
    Collapsed,
    /// Unknown: its client died, or the run was over.
    Gone,
}

/// All operations of a run.
#[derive(Debug)]
pub(super) struct Operations {
    pub(super) all: Vec<Operation>,
    clients: Vec<String>,
    keys: Vec<String>,
    /// The last event of each client.
    last: Vec<Instant>,
    /// The locks, and the tokens, of the writers that became weaker. Readers with such a token share the lease of the
    /// writer.
    downgraded: HashSet<(usize, FencingToken)>,
}

impl Span {
    pub(super) fn is_empty(&self) -> bool {
        self.until <= self.from
    }
}

impl Operation {
    /// When its lease was requested, and when it was granted at the latest. A conversion may have brought another one.
    pub(super) fn lease(&self) -> (Instant, Instant) {
        (self.asked, self.spans.last().map_or(self.ended, |span| span.from))
    }

    /// Whether it is a try, which waits for no other task.
    pub(super) fn tries(&self) -> bool {
        self.patience.tries()
    }

    /// When it was granted.
    pub(super) fn got(&self) -> Option<Instant> {
        self.spans.first().map(|span| span.from)
    }

    /// Whether it was a try that was refused: its claim has come to nothing, so nothing has to be undone.
    pub(super) fn is_busy(&self) -> bool {
        self.end == End::Refused(Refusal::Busy)
    }

    /// Its certain holds, each in one way.
    pub(super) fn certain(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| !span.is_empty())
    }
}

impl Operations {
    /// The operations of a history, and its events that make no sense.
    pub(super) fn of(events: &[Event]) -> (Self, Vec<Violation>) {
        let mut reader = reading::Reader::default();
        events.iter().for_each(|event| reader.read(event));
        reader.finish()
    }

    pub(super) fn key(&self, operation: &Operation) -> &str {
        &self.keys[operation.key]
    }

    pub(super) fn client(&self, operation: &Operation) -> &str {
        &self.clients[operation.client]
    }

    pub(super) fn client_names(&self) -> &[String] {
        &self.clients
    }

    /// The last event of a client.
    pub(super) fn last_of(&self, client: usize) -> Instant {
        self.last[client]
    }

    /// Until when it was without its lock, while its client was alive.
    pub(super) fn without_until(&self, operation: &Operation) -> Instant {
        match (operation.got(), &operation.end) {
            (Some(got), _) => got,
            (None, End::Gone) => self.last_of(operation.client),
            (None, _) => operation.ended,
        }
    }

    /// The number of operations that were granted.
    pub(super) fn held(&self) -> usize {
        self.all.iter().filter(|operation| !operation.spans.is_empty()).count()
    }

    /// The operations of each lock.
    pub(super) fn by_key(&self) -> impl Iterator<Item = (&str, Vec<&Operation>)> {
        let mut lists = vec![Vec::new(); self.keys.len()];
        self.all.iter().for_each(|operation| lists[operation.key].push(operation));
        self.keys.iter().map(String::as_str).zip(lists)
    }

    /// The operations of one call: it waits for one lock after the other, by their names, and holds the earlier
    /// ones. For each such call, the last operation.
    pub(super) fn together(&self) -> Together<'_> {
        let mut calls = HashMap::<_, (usize, &str)>::new();
        for operation in &self.all {
            let (count, last) = calls.entry(Together::call(operation)).or_default();
            *count += 1;
            *last = (*last).max(self.key(operation));
        }
        calls.retain(|_, (count, _)| *count > 1);
        Together(calls.into_iter().map(|(call, (_, last))| (call, last)).collect())
    }

    /// Its name in the files.
    pub(super) fn name(&self, operation: &Operation) -> Name {
        Name {
            client: self.client(operation).to_owned(),
            number: operation.number,
            task: operation.task,
            way: operation.way,
            asked: operation.asked,
            spans: operation.spans.clone(),
        }
    }

    /// Until when the store may hold something for it.
    pub(super) fn possibly_until(
        &self,
        operation: &Operation,
        terms: &Terms,
        unrest: &Unrest,
    ) -> Instant {
        let ended = operation.ended;
        match operation.end {
            End::Left { confirmed: true, .. } => ended,
            End::Left { confirmed: false, .. } | End::Refused(_) | End::Collapsed => {
                terms.undone(ended, unrest)
            }
            End::Forgot => Instant::FAR_FUTURE,
            End::Gone => {
                let last = self.last_of(operation.client) + terms.lingers();
                last.max(operation.valid_until + terms.slack)
            }
        }
    }

    /// The ways in which the store may hold the lock for a granted operation, with begin and end.
    pub(super) fn possible(
        &self,
        operation: &Operation,
        terms: &Terms,
        unrest: &Unrest,
    ) -> Vec<(Way, Instant, Instant)> {
        let last = self.possibly_until(operation, terms, unrest);
        let ends = operation.spans.iter().skip(1).map(|span| span.from).chain([last]);
        let stays_exclusive = |span: &Span| {
            let shares = self.downgraded.contains(&(operation.key, span.token));
            shares && !terms.deployment.converts()
        };
        operation
            .spans
            .iter()
            .zip(ends)
            .map(|(span, end)| {
                let end = match span.becomes {
                    None => end,
                    // A hold that becomes weaker may do so in the store a moment later.
                    Some(_) if terms.deployment.converts() => (end + terms.undo).min(last),
                    Some(_) => last,
                };
                let way = if stays_exclusive(span) { Way::Write } else { span.at_most };
                (way, span.from, end)
            })
            .collect()
    }
}

/// The calls for several locks: by client, task and time, with the lock that each waits for last.
#[derive(Debug)]
pub(super) struct Together<'a>(HashMap<(usize, u32, Instant), &'a str>);

impl<'a> Together<'a> {
    /// The lock that the call of this operation waits for last, if it asks for several.
    pub(super) fn last_of(&self, operation: &Operation) -> Option<&'a str> {
        self.0.get(&Self::call(operation)).copied()
    }

    fn call(operation: &Operation) -> (usize, u32, Instant) {
        (operation.client, operation.task, operation.asked)
    }
}

/// The name of an operation in reports.
#[derive(Debug)]
pub(super) struct Name {
    client: String,
    number: Op,
    task: u32,
    way: Way,
    asked: Instant,
    spans: Vec<Span>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, number, task, way, asked, spans } = self;
        write!(f, "{client} op {number} (task {task}, {way}, asked {}", asked.as_nanos())?;
        for Span { way, token, from, until, .. } in spans {
            let (from, until) = (from.as_nanos(), until.as_nanos());
            write!(f, "; {way} with {} from {from} to {until}", token.get())?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::Deployment;
    use crate::chaos::history::Deed;

    fn spans(scene: &Scene) -> Vec<(Way, u64, u64)> {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        let spans = operations.all.iter().flat_map(|operation| operation.certain());
        spans
            .map(|s| (s.way, s.from.as_nanos() / 1_000_000, s.until.as_nanos() / 1_000_000))
            .collect()
    }

    #[test]
    fn a_hold_ends_with_its_lease_when_it_is_lost_or_when_it_is_let_go() {
        let mut scene = Scene::new();
        let one = scene.had("a", "m0", Way::Write, 1, [10, 11], 100);
        scene.leaves(one, 50, 120);
        let lease_over = scene.had("a", "m0", Way::Write, 2, [60, 61], 100);
        scene.leaves(lease_over, 150, 130);
        let told = scene.had("a", "m0", Way::Write, 3, [200, 201], 300);
        scene.says(told, 240, |op| Deed::Lost { op });
        scene.leaves(told, 250, 300);
        let dies = scene.had("b", "m0", Way::Write, 4, [300, 301], 400);
        scene.says(dies, 390, |op| Deed::Still { op, valid_until: at(420) });
        let held = [(11, 50), (61, 130), (201, 240), (301, 390)];
        assert_eq!(spans(&scene), held.map(|(from, until)| (Way::Write, from, until)));
    }

    #[test]
    fn what_becomes_another_is_the_weaker_of_both_until_it_is_that() {
        let mut scene = Scene::new();
        let it = scene.had("a", "w0", Way::Upgradable, 1, [0, 1], 100);
        scene.turns(it, Way::Write, [10, 20], 2, 110);
        scene.turns(it, Way::Read, [30, 31], 2, 110);
        scene.leaves(it, 40, 140);
        let seen = [
            (Way::Upgradable, 1, 10),
            (Way::Upgradable, 10, 20),
            (Way::Write, 20, 30),
            (Way::Read, 30, 31),
            (Way::Read, 31, 40),
        ];
        assert_eq!(spans(&scene), seen);
    }

    #[test]
    fn what_becomes_weaker_stays_strong_for_a_moment_and_over_a_quorum_to_its_end() {
        let mut scene = Scene::new();
        let it = scene.had("a", "w0", Way::Write, 1, [0, 1], 9_000);
        scene.turns(it, Way::Read, [20, 21], 1, 9_000);
        scene.leaves(it, 5_000, 9_000);
        let (operations, _) = Operations::of(scene.events());
        let strong = |deployment| {
            let terms = Terms::new(deployment, Duration::from_secs(9));
            let pieces = operations.possible(&operations.all[0], &terms, &Unrest::of(Vec::new()));
            pieces.iter().filter(|(way, ..)| *way == Way::Write).map(|(.., end)| *end).max()
        };
        assert_eq!(strong(Deployment::Redis), Some(at(21) + Duration::from_millis(200)));
        assert!(strong(Deployment::Quorum(3)) >= Some(at(5_000)));
    }

    /// As over a quorum: the exclusive lease of a downgraded writer admits readers of its process.
    #[test]
    fn a_reader_that_joins_a_downgraded_writer_keeps_readers_of_other_processes_out() {
        let mut scene = Scene::new();
        let writer = scene.had("a", "w0", Way::Write, 1, [0, 1], 9_000);
        scene.turns(writer, Way::Read, [20, 21], 1, 9_000);
        scene.held("a", "w0", Way::Read, 1, [22, 23, 5_000]);
        scene.held("b", "w0", Way::Read, 2, [24, 5_001, 5_002]);
        scene.leaves(writer, 30, 9_000);
        let (operations, _) = Operations::of(scene.events());
        let ways = |deployment, number: usize| {
            let terms = Terms::new(deployment, Duration::from_secs(9));
            let held = &operations.all[number];
            let pieces = operations.possible(held, &terms, &Unrest::of(Vec::new()));
            pieces.into_iter().map(|(way, ..)| way).collect::<Vec<_>>()
        };
        assert_eq!(ways(Deployment::Redis, 1), [Way::Read]);
        assert_eq!(ways(Deployment::Quorum(3), 1), [Way::Write]);
        assert_eq!(ways(Deployment::Quorum(3), 2), [Way::Read]);
    }

    #[test]
    fn what_does_not_become_another_stays_or_is_over() {
        let mut scene = Scene::new();
        let stays = scene.had("a", "w0", Way::Upgradable, 1, [0, 1], 100);
        scene.turn(stays, Way::Write, 10, 100);
        scene.says(stays, 20, |op| Deed::Kept { op, why: Refusal::Busy });
        scene.leaves(stays, 30, 100);
        let over = scene.had("a", "w0", Way::Upgradable, 2, [40, 41], 100);
        scene.turn(over, Way::Write, 50, 100);
        scene.says(over, 60, |op| Deed::Left { op, confirmed: false, why: None });
        let up = Way::Upgradable;
        assert_eq!(spans(&scene), [(up, 1, 10), (up, 10, 20), (up, 20, 30), (up, 41, 50)]);
    }

    #[test]
    fn a_collapse_ends_all_that_a_client_has() {
        let mut scene = Scene::new();
        scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.asks("a", "m1", Way::Write, 2);
        scene.event("a", 30, Deed::Collapse);
        scene.had("b", "m0", Way::Write, 2, [40, 41], 100);
        let (operations, _) = Operations::of(scene.events());
        let ends: Vec<_> = operations.all.iter().map(|operation| operation.end.clone()).collect();
        assert_eq!(ends, [End::Collapsed, End::Collapsed, End::Gone]);
        assert_eq!(spans(&scene)[0], (Way::Write, 1, 30));
    }

    #[test]
    fn events_that_make_no_sense_are_told() {
        let mut scene = Scene::new();
        let it = scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.leaves(it, 10, 100);
        scene.says(it, 20, |op| Deed::Lost { op });
        let again = scene.had("a", "m0", Way::Write, 1, [30, 31], 100);
        scene.says(again, 40, |op| Deed::Kept { op, why: Refusal::Busy });
        let (_, odd) = Operations::of(scene.events());
        let texts: Vec<_> = odd.iter().map(|v| v.text.split(':').next().unwrap()).collect();
        assert_eq!(texts, ["there is no such operation", "it was not becoming anything"]);
    }
}
