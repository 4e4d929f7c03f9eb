//! Tokens increase.
//!
//! - A writer's token is above all that were held before it; a sharer's token is no lower than that of any
//!   earlier writer. Readers among themselves have no order.
//! - An owner's is above all of other owners before it, and no lower than its own before.
//! - A permit's is above all that were granted before its lease was asked for, unless the number of permits was
//!   changed. A process passes the permits of a lease on, so the check takes the first that each process had: no
//!   lease of that process can be older.
//! - No two writers, no two owners and no two acquisitions of permits have the same. Each slot has tokens of its own, so
//!   two slots that are taken at one time may have one token.
//!
//! Of two holds that exclude each other and were both certain, the one that was seen first came first. Of others,
//! the one that was granted before the request of the other.

use std::collections::{HashMap, HashSet};

use lock_core::{FencingToken, Instant};

use super::operations::{Operation, Operations};
use super::permits::changes;
use super::terms::Terms;
use super::{Property, Violation};
use crate::chaos::history::{Event, Way};

pub(super) fn check(operations: &Operations, events: &[Event], terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    let changed = changes(events);
    for (key, list) in operations.by_key() {
        let are_slots = terms.unordered.contains(key);
        let ordered = !changed.contains_key(key) && !are_slots;
        let mut shown: Vec<Shown<'_>> =
            list.iter().flat_map(|operation| shown(operation)).collect();
        let mut twice = twice(&mut shown);
        twice.retain(|(one, (other, _), _)| !are_slots || !overlap(one, other));
        if !ordered {
            shown.retain(|one| !one.is_permit());
        }
        let wrong = order(&mut shown).into_iter().chain(twice);
        violations.extend(wrong.map(|(before, after, what)| {
            let (first, second) = (operations.name(before), operations.name(after.0));
            let times = (after.1, after.1);
            Violation::new(Property::Tokens, times, key, format!("{what}: {first}, then {second}"))
        }));
    }
    violations
}

/// A token that a task was given.
#[derive(Clone, Copy)]
struct Shown<'a> {
    operation: &'a Operation,
    way: Way,
    token: FencingToken,
    /// It comes after all holds that ended before this,
    begin: Instant,
    /// and before all holds that begin after this.
    end: Instant,
}

impl Shown<'_> {
    fn is_permit(&self) -> bool {
        matches!(self.way, Way::Permits(_))
    }
}

type Wrong<'a> = (&'a Operation, (&'a Operation, Instant), &'static str);

fn shown(operation: &Operation) -> impl Iterator<Item = Shown<'_>> {
    let mut before = None;
    let held = operation.spans.iter().filter(|span| span.becomes.is_none());
    held.filter_map(move |span| {
        // A conversion that failed brings no other token.
        let same = before.replace((span.way, span.token)) == Some((span.way, span.token));
        let sure = !span.is_empty() && !matches!(span.way, Way::Permits(_));
        let (begin, end) = if sure { (span.from, span.from) } else { (span.asked, span.from) };
        // A release of some permits brings no other token, and a conversion of an ended lease brings none.
        let nothing_new = !sure && span.from != operation.spans[0].from;
        let (way, token) = (span.way, span.token);
        (!same && !nothing_new).then_some(Shown { operation, way, token, begin, end })
    })
}

/// The highest token so far, and its hold.
#[derive(Clone, Copy, Default)]
struct Highest<'a>(Option<(FencingToken, &'a Operation)>);

impl<'a> Highest<'a> {
    fn see(&mut self, one: &Shown<'a>) {
        if self.0.is_none_or(|(token, _)| token < one.token) {
            self.0 = Some((one.token, one.operation));
        }
    }

    /// A hold whose token should be below `token`, or at least no higher.
    fn denies(self, token: FencingToken, or_equal: bool) -> Option<&'a Operation> {
        let (highest, operation) = self.0?;
        let fine = highest < token || or_equal && highest == token;
        (!fine).then_some(operation)
    }
}

/// The highest token of all holds that have ended.
#[derive(Default)]
struct Past<'a> {
    any: Highest<'a>,
    writers: Highest<'a>,
    permits: Highest<'a>,
    owners: HashMap<u64, Highest<'a>>,
    /// The owner with the highest token, and the highest token of all other owners.
    first: Option<u64>,
    others: Highest<'a>,
}

impl<'a> Past<'a> {
    fn see(&mut self, one: &Shown<'a>) {
        self.any.see(one);
        match one.way {
            Way::Write => self.writers.see(one),
            Way::Permits(_) => self.permits.see(one),
            Way::Read | Way::Upgradable => {}
            Way::Owner(owner) => {
                self.owners.entry(owner).or_default().see(one);
                let best = self.first.and_then(|first| self.owners[&first].0);
                match self.first {
                    Some(first) if first == owner => {}
                    Some(first) if best.is_some_and(|(token, _)| token < one.token) => {
                        self.others = self.owners[&first];
                        self.first = Some(owner);
                    }
                    Some(_) => self.others.see(one),
                    None => self.first = Some(owner),
                }
            }
        }
    }

    fn denies(&self, one: &Shown<'a>) -> Option<&'a Operation> {
        let (token, below, lower) = (one.token, false, true);
        match one.way {
            Way::Write => self.any.denies(token, below),
            Way::Read | Way::Upgradable => self.writers.denies(token, lower),
            Way::Permits(_) => self.permits.denies(token, below),
            Way::Owner(owner) => {
                let first = self.first.filter(|first| *first != owner);
                let others = first.map_or(self.others, |first| self.owners[&first]);
                let own = self.owners.get(&owner).copied().unwrap_or_default();
                others.denies(token, below).or_else(|| own.denies(token, lower))
            }
        }
    }
}

fn order<'a>(shown: &mut [Shown<'a>]) -> Vec<Wrong<'a>> {
    let mut ends = shown.to_vec();
    ends.sort_by_key(|one| one.end);
    let mut over = ends.into_iter().peekable();
    shown.sort_by_key(|one| one.begin);
    let mut past = Past::default();
    let mut wrong = Vec::new();
    let mut known = HashSet::new();
    for one in shown.iter() {
        while let Some(before) = over.next_if(|before| before.end < one.begin) {
            past.see(&before);
        }
        let first = known.insert(one.operation.client);
        if one.is_permit() && !first {
            continue;
        }
        if let Some(before) = past.denies(one) {
            wrong.push((before, (one.operation, one.end), "a token is not above one before"));
        }
    }
    wrong
}

/// Whether both may have been held at one time.
fn overlap(one: &Operation, other: &Operation) -> bool {
    one.asked < other.ended && other.asked < one.ended
}

/// Two writers, two owners or two acquisitions of permits with one token.
fn twice<'a>(shown: &mut [Shown<'a>]) -> Vec<Wrong<'a>> {
    shown.sort_by_key(|one| (one.token, one.end));
    let alone = |one: &&Shown<'_>| one.way.is_exclusive() || one.is_permit();
    let alone = shown.iter().filter(alone).collect::<Vec<_>>();
    let pairs = alone.windows(2).map(|pair| (pair[0], pair[1]));
    pairs
        .filter(|(one, other)| one.token == other.token)
        .filter(|(one, other)| match (one.is_permit(), other.is_permit()) {
            (true, true) => !std::ptr::eq(one.operation, other.operation),
            (false, false) => !one.way.stands(other.way),
            _ => true,
        })
        .map(|(one, other)| {
            (one.operation, (other.operation, other.end), "two have the same token")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::Scene;
    use super::*;
    use crate::chaos::Deployment;
    use crate::chaos::history::Refusal;

    fn found(scene: &Scene) -> usize {
        let terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        check(&operations, scene.events(), &terms).len()
    }

    /// One after another, with these tokens.
    fn turns(key: &str, ways: &[(Way, u64)]) -> Scene {
        let mut scene = Scene::new();
        for (number, &(way, token)) in ways.iter().enumerate() {
            let begin = 10 * number as u64;
            scene.held(["a", "b"][number % 2], key, way, token, [begin, begin + 1, begin + 5]);
        }
        scene
    }

    #[test]
    fn writers_have_higher_ones_each_time() {
        use Way::Write;

        assert_eq!(found(&turns("m0", &[(Write, 1), (Write, 2), (Write, 9)])), 0);
        assert_eq!(found(&turns("m0", &[(Write, 1), (Write, 3), (Write, 2)])), 1);
        // That is lower, and there twice.
        assert_ne!(found(&turns("m0", &[(Write, 1), (Write, 1)])), 0);
    }

    #[test]
    fn the_token_of_a_reader_lies_between_those_of_the_writers_around_it() {
        use Way::{Read, Upgradable, Write};

        assert_eq!(
            found(&turns("w0", &[(Write, 5), (Read, 5), (Read, 7), (Read, 6), (Write, 8)])),
            0
        );
        assert_eq!(found(&turns("w0", &[(Write, 5), (Read, 4)])), 1);
        assert_eq!(found(&turns("w0", &[(Write, 5), (Upgradable, 4)])), 1);
        assert_eq!(found(&turns("w0", &[(Read, 5), (Write, 5)])), 1);
        assert_eq!(found(&turns("w0", &[(Upgradable, 5), (Write, 4)])), 1);
    }

    #[test]
    fn owners_keep_theirs_in_a_turn_and_are_above_others() {
        let owner = Way::Owner;
        assert_eq!(
            found(&turns("o0", &[(owner(1), 5), (owner(1), 5), (owner(2), 6), (owner(1), 7)])),
            0
        );
        assert_ne!(found(&turns("o0", &[(owner(1), 5), (owner(2), 5)])), 0);
        assert_eq!(found(&turns("o0", &[(owner(1), 7), (owner(2), 8), (owner(1), 6)])), 1);
        let lower = turns("o0", &[(owner(1), 5), (owner(1), 4)]);
        assert_eq!(found(&lower), 1);
        let lower = turns("o0", &[(owner(1), 9), (owner(2), 10), (owner(3), 11), (owner(2), 8)]);
        assert_ne!(found(&lower), 0);
    }

    #[test]
    fn permits_have_higher_ones_unless_there_are_other_ones_now() {
        let one = Way::Permits(1);
        assert_eq!(found(&turns("s0", &[(one, 1), (one, 2)])), 0);
        assert_eq!(found(&turns("s0", &[(one, 2), (one, 1)])), 1);
        assert_eq!(found(&turns("l0", &[(one, 2), (one, 1)])), 0);
        // The first process passes on a permit of the lease that it had before.
        assert_eq!(found(&turns("s0", &[(one, 1), (one, 9), (one, 2)])), 0);
        assert_eq!(found(&turns("s0", &[(one, 1), (one, 9), (one, 1)])), 1);
        assert_ne!(found(&turns("l0", &[(one, 1), (one, 1)])), 0);
        let mut resized = turns("s1", &[(one, 2), (one, 1)]);
        assert_eq!(found(&resized), 1);
        let deed = crate::chaos::history::Deed::Resize { key: "s1".to_owned(), limit: 9 };
        resized.event("a", 3, deed);
        assert_eq!(found(&resized), 0);
    }

    #[test]
    fn two_slots_that_are_taken_at_one_time_may_have_one_token() {
        let taken = |key, second| {
            let mut scene = Scene::new();
            scene.held("a", key, Way::Permits(1), 5, [0, 10, 20]);
            scene.held("b", key, Way::Permits(1), 5, [second, second + 1, second + 5]);
            found(&scene)
        };
        assert_eq!((taken("l0", 9), taken("s0", 9)), (0, 1));
        assert_ne!(taken("l0", 21), 0);
    }

    #[test]
    fn only_what_was_had_before_the_other_asked_is_before_it() {
        let mut scene = Scene::new();
        scene.held("a", "s0", Way::Permits(1), 5, [0, 10, 20]);
        scene.held("b", "s0", Way::Permits(1), 4, [9, 11, 20]);
        assert_eq!(found(&scene), 0);
        // Of writers, the first holder comes before the other, whenever the other asked.
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 5, [0, 10, 20]);
        scene.held("b", "m0", Way::Write, 4, [9, 21, 30]);
        assert_eq!(found(&scene), 1);
        // A writer whose lease was over when it heard of the grant may have had it before.
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 5, [0, 10, 20]);
        let late = scene.had("b", "m0", Way::Write, 4, [9, 21], 15);
        scene.leaves(late, 30, 15);
        assert_eq!(found(&scene), 0);
    }

    #[test]
    fn a_token_that_came_too_late_is_still_unique() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 5, [0, 10, 20]);
        let late = scene.had("b", "m0", Way::Write, 5, [9, 21], 15);
        scene.leaves(late, 30, 15);
        assert_eq!(found(&scene), 1);
    }

    #[test]
    fn what_stays_as_it_was_or_becomes_weaker_keeps_its_own() {
        use crate::chaos::history::Deed;

        let mut scene = Scene::new();
        let it = scene.had("a", "w0", Way::Write, 1, [0, 1], 900);
        scene.turn(it, Way::Read, 10, 900);
        scene.says(it, 20, |op| Deed::Kept { op, why: Refusal::Busy });
        scene.turns(it, Way::Read, [30, 40], 1, 900);
        scene.leaves(it, 50, 900);
        assert_eq!(found(&scene), 0);
    }
}
