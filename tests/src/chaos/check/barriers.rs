//! Groups at barriers are whole, and have one leader.

use std::collections::HashMap;

use lock_core::Instant;

use super::terms::Terms;
use super::tries::Times;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event, Op};

/// For each task that passes, there was a moment of its wait when its whole group waited there. And each group has
/// at most one leader, and exactly one if no end is unknown.
///
/// The checker does not know which of the waiting tasks made a group. But each task that passed met all of its
/// group, and so its leader. So in any time there cannot be more leaders, from their arrivals to their passes,
/// than groups among the tasks that waited in some part of it. Nor can there be more groups among the tasks that
/// passed than tasks that may have led. A task whose time ran out may have been counted, and may even have led: it
/// does not know whether its arrival let the others pass.
pub(super) fn check(events: &[Event], terms: &Terms) -> Vec<Violation> {
    let mut violations = Vec::new();
    // The terms say how long the store may count a task, and when another may take the place of a living one.
    let unrest = terms.unrest(Property::Tries);
    for (key, visits) in visits(events, terms, &unrest) {
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
        let there = times(visits.iter());
        let may_lead = times(visits.iter().filter(|visit| visit.passed != Some(false)));
        let leaders = visits.iter().filter(|visit| visit.passed == Some(true));
        let many = shortest(leaders, &there, |count, there, _| count * u64::from(of) > there);
        let few = shortest(passes, &may_lead, |count, may_lead, (begin, end)| {
            // Each group may be joined by the tasks whose places its members took: then all may be one group.
            let is_whole = || !unrest.touches(begin - terms.ttl, end);
            count.div_ceil(of.into()) > may_lead && (may_lead == 0 || is_whole())
        });
        let tell = |(begin, end): (Instant, Instant), what: &str| {
            let text = format!("{what} for groups of {of} from {} on", begin.as_nanos());
            Violation::new(Property::Barriers, (end, end), key, text)
        };
        violations.extend(many.into_iter().map(|time| tell(time, "there are too many leaders")));
        violations.extend(few.into_iter().map(|time| tell(time, "there are too few leaders")));
    }
    violations
}

fn times<'a>(visits: impl Iterator<Item = &'a Visit<'a>>) -> Times {
    let mut times = Times::default();
    visits.for_each(|visit| times.add(visit.arrived, visit.last, 1));
    times.sort();
    times
}

/// The times, each from an arrival to an end, that contain too many of these visits beside those that overlap the time.
/// Each is as short as possible and overlaps no earlier one, so an early finding hides no later one.
///
/// There are as many times as pairs of visits. So what depends on one end of a time alone is looked up once.
fn shortest<'a>(
    visits: impl Iterator<Item = &'a Visit<'a>>,
    overlapping: &Times,
    wrong: impl Fn(u64, u64, (Instant, Instant)) -> bool,
) -> Vec<(Instant, Instant)> {
    let mut visits: Vec<_> = visits.map(|visit| (visit.last, visit.arrived)).collect();
    visits.sort_unstable();
    let (mut found, mut arrived) = (Vec::<(Instant, Instant)>::new(), Vec::new());
    for (end, begin) in visits {
        let place = arrived.partition_point(|&(at, _)| at < begin);
        arrived.insert(place, (begin, overlapping.ended(begin)));
        let (begun, since) = (overlapping.begun(end), found.last().map(|&(_, end)| end));
        for (count, &(begin, ended)) in (1..).zip(arrived.iter().rev()) {
            if since.is_some_and(|since| begin <= since) {
                break;
            }
            if wrong(count, begun - ended, (begin, end)) {
                found.push((begin, end));
                break;
            }
        }
    }
    found
}

/// A task that waited at a barrier.
struct Visit<'a> {
    name: (&'a str, Op),
    of: u32,
    arrived: Instant,
    /// Until when it may have waited there.
    last: Instant,
    /// Whether it leads, if it passed.
    passed: Option<bool>,
}

fn visits<'a>(
    events: &'a [Event],
    terms: &Terms,
    unrest: &Unrest,
) -> HashMap<&'a str, Vec<Visit<'a>>> {
    let mut visits = HashMap::<&str, Vec<Visit<'_>>>::new();
    let mut open = HashMap::<(&str, Op), (&str, usize)>::new();
    for event in events {
        let client = event.client.as_str();
        match &event.deed {
            Deed::Arrive { op, key, of } => {
                let list = visits.entry(key).or_default();
                open.insert((client, *op), (key, list.len()));
                // It may count until its lease ends, if nothing more is known of it.
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
                    // The store may count it until it was withdrawn.
                    visit.last = terms.undone(event.at, unrest);
                }
            }
            _ => {}
        }
    }
    visits
}

/// The times in which at least this many wait there.
fn full(visits: &[Visit<'_>], of: usize) -> Vec<(Instant, Instant)> {
    let mut steps: Vec<(Instant, i64)> =
        visits.iter().flat_map(|visit| [(visit.arrived, 1), (visit.last, -1)]).collect();
    // A task that arrives at the moment at which another leaves may have met it.
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

    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::Refusal;
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms() -> Terms {
        Terms::new(Deployment::Redis, Duration::from_secs(1))
    }

    fn found(visits: &[(&str, [u64; 2], Option<bool>)]) -> usize {
        found_with(&terms(), visits)
    }

    fn found_with(terms: &Terms, visits: &[(&str, [u64; 2], Option<bool>)]) -> usize {
        let mut scene = Scene::new();
        for (number, &(client, [arrives, ends], passes)) in visits.iter().enumerate() {
            let (op, key) = (number as Op, "b0".to_owned());
            scene.event(client, arrives, Deed::Arrive { op, key, of: 3 });
            scene.event(
                client,
                ends,
                match passes {
                    Some(leads) => Deed::Pass { op, leads },
                    None => Deed::Not { op, why: Refusal::GivenUp },
                },
            );
        }
        check(scene.events(), terms).len()
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
        // Then the three never waited there at once.
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

    /// Three from that time on, of which this many lead.
    fn group(begin: u64, leaders: usize) -> [(&'static str, [u64; 2], Option<bool>); 3] {
        [("a", 0), ("b", 1), ("c", 2)].map(|(client, number)| {
            (client, [begin + number, begin + 5], Some((number as usize) < leaders))
        })
    }

    #[test]
    fn a_participant_that_gave_up_long_ago_hides_no_wrong_leaders() {
        let gave_up: Vec<_> = (0..9).map(|at| ("d", [20 * at, 20 * at + 10], None)).collect();
        let seen = |leaders| found(&[&gave_up[..], &group(5_000, leaders)[..]].concat());
        assert_eq!([0, 1, 2, 3].map(seen), [1, 0, 1, 1]);
        // Nor do later ones, and each group is checked.
        let seen = |leaders: [usize; 3]| {
            let groups = [100, 4_000, 8_000].into_iter().zip(leaders);
            let groups: Vec<_> = groups.flat_map(|(begin, count)| group(begin, count)).collect();
            found(&[&groups[..], &[("d", [9_000, 9_010], None)]].concat())
        };
        assert_eq!(seen([1, 1, 1]), 0);
        assert_eq!(seen([1, 2, 1]), 1);
        assert_eq!(seen([2, 1, 2]), 2);
    }

    #[test]
    fn a_participant_that_stood_still_passes_with_its_replacements() {
        let four = [&group(0, 1)[..], &[("d", [0, 9], Some(false))]].concat();
        let mut terms = terms();
        assert_eq!(found_with(&terms, &four), 1);
        let (fault, extent) = (Fault::StopWorker, Extent::Minority);
        let (begin, end) = (at(1), at(8));
        let (servers, workers) = (vec![], vec![]);
        terms.troubles = vec![Trouble { fault, extent, servers, workers, begin, end }];
        assert_eq!(found_with(&terms, &four), 0);
        assert_eq!(found_with(&terms, &group(0, 0)), 1);
        assert_eq!(found_with(&terms, &group(0, 2)), 1);
    }

    #[test]
    fn a_participant_that_gave_up_may_complete_one_group_and_not_two() {
        let rest = [("d", [3, 15], Some(true)), ("e", [4, 15], Some(false))];
        let with = |gave_up: &[_]| found(&[&group(0, 1)[..], &rest, gave_up].concat());
        assert_eq!(with(&[("f", [2, 12], None)]), 0);
        assert_eq!(with(&[]), 1);
        let few = [&group(0, 1)[..], &rest[..1], &[("f", [2, 12], None)]];
        assert_eq!(found(&few.concat()), 1);
    }

    #[test]
    fn a_participant_that_gave_up_counts_only_for_a_while() {
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
