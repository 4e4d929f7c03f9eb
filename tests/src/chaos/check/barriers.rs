//! Groups at barriers are whole, and have one leader.

use std::collections::HashMap;

use lock_core::Instant;

use super::terms::Terms;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event, Op};

/// At some moment while each of those who pass stood there, the whole group did. And of so many groups each has
/// no more than one leader, and one if nobody's end is unknown.
pub(super) fn check(events: &[Event], terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (key, visits) in visits(events, terms) {
        let Some(of) = visits.first().map(|visit| visit.of) else { continue };
        let full = full(&visits, of as usize);
        let passes = visits.iter().filter(|visit| visit.passed.is_some());
        let early = passes.clone().filter(|visit| {
            let next = full.partition_point(|(_, end)| *end < visit.arrived);
            full.get(next).is_none_or(|(begin, _)| *begin > visit.last)
        });
        violations.extend(early.map(|visit| {
            let (client, number) = visit.name;
            let times = (visit.last, visit.last);
            let text = format!("{client} op {number} passed when fewer than {of} were there");
            Violation::new(Property::Barriers, times, key, text)
        }));
        let unknown = visits.iter().filter(|visit| visit.passed.is_none()).count();
        let passed = passes.clone().count();
        let leaders = passes.filter(|visit| visit.passed == Some(true));
        let (most, least) = ((passed + unknown) / of as usize, passed.div_ceil(of as usize));
        let count = leaders.clone().count();
        if count > most || count + unknown < least {
            let last = visits.iter().map(|visit| visit.last).max().unwrap_or(visits[0].last);
            let text = format!("of {passed} that passed, and {unknown} more at most, {count} lead");
            violations.push(Violation::new(
                Property::Barriers,
                (visits[0].arrived, last),
                key,
                text,
            ));
        }
    }
    violations
}

/// Somebody who stood at a barrier.
struct Visit<'a> {
    name: (&'a str, Op),
    of: u32,
    arrived: Instant,
    /// Until when it may have stood there.
    last: Instant,
    /// Whether it leads, if it passed.
    passed: Option<bool>,
}

fn visits<'a>(events: &'a [Event], terms: &Terms) -> HashMap<&'a str, Vec<Visit<'a>>> {
    let mut visits = HashMap::<&str, Vec<Visit<'_>>>::new();
    let mut open = HashMap::<(&str, Op), (&str, usize)>::new();
    for event in events {
        let client = event.client.as_str();
        match &event.deed {
            Deed::Arrive { op, key, of } => {
                let list = visits.entry(key).or_default();
                open.insert((client, *op), (key, list.len()));
                // It may count until its lease ends, if it is never heard of again.
                let (arrived, last) = (event.at, Instant::FAR_FUTURE);
                list.push(Visit { name: (client, *op), of: *of, arrived, last, passed: None });
            }
            Deed::Pass { op, leads } => {
                if let Some((key, number)) = open.remove(&(client, *op))
                    && let Some(visit) = visits.get_mut(key).map(|list| &mut list[number])
                {
                    (visit.last, visit.passed) = (event.at, Some(*leads));
                }
            }
            Deed::Not { op, .. } => {
                if let Some((key, number)) = open.remove(&(client, *op))
                    && let Some(visit) = visits.get_mut(key).map(|list| &mut list[number])
                {
                    // The store may count it until it was taken back.
                    visit.last = event.at + terms.lingers();
                }
            }
            _ => {}
        }
    }
    visits
}

/// The times in which at least so many stand there.
fn full(visits: &[Visit<'_>], of: usize) -> Vec<(Instant, Instant)> {
    let mut steps: Vec<(Instant, i64)> =
        visits.iter().flat_map(|visit| [(visit.arrived, 1), (visit.last, -1)]).collect();
    // Who comes at the moment at which another leaves may have met it.
    steps.sort_unstable_by_key(|&(at, step)| (at, -step));
    let (mut full, mut here, mut since) = (Vec::new(), 0, None);
    for (at, step) in steps {
        here += step;
        match since {
            None if here >= of as i64 => since = Some(at),
            Some(begin) if here < of as i64 => {
                full.push((begin, at));
                since = None;
            }
            _ => {}
        }
    }
    full.extend(since.map(|begin| (begin, Instant::FAR_FUTURE)));
    full
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::Scene;
    use super::*;
    use crate::chaos::Deployment;
    use crate::chaos::history::Refusal;

    fn found(visits: &[(&str, [u64; 2], Option<bool>)]) -> usize {
        let mut scene = Scene::new();
        for (number, &(client, [arrives, ends], passes)) in visits.iter().enumerate() {
            let (op, key) = (number as Op, "b0".to_owned());
            scene.event(client, arrives, Deed::Arrive { op, key, of: 3 });
            scene.event(
                client,
                ends,
                match passes {
                    Some(leads) => Deed::Pass { op, leads },
                    None => Deed::Not { op, why: Refusal::TimedOut },
                },
            );
        }
        let terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        check(scene.events(), &terms).len()
    }

    #[test]
    fn three_pass_when_three_are_there_and_one_of_them_leads() {
        let whole = [
            ("a", [0, 31], Some(false)),
            ("b", [10, 32], Some(true)),
            ("c", [30, 40], Some(false)),
        ];
        assert_eq!(found(&whole), 0);
        let mut early = whole;
        early[0].1[1] = 29;
        // Then the three were never there at once.
        assert_eq!(found(&early), 3);
        let mut two = whole;
        two[0].2 = Some(true);
        assert_eq!(found(&two), 1);
        let mut none = whole;
        none[1].2 = Some(false);
        assert_eq!(found(&none), 1);
    }

    #[test]
    fn a_group_is_not_filled_by_those_of_another() {
        let first =
            [("a", [0, 5], Some(true)), ("b", [1, 5], Some(false)), ("c", [2, 5], Some(false))];
        let second = [("a", [100, 105], Some(true)), ("b", [101, 105], Some(false))];
        assert_ne!(found(&[&first[..], &second[..]].concat()), 0);
        let whole = [
            ("a", [100, 105], Some(true)),
            ("b", [101, 105], Some(false)),
            ("d", [99, 106], Some(false)),
        ];
        assert_eq!(found(&[&first[..], &whole[..]].concat()), 0);
    }

    #[test]
    fn one_who_gave_up_may_have_been_counted_but_not_for_ever() {
        let with = |gave_up| {
            found(&[
                ("a", [0, gave_up], None),
                ("b", [100, 205], Some(false)),
                ("c", [200, 205], Some(false)),
            ])
        };
        assert_eq!(with(150), 0);
        let long_ago = [
            ("a", [0, 10], None),
            ("b", [9_000, 9_005], Some(true)),
            ("c", [9_001, 9_005], Some(false)),
        ];
        assert_ne!(found(&long_ago), 0);
    }
}
