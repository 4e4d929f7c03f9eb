//! No two tasks hold a lock at once in ways that exclude each other.

use std::collections::{BTreeSet, HashMap};

use lock_core::Instant;

use super::operations::{Operation, Operations, Span};
use super::{Property, Violation};
use crate::chaos::history::Way;

/// Goes through the times at which a task certainly begins to hold a lock, and looks which tasks hold it
/// already.
///
/// If one of the two is converting its hold, the conversion left a gap.
pub(super) fn check(operations: &Operations) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, list) in operations.by_key() {
        let mut spans: Vec<(&Operation, &Span)> = list
            .iter()
            .flat_map(|operation| operation.certain().map(move |span| (*operation, span)))
            .filter(|(_, span)| !matches!(span.way, Way::Permits(_)))
            .collect();
        spans.sort_by_key(|(_, span)| span.from);
        let mut inside = Inside::default();
        for (number, &(operation, span)) in spans.iter().enumerate() {
            inside.leave(span.from);
            if let Some(other) = inside.in_the_way_of(span.way) {
                let (there, with) = spans[other];
                let turning = span.becomes.or(with.becomes).is_some();
                let property = if turning { Property::Conversions } else { Property::Exclusion };
                let times = (span.from, span.until.min(with.until));
                let (first, second) = (operations.name(there), operations.name(operation));
                let text = format!("{first} and {second} at once");
                violations.push(Violation::new(property, times, key, text));
            }
            inside.enter(number, span);
        }
    }
    violations
}

/// The holders of a lock at some time, by the end of their holds.
#[derive(Default)]
struct Inside {
    readers: BTreeSet<(Instant, usize)>,
    upgradable: BTreeSet<(Instant, usize)>,
    writers: BTreeSet<(Instant, usize)>,
    owners: HashMap<u64, BTreeSet<(Instant, usize)>>,
}

impl Inside {
    fn enter(&mut self, number: usize, span: &Span) {
        _ = self.of(span.way).insert((span.until, number));
    }

    fn of(&mut self, way: Way) -> &mut BTreeSet<(Instant, usize)> {
        match way {
            Way::Read => &mut self.readers,
            Way::Upgradable => &mut self.upgradable,
            Way::Owner(owner) => self.owners.entry(owner).or_default(),
            Way::Write | Way::Permits(_) => &mut self.writers,
        }
    }

    /// All holds that are over are gone.
    fn leave(&mut self, now: Instant) {
        let owners = self.owners.values_mut();
        for set in
            [&mut self.readers, &mut self.upgradable, &mut self.writers].into_iter().chain(owners)
        {
            while set.first().is_some_and(|(until, _)| *until <= now) {
                set.pop_first();
            }
        }
        self.owners.retain(|_, set| !set.is_empty());
    }

    /// A holder that excludes this one, if there is one: the one that stays longest.
    fn in_the_way_of(&self, way: Way) -> Option<usize> {
        let owner =
            |owner: &u64| if way == Way::Owner(*owner) { None } else { Some(Way::Owner(*owner)) };
        let sets = [
            (Way::Upgradable, &self.upgradable),
            (Way::Write, &self.writers),
            (Way::Read, &self.readers),
        ];
        // Of owners, only two need to be checked: one of them is another owner.
        let owners =
            self.owners.iter().take(2).filter_map(|(number, set)| Some((owner(number)?, set)));
        let mut sets = sets.into_iter().chain(owners).filter(|(there, _)| !there.stands(way));
        sets.find_map(|(_, set)| set.last().map(|&(_, number)| number))
    }
}

#[cfg(test)]
mod tests {
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::Deed;

    fn found(scene: &Scene) -> Vec<(Property, u64)> {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        let of = |violation: &Violation| (violation.property, violation.at.as_nanos() / 1_000_000);
        check(&operations).iter().map(of).collect()
    }

    #[test]
    fn one_after_another_is_fine_on_every_key() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 1, 10]);
        scene.held("b", "m0", Way::Write, 2, [5, 10, 20]);
        scene.held("b", "m1", Way::Write, 1, [5, 6, 20]);
        assert_eq!(found(&scene), []);
    }

    #[test]
    fn readers_may_meet_and_owners_may_meet_themselves() {
        let mut scene = Scene::new();
        scene.held("a", "w0", Way::Read, 1, [0, 1, 30]);
        scene.held("b", "w0", Way::Read, 1, [0, 2, 20]);
        scene.held("c", "w0", Way::Upgradable, 1, [0, 3, 25]);
        scene.held("a", "o0", Way::Owner(1), 1, [0, 1, 30]);
        scene.held("b", "o0", Way::Owner(1), 1, [0, 2, 20]);
        scene.held("b", "o0", Way::Owner(2), 2, [0, 30, 40]);
        assert_eq!(found(&scene), []);
    }

    #[test]
    fn each_pair_that_excludes_itself_is_seen() {
        let ways = [Way::Read, Way::Upgradable, Way::Write, Way::Owner(1), Way::Owner(2)];
        for one in ways {
            for other in ways {
                let mut scene = Scene::new();
                scene.held("a", "it", one, 1, [0, 1, 10]);
                scene.held("b", "it", other, 2, [0, 9, 20]);
                let expected =
                    if one.stands(other) { vec![] } else { vec![(Property::Exclusion, 9)] };
                assert_eq!(found(&scene), expected, "{one} and {other}");
            }
        }
    }

    #[test]
    fn an_ended_lease_excludes_no_client_and_a_renewed_one_does() {
        let mut scene = Scene::new();
        let stopped = scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.leaves(stopped, 200, 100);
        scene.held("b", "m0", Way::Write, 2, [0, 101, 150]);
        assert_eq!(found(&scene), []);
        scene.says(stopped, 90, |op| Deed::Still { op, valid_until: at(140) });
        assert_eq!(found(&scene), []);
        let mut scene = Scene::new();
        let renewed = scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.leaves(renewed, 200, 140);
        scene.held("b", "m0", Way::Write, 2, [0, 101, 150]);
        assert_eq!(found(&scene), [(Property::Exclusion, 101)]);
    }

    #[test]
    fn a_client_that_died_holds_until_its_last_event() {
        let mut scene = Scene::new();
        let dies = scene.had("a", "m0", Way::Write, 1, [0, 1], 100);
        scene.says(dies, 50, |op| Deed::Still { op, valid_until: at(130) });
        scene.held("b", "m0", Way::Write, 2, [0, 60, 70]);
        assert_eq!(found(&scene), []);
        scene.held("c", "m0", Way::Write, 3, [0, 49, 50]);
        assert_eq!(found(&scene), [(Property::Exclusion, 49)]);
    }

    #[test]
    fn a_holder_during_a_conversion_is_found() {
        let mut scene = Scene::new();
        let upgrades = scene.had("a", "w0", Way::Upgradable, 1, [0, 1], 900);
        scene.turns(upgrades, Way::Write, [10, 30], 5, 900);
        scene.leaves(upgrades, 40, 900);
        // It was there before, and has to leave first.
        scene.held("b", "w0", Way::Read, 1, [0, 2, 29]);
        assert_eq!(found(&scene), []);
        scene.held("c", "w0", Way::Write, 3, [0, 15, 16]);
        scene.held("c", "w0", Way::Read, 3, [0, 31, 32]);
        assert_eq!(found(&scene), [(Property::Conversions, 15), (Property::Exclusion, 31)],);
    }

    #[test]
    fn a_downgrade_admits_no_writer() {
        let mut scene = Scene::new();
        let weaker = scene.had("a", "w0", Way::Write, 1, [0, 1], 900);
        scene.turns(weaker, Way::Read, [10, 20], 1, 900);
        scene.leaves(weaker, 40, 900);
        scene.held("b", "w0", Way::Read, 1, [0, 11, 30]);
        assert_eq!(found(&scene), []);
        scene.held("c", "w0", Way::Write, 3, [0, 12, 13]);
        let seen = found(&scene);
        assert!(seen.iter().all(|(_, when)| (12..=20).contains(when)) && !seen.is_empty());
    }

    #[test]
    fn what_overlaps_everywhere_is_seen_everywhere() {
        let mut events = Vec::new();
        let client = ["a", "b", "c", "d"];
        let mut one = Scene::new();
        one.held("a", "m0", Way::Write, 0, [0, 1, 4]);
        for number in 0..400_u64 {
            for event in one.events() {
                let mut event = event.clone();
                event.at = at(event.at.as_nanos() / 1_000_000 + number * 2);
                event.client = client[number as usize % 4].to_owned();
                let deed = event.deed.to_string();
                let mut words: Vec<String> = deed.split(' ').map(str::to_owned).collect();
                words[1] = number.to_string();
                event.deed = words.join(" ").parse().unwrap();
                events.push(event);
            }
        }
        events.sort_by_key(|event| event.at);
        let (operations, odd) = Operations::of(&events);
        assert_eq!((odd.len(), operations.held()), (0, 400));
        assert_eq!(check(&operations).len(), 399);
    }
}
