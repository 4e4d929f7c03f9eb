//! No more permits are held than there are.

use std::collections::{BTreeSet, HashMap};

use lock_core::Instant;

use super::limits::Limit;
use super::operations::{Operation, Operations, Span};
use super::terms::Terms;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event, Way};

/// Goes through the times at which permits are certainly taken, and those at which the limit falls, and adds up
/// the permits that are held then.
pub(super) fn check(operations: &Operations, events: &[Event], terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut changes = changes(events);
    for (key, list) in operations.by_key() {
        if !list.iter().any(|operation| matches!(operation.way, Way::Permits(_))) {
            continue;
        }
        let Some(&first) = terms.limits.get(key) else {
            let text = "the number of permits is unknown".to_owned();
            let begin = Instant::from_nanos(0);
            violations.push(Violation::new(Property::History, (begin, begin), key, text));
            continue;
        };
        let limit = Limit::of(first, &changes.remove(key).unwrap_or_default(), terms);
        violations.extend(of_key(operations, key, &list, &limit));
    }
    violations
}

/// The changes of the limit of each semaphore.
pub(super) fn changes(events: &[Event]) -> HashMap<&str, Vec<&Event>> {
    let mut changes = HashMap::<&str, Vec<&Event>>::new();
    for event in events {
        if let Deed::Resize { key, .. } | Deed::Resized { key, .. } = &event.deed {
            changes.entry(key).or_default().push(event);
        }
    }
    changes
}

/// The events at one time, in this order: tasks leave before others enter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Leaves(usize),
    Changes,
    Comes(usize),
}

fn of_key(
    operations: &Operations,
    key: &str,
    list: &[&Operation],
    limit: &Limit,
) -> Vec<Violation> {
    let spans: Vec<(&Operation, &Span)> = list
        .iter()
        .flat_map(|operation| operation.certain().map(move |span| (*operation, span)))
        .collect();
    let mut steps: Vec<(Instant, Step)> = limit.changes().map(|at| (at, Step::Changes)).collect();
    for (number, (_, span)) in spans.iter().enumerate() {
        steps.push((span.from, Step::Comes(number)));
        steps.push((span.until, Step::Leaves(number)));
    }
    steps.sort_unstable();
    let mut violations = Vec::new();
    let (mut here, mut held) = (BTreeSet::new(), 0);
    for (at, step) in steps {
        match step {
            Step::Leaves(number) => {
                held -= count(spans[number].1);
                here.remove(&number);
                continue;
            }
            Step::Changes => {}
            Step::Comes(number) => {
                held += count(spans[number].1);
                here.insert(number);
            }
        }
        let most = u64::from(limit.at(at));
        if held > most {
            let some = here.iter().rev().take(12).map(|&number| operations.name(spans[number].0));
            let some: Vec<String> = some.map(|name| name.to_string()).collect();
            let text = format!("{held} permits of {most} are held, by {}", some.join(" and "));
            violations.push(Violation::new(Property::Permits, (at, at), key, text));
        }
    }
    violations
}

fn count(span: &Span) -> u64 {
    match span.way {
        Way::Permits(count) => count.into(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::Deployment;

    fn found(scene: &Scene) -> Vec<u64> {
        let terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        let seen = check(&operations, scene.events(), &terms);
        assert!(seen.iter().all(|violation| violation.property == Property::Permits));
        seen.iter().map(|violation| violation.at.as_nanos() / 1_000_000).collect()
    }

    fn two_and_one() -> Scene {
        let mut scene = Scene::new();
        scene.held("a", "s0", Way::Permits(2), 1, [0, 1, 10]);
        scene.held("b", "s0", Way::Permits(1), 2, [0, 2, 20]);
        scene.held("a", "s0", Way::Permits(2), 3, [0, 10, 15]);
        scene
    }

    #[test]
    fn they_may_be_gone_to_the_last() {
        assert!(found(&two_and_one()).is_empty());
    }

    #[test]
    fn one_too_many_is_seen() {
        let mut scene = two_and_one();
        scene.held("c", "s0", Way::Permits(1), 4, [0, 14, 16]);
        assert_eq!(found(&scene), [14]);
        let mut slots = Scene::new();
        for (number, client) in ["a", "b", "c"].into_iter().enumerate() {
            slots.held(client, "l0", Way::Permits(1), 1, [0, 1 + number as u64, 10]);
        }
        assert_eq!(found(&slots), [3]);
    }

    #[test]
    fn what_is_given_back_in_part_can_be_had() {
        let mut scene = Scene::new();
        let some = scene.had("a", "s0", Way::Permits(3), 1, [0, 1], 900);
        scene.turns(some, Way::Permits(1), [10, 12], 1, 900);
        scene.leaves(some, 50, 900);
        scene.held("b", "s0", Way::Permits(2), 2, [0, 11, 20]);
        assert!(found(&scene).is_empty());
        scene.held("b", "s0", Way::Permits(1), 2, [0, 9, 10]);
        assert_eq!(found(&scene), [9]);
    }

    #[test]
    fn what_was_forgotten_is_as_gone_while_its_lease_lives() {
        let mut scene = Scene::new();
        let forgotten = scene.had("a", "s0", Way::Permits(3), 1, [0, 1], 100);
        scene.says(forgotten, 10, |op| Deed::Forgot { op });
        scene.held("b", "s0", Way::Permits(1), 2, [0, 101, 110]);
        assert!(found(&scene).is_empty());
        scene.held("b", "s0", Way::Permits(1), 2, [0, 50, 60]);
        assert_eq!(found(&scene), [50]);
    }

    #[test]
    fn fewer_than_are_held_cannot_be() {
        let mut scene = Scene::new();
        scene.held("a", "s1", Way::Permits(7), 1, [0, 1, 100]);
        let key = || "s1".to_owned();
        scene.event("b", 10, Deed::Resize { key: key(), limit: 7 });
        scene.event("b", 20, Deed::Resized { key: key(), limit: Some(7) });
        assert!(found(&scene).is_empty());
        scene.event("b", 30, Deed::Resize { key: key(), limit: 6 });
        scene.event("b", 40, Deed::Resized { key: key(), limit: Some(6) });
        assert_eq!(found(&scene), [40]);
    }

    #[test]
    fn a_semaphore_of_which_nothing_is_known_proves_nothing() {
        let mut scene = Scene::new();
        scene.held("a", "s9", Way::Permits(1), 1, [0, 1, at(1).as_nanos() / 1_000_000]);
        let terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let (operations, _) = Operations::of(scene.events());
        let seen = check(&operations, scene.events(), &terms);
        assert_eq!(seen[0].property, Property::History);
    }
}
