//! A waiter that could be served is served soon.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use lock_core::Instant;

use super::limits::Limit;
use super::operations::{End, Operation, Operations, Together};
use super::permits::changes;
use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::{Event, Way};

/// Goes through the waiters and the possible holders of a lock, and looks for times in which all waiters could
/// be served at once, but one of them waits for longer than it takes to notice that. While nothing is wrong,
/// the limit is below any timer: no timer makes up for a lost message.
pub(super) fn check(operations: &Operations, events: &[Event], terms: &Terms) -> Vec<Violation> {
    let times = [(terms.unrest(Property::Wakeups), terms.wakeup), (terms.disquiet(), terms.prompt)];
    let together = operations.together();
    let mut changes = changes(events);
    let mut violations = Vec::new();
    for (key, list) in operations.by_key() {
        let changes = changes.remove(key).unwrap_or_default();
        let permits = terms.limits.get(key).map(|&first| Limit::of(first, &changes, terms).least);
        let mut told = HashSet::new();
        for (unrest, most) in &times {
            let steps = steps(operations, (key, &list), &together, (terms, unrest));
            let (room, waiting) = (Room::new(permits), BTreeSet::new());
            let sweep = Sweep { list: &list, room, waiting, free: None };
            let mut late = sweep.run(steps, *most);
            late.retain(|(operation, ..)| told.insert((operation.client, operation.number)));
            violations.extend(late.into_iter().map(|(operation, from, until)| {
                let noticed = from + *most;
                let name = operations.name(operation);
                let text = format!(
                    "no task was in the way from {} to {}, but it was not served: {name}",
                    from.as_nanos(),
                    until.as_nanos()
                );
                Violation::new(Property::Wakeups, (noticed, noticed), key, text)
            }));
        }
    }
    violations
}

/// The events that may change whether a waiter can be served.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A task of the list of pieces may hold it, or no longer holds it.
    Holds(Rank),
    Leaves(Rank),
    /// An operation of the list begins to wait, or ends.
    Waits(usize),
    Ends(usize),
    /// The promise does not hold, or holds again.
    Unrest,
    Rest,
}

/// A way that can be ordered, so that steps can.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u8, u64);

impl Rank {
    fn of(way: Way) -> Self {
        match way {
            Way::Read => Self(0, 0),
            Way::Upgradable => Self(1, 0),
            Way::Write => Self(2, 0),
            Way::Owner(owner) => Self(3, owner),
            Way::Permits(count) => Self(4, count.into()),
        }
    }
}

fn steps(
    operations: &Operations,
    (key, list): (&str, &[&Operation]),
    together: &Together<'_>,
    (terms, unrest): (&Terms, &Unrest),
) -> Vec<(Instant, Step)> {
    let mut steps = Vec::new();
    let mut holds = |way: Way, from: Instant, until: Instant| {
        if from < until {
            steps.push((from, Step::Holds(Rank::of(way))));
            steps.push((until, Step::Leaves(Rank::of(way))));
        }
    };
    for operation in list {
        let pieces = operations.possible(operation, terms, unrest);
        pieces.into_iter().for_each(|(way, from, until)| holds(way, from, until));
        let without = operations.without_until(operation);
        // A call for several locks may have this one, and wait for a later one.
        let may_have = together.last_of(operation).is_some_and(|last| last != key);
        // A store does nothing for a try that it refuses.
        let in_passing =
            operation.tries() && !(operation.is_busy() && terms.deployment.minority() == 0);
        if in_passing || may_have {
            holds(operation.way, operation.asked, without);
        }
        if operation.spans.is_empty() {
            let until = operations.possibly_until(operation, terms, unrest);
            holds(operation.way, without, until);
        }
    }
    // It is unknown for which of its locks a call for several waits.
    let waits = |it: &Operation| !it.tries() && together.last_of(it).is_none();
    for (number, operation) in list.iter().enumerate().filter(|(_, it)| waits(it)) {
        steps.push((operation.asked, Step::Waits(number)));
        let dies = operation.end == End::Gone && operation.spans.is_empty();
        let until = operations.without_until(operation);
        // A waiter is there until it is served, ends, or its client's last event.
        steps.push((if dies { until.max(operation.asked) } else { until }, Step::Ends(number)));
    }
    for &(begin, end) in unrest.times() {
        steps.push((begin, Step::Unrest));
        steps.push((end, Step::Rest));
    }
    steps.sort_unstable();
    steps
}

/// The waiters and the holders.
struct Sweep<'a> {
    list: &'a [&'a Operation],
    room: Room,
    /// The waiters, by the time of their requests.
    waiting: BTreeSet<(Instant, usize)>,
    /// Since when all of them could be served.
    free: Option<Instant>,
}

impl<'a> Sweep<'a> {
    /// The waiter that waited too long although it could have been served, from when, to when.
    fn run(
        mut self,
        steps: Vec<(Instant, Step)>,
        most: Duration,
    ) -> Vec<(&'a Operation, Instant, Instant)> {
        let mut found = Vec::new();
        let mut told = BTreeSet::new();
        for (at, step) in steps {
            let too_long = |number: usize, free: Instant| {
                let from = free.max(self.list[number].asked);
                (at.saturating_duration_since(from) > most).then_some((self.list[number], from, at))
            };
            let before = self.free;
            // One ends, or all have to wait again: then the longest waiter is reported.
            let looked_at = match step {
                Step::Ends(number) => Some(number),
                _ => self.waiting.first().map(|&(_, number)| number),
            };
            let late = looked_at
                .zip(before)
                .and_then(|(number, free)| Some((number, too_long(number, free)?)));
            match step {
                Step::Holds(way) => self.room.enter(way, 1),
                Step::Leaves(way) => self.room.enter(way, -1),
                Step::Unrest => self.room.unrest += 1,
                Step::Rest => self.room.unrest -= 1,
                Step::Waits(number) => {
                    self.waiting.insert((self.list[number].asked, number));
                    self.room.wants(Rank::of(self.list[number].way), 1);
                }
                Step::Ends(number) => {
                    self.waiting.remove(&(self.list[number].asked, number));
                    self.room.wants(Rank::of(self.list[number].way), -1);
                }
            }
            self.free = self.room.serves_all().then(|| before.unwrap_or(at));
            if let Some((number, late)) = late
                && (self.free.is_none() || matches!(step, Step::Ends(_)))
                && told.insert(number)
            {
                found.push(late);
            }
        }
        found
    }
}

/// How many hold a lock in which way, and how many want it.
struct Room {
    holds: [i64; 5],
    wants: [i64; 5],
    /// The number of holds of each owner.
    owners: HashMap<u64, i64>,
    /// The number of permits that are taken, and that are wanted at once, and by how many.
    taken: i64,
    wanted: BTreeMap<u64, i64>,
    permits: Option<u32>,
    unrest: i64,
}

impl Room {
    fn new(permits: Option<u32>) -> Self {
        let (owners, wanted) = (HashMap::new(), BTreeMap::new());
        Self { holds: [0; 5], wants: [0; 5], owners, taken: 0, wanted, permits, unrest: 0 }
    }

    fn enter(&mut self, Rank(kind, number): Rank, one: i64) {
        self.holds[usize::from(kind)] += one;
        match kind {
            3 => *self.owners.entry(number).or_default() += one,
            4 => self.taken += one * number as i64,
            _ => {}
        }
    }

    fn wants(&mut self, Rank(kind, number): Rank, one: i64) {
        self.wants[usize::from(kind)] += one;
        if kind == 4 {
            let count = self.wanted.entry(number).or_default();
            *count += one;
            if *count == 0 {
                self.wanted.remove(&number);
            }
        }
    }

    /// Whether a task waits, and the first waiter could be served.
    fn serves_all(&self) -> bool {
        let [reads, upgrades, writes, owned, _] = self.holds;
        let [readers, upgradable, writers, owners, permits] = self.wants;
        let most = self.wanted.last_key_value().map_or(0, |(&most, _)| most as i64);
        let room = self.permits.map_or(0, i64::from) - self.taken;
        let alone = reads + upgrades + writes + owned == 0;
        self.unrest == 0
            && readers + upgradable + writers + owners + permits > 0
            && (readers == 0 || writes + owned == 0)
            && (upgradable == 0 || upgrades + writes + owned == 0)
            && (writers == 0 || alone)
            && (owners == 0 || alone)
            && (permits == 0 || most <= room)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::{Deed, Refusal};
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms() -> Terms {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.wakeup = Duration::from_millis(500);
        terms
    }

    fn found(scene: &Scene, terms: &Terms) -> usize {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        check(&operations, scene.events(), terms).len()
    }

    /// One holds, another waits for it, and gets it this long after it is free.
    fn passes(way: Way, next: Way, after: u64) -> Scene {
        let mut scene = Scene::new();
        scene.held("a", "w0", way, 1, [0, 1, 2_000]);
        scene.held("b", "w0", next, 2, [10, 2_001 + after, 2_010 + after]);
        scene
    }

    #[test]
    fn a_waiter_behind_an_incompatible_holder_is_not_late() {
        assert_eq!(found(&passes(Way::Write, Way::Write, 499), &terms()), 0);
        assert_eq!(found(&passes(Way::Write, Way::Write, 600), &terms()), 1);
        assert_eq!(found(&passes(Way::Read, Way::Write, 600), &terms()), 1);
    }

    #[test]
    fn a_waiter_behind_a_compatible_holder_is_late() {
        assert_eq!(found(&passes(Way::Read, Way::Read, 0), &terms()), 1);
        assert_eq!(found(&passes(Way::Upgradable, Way::Read, 0), &terms()), 1);
        assert_eq!(found(&passes(Way::Upgradable, Way::Upgradable, 0), &terms()), 0);
        // An earlier writer holds it back.
        let mut scene = passes(Way::Read, Way::Read, 20);
        scene.held("c", "w0", Way::Write, 2, [5, 2_005, 2_010]);
        assert_eq!(found(&scene, &terms()), 0);
    }

    #[test]
    fn a_waiter_that_is_never_served_is_seen_among_others_that_are() {
        let mut scene = Scene::new();
        let _forgotten = scene.asks("a", "m0", Way::Write, 10);
        scene.event("a", 3_000, Deed::Late { millis: 0 });
        for begin in [0, 1_000, 2_000] {
            scene.held("b", "m0", Way::Write, 1 + begin, [begin, begin + 1, begin + 100]);
        }
        assert_eq!(found(&scene, &terms()), 1);
    }

    #[test]
    fn a_waiter_for_free_permits_is_late() {
        let mut scene = Scene::new();
        scene.held("a", "s0", Way::Permits(2), 1, [0, 1, 2_000]);
        scene.held("b", "s0", Way::Permits(2), 1, [10, 2_010, 2_020]);
        assert_eq!(found(&scene, &terms()), 0);
        scene.held("c", "s1", Way::Permits(1), 1, [10, 700, 800]);
        assert_eq!(found(&scene, &terms()), 1);
        let mut scene = Scene::new();
        scene.held("a", "s0", Way::Permits(2), 1, [0, 1, 2_000]);
        scene.held("b", "s0", Way::Permits(1), 1, [10, 900, 2_020]);
        assert_eq!(found(&scene, &terms()), 1);
    }

    #[test]
    fn an_unknown_claim_may_be_in_the_way_for_a_while() {
        let mut scene = Scene::new();
        let given_up = scene.asks("a", "m0", Way::Write, 0);
        scene.fails(given_up, 1_000, Refusal::GivenUp);
        scene.held("b", "m0", Way::Write, 1, [900, 1_690, 1_700]);
        assert_eq!(found(&scene, &terms()), 1);
        let mut scene = Scene::new();
        let given_up = scene.asks("a", "m0", Way::Write, 900);
        scene.fails(given_up, 1_000, Refusal::GivenUp);
        scene.held("b", "m0", Way::Write, 1, [950, 1_650, 1_700]);
        assert_eq!(found(&scene, &terms()), 0);
        // A dead client may have had it, for as long as its lease lives.
        let mut scene = Scene::new();
        scene.had("a", "m0", Way::Write, 1, [0, 1], 900);
        scene.held("b", "m0", Way::Write, 2, [5, 1_900, 1_910]);
        assert_eq!(found(&scene, &terms()), 0);
        scene.held("c", "m0", Way::Write, 3, [1_905, 3_500, 3_600]);
        assert_eq!(found(&scene, &terms()), 1);
    }

    #[test]
    fn nothing_is_demanded_while_a_server_is_away() {
        let mut terms = terms();
        let (fault, extent, servers) = (Fault::StopServer, Extent::Majority, vec![0]);
        terms.troubles = vec![Trouble {
            fault,
            extent,
            servers,
            workers: vec![],
            begin: at(2_000),
            end: at(4_000),
        }];
        let scene = passes(Way::Write, Way::Write, 2_500);
        assert_eq!(found(&scene, &terms), 0);
        let mut late = passes(Way::Write, Way::Write, 2_500);
        late.held("b", "m0", Way::Write, 9, [2_100, 12_000, 12_001]);
        assert_eq!(found(&late, &terms), 1);
    }

    #[test]
    fn while_nothing_is_wrong_no_timer_may_have_to_help() {
        let late = |when| {
            let mut scene = Scene::new();
            scene.held("a", "m0", Way::Write, 1, [0, 1, 100]);
            scene.held("b", "m0", Way::Write, 2, [50, when, when + 1]);
            scene
        };
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let (prompt, asks) = (terms.prompt.as_millis() as u64, terms.wakeup.as_millis() as u64);
        assert!(prompt < 1_000 && prompt < asks);
        assert_eq!(found(&late(101 + prompt - 10), &terms), 0);
        assert_eq!(found(&late(101 + prompt + 10), &terms), 1);
        // A quorum can do without this minority, but not without a delay.
        let (fault, extent, servers) = (Fault::StopServer, Extent::Minority, vec![0]);
        terms.deployment = Deployment::Quorum(3);
        terms.troubles =
            vec![Trouble { fault, extent, servers, workers: vec![], begin: at(20), end: at(30) }];
        assert_eq!(found(&late(101 + prompt + 10), &terms), 0);
        assert_eq!(found(&late(101 + asks + 10), &terms), 1);
    }

    #[test]
    fn a_call_for_several_waits_for_one_after_another() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 1, 5_000]);
        let both = scene.asks_for_all("b", &["m0", "m1"], 10);
        for (id, token) in both.into_iter().zip([2, 1]) {
            scene.gets(id, token, 5_002, 9_000);
            scene.leaves(id, 5_010, 9_000);
        }
        assert_eq!(found(&scene, &terms()), 0);
        // It may have had the first while it waited for the second, so that others waited for it.
        let mut scene = Scene::new();
        scene.held("a", "m1", Way::Write, 1, [0, 1, 5_000]);
        let both = scene.asks_for_all("b", &["m0", "m1"], 10);
        scene.held("c", "m0", Way::Write, 3, [20, 5_020, 5_030]);
        for (id, token) in both.into_iter().zip([2, 2]) {
            scene.gets(id, token, 5_002, 9_000);
            scene.leaves(id, 5_010, 9_000);
        }
        assert_eq!(found(&scene, &terms()), 0);
    }
}
