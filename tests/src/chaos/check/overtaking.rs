//! The order in which waiters are served.
//!
//! Within a client all waiters are served in the order of their requests, whatever they want: readers that are
//! served at once may hear of it one after another. Owners do not wait for one another, and a slot is taken wherever
//! one is free.
//!
//! Between clients the checker counts how often a request for an exclusive hold is passed. Requests that were given
//! up count as well.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::Instant;

use super::operations::{End, Operation, Operations};
use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::{Refusal, Way};

pub(super) fn check(operations: &Operations, terms: &Terms) -> Vec<Violation> {
    let together = operations.together();
    let waits = |operation: &&Operation| {
        let is_owner = matches!(operation.way, Way::Owner(_));
        !is_owner && !operation.tries() && together.last_of(operation).is_none()
    };
    let unrest = terms.unrest(Property::Overtaking);
    let mut violations = Vec::new();
    for (key, mut list) in operations.by_key() {
        if terms.unordered.contains(key) {
            continue;
        }
        list.retain(waits);
        let served: Vec<_> = list.iter().copied().filter(|it| it.got().is_some()).collect();
        let within = within_clients(operations, terms, &served, &terms.disorder(key));
        list.retain(|operation| operation.way == Way::Write);
        let between =
            terms.overtakes.map(|most| between_clients(operations, terms, &list, (most, &unrest)));
        let found = within.into_iter().chain(between.into_iter().flatten());
        violations.extend(found.map(|(property, operation, text)| {
            let at = operation.got().unwrap_or(operation.ended);
            Violation::new(property, (at, at), key, text)
        }));
    }
    violations
}

/// How far apart waiters that are served at once may hear of it.
const AT_ONCE: Duration = Duration::from_millis(30);

type Found<'a> = (Property, &'a Operation, String);

/// A task that asked clearly later than another of its client is served later.
fn within_clients<'a>(
    operations: &Operations,
    terms: &Terms,
    list: &[&'a Operation],
    disorder: &Unrest,
) -> Vec<Found<'a>> {
    let mut clients = HashMap::<usize, Vec<&Operation>>::new();
    list.iter().for_each(|operation| clients.entry(operation.client).or_default().push(operation));
    let mut found = Vec::new();
    for list in clients.values() {
        // They come in the order of their requests. `before` are those that asked clearly earlier.
        let mut before = list.iter().peekable();
        let mut last: Option<&Operation> = None;
        for operation in list {
            while let Some(one) = before.next_if(|one| one.asked + terms.margin < operation.asked) {
                last = [last, Some(*one)].into_iter().flatten().max_by_key(|one| one.got());
            }
            let overtaken = last.filter(|last| {
                let at_once = operation.way != Way::Write && last.way != Way::Write;
                let slack = if at_once { AT_ONCE } else { Duration::ZERO };
                operation.got().map(|got| got + slack) < last.got()
            });
            if let Some(last) = overtaken
                && !disorder.touches(last.asked, last.got().unwrap_or(last.ended))
            {
                let (first, second) = (operations.name(last), operations.name(operation));
                found.push((Property::Order, last, format!("{second} was served before {first}")));
            }
        }
    }
    found
}

/// How many tasks of other clients asked later, but were served before each was served, or had waited long enough.
fn between_clients<'a>(
    operations: &Operations,
    terms: &Terms,
    list: &[&'a Operation],
    (most, unrest): (usize, &Unrest),
) -> Vec<Found<'a>> {
    let mut asked: Vec<Instant> = list.iter().map(|operation| operation.asked).collect();
    asked.sort_unstable();
    let over = |it: &Operation| {
        it.got().or((it.end == End::Refused(Refusal::TimedOut)).then_some(it.ended))
    };
    let mut waited: Vec<_> = list.iter().filter_map(|it| Some((over(it)?, *it))).collect();
    waited.sort_by_key(|(over, _)| *over);
    let mut all = Counts::new(asked.len());
    let mut own = HashMap::<usize, Counts>::new();
    let mut found = Vec::new();
    for (over, operation) in waited {
        let later = asked.partition_point(|asked| *asked <= operation.asked + terms.margin);
        let of_client = own.entry(operation.client).or_insert_with(|| Counts::new(asked.len()));
        let passed = all.from(later) - of_client.from(later);
        if operation.got().is_some() {
            let place = asked.partition_point(|asked| *asked < operation.asked);
            all.add(place);
            of_client.add(place);
        }
        if passed > most && !unrest.touches(operation.asked, over) {
            let name = operations.name(operation);
            let text =
                format!("{passed} of other clients that asked later were served before {name}");
            found.push((Property::Overtaking, operation, text));
        }
    }
    found
}

/// The number of entries at and after a place: a binary indexed tree (Fenwick, 1994).
struct Counts {
    tree: Vec<u32>,
    sum: usize,
}

impl Counts {
    fn new(places: usize) -> Self {
        Self { tree: vec![0; places + 1], sum: 0 }
    }

    fn add(&mut self, place: usize) {
        self.sum += 1;
        let mut at = place + 1;
        while at < self.tree.len() {
            self.tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn from(&self, place: usize) -> usize {
        let (mut at, mut below) = (place, 0);
        while at > 0 {
            below += self.tree[at] as usize;
            at &= at - 1;
        }
        self.sum - below
    }
}

#[cfg(test)]
mod tests {
    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::Deed;
    use crate::chaos::{Deployment, Extent, Fault};

    fn found(scene: &Scene, overtakes: Option<usize>) -> Vec<Property> {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.overtakes = overtakes;
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        let terms = terms.hearing(scene.events());
        check(&operations, &terms).iter().map(|violation| violation.property).collect()
    }

    #[test]
    fn a_later_request_of_a_client_is_served_later() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 100, 110]);
        scene.held("a", "m0", Way::Write, 2, [20, 120, 130]);
        assert_eq!(found(&scene, None), []);
        scene.held("a", "m0", Way::Write, 3, [40, 50, 60]);
        assert_eq!(found(&scene, None), [Property::Order]);
    }

    #[test]
    fn requests_at_about_one_time_or_of_other_kinds_may_be_served_in_any_order() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 100, 110]);
        scene.held("a", "m0", Way::Write, 2, [8, 50, 60]);
        scene.held("a", "m1", Way::Write, 2, [40, 50, 60]);
        scene.held("b", "m0", Way::Write, 2, [40, 70, 80]);
        let tries = scene.tries("a", "m0", Way::Write, 80);
        scene.gets(tries, 4, 81, 900);
        scene.leaves(tries, 90, 900);
        assert_eq!(found(&scene, None), []);
    }

    #[test]
    fn a_call_for_several_locks_waits_for_one_after_another() {
        let mut scene = Scene::new();
        let both = scene.asks_for_all("z", &["m0", "m1"], 0);
        scene.held("z", "m1", Way::Write, 1, [20, 50, 55]);
        for id in both {
            scene.gets(id, 2, 60, 900);
        }
        assert_eq!(found(&scene, None), []);
    }

    #[test]
    fn a_campaign_whose_value_could_not_be_stored_begins_again() {
        let found = |key: &str, when| {
            let mut scene = Scene::new();
            scene.held("a", key, Way::Write, 1, [when, when + 100, when + 110]);
            scene.held("a", key, Way::Write, 3, [when + 40, when + 50, when + 60]);
            let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
            let (fault, extent, servers) = (Fault::KillEmpty, Extent::Majority, vec![0]);
            let (workers, begin, end) = (vec![], at(20), at(90));
            terms.troubles = vec![Trouble { fault, extent, servers, workers, begin, end }];
            check(&Operations::of(scene.events()).0, &terms).len()
        };
        assert_eq!([found("m0", 0), found("e0", 0), found("e0", 30_000)], [1, 0, 1]);
    }

    #[test]
    fn others_may_pass_so_often_and_no_more() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 9, [0, 900, 910]);
        for number in 0..5_u64 {
            let begin = 100 + 20 * number;
            scene.held("b", "m0", Way::Write, number, [begin, begin + 5, begin + 10]);
        }
        assert_eq!(found(&scene, Some(5)), []);
        assert_eq!(found(&scene, Some(4)), [Property::Overtaking]);
        assert_eq!(found(&scene, None), []);
    }

    #[test]
    fn a_waiter_that_is_overtaken_until_it_gives_up_counts() {
        let mut scene = Scene::new();
        let waits = scene.asks("a", "m0", Way::Write, 0);
        scene.fails(waits, 900, Refusal::TimedOut);
        let drops = scene.asks("a", "m1", Way::Write, 0);
        scene.fails(drops, 900, Refusal::GivenUp);
        for (key, begin) in ["m0", "m1"].into_iter().flat_map(|key| [(key, 100), (key, 120)]) {
            scene.held("b", key, Way::Write, begin, [begin, begin + 5, begin + 10]);
        }
        assert_eq!(found(&scene, Some(2)), []);
        assert_eq!(found(&scene, Some(1)), [Property::Overtaking]);
    }

    #[test]
    fn on_a_machine_that_is_late_nothing_is_known_of_the_order() {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 100, 110]);
        scene.held("a", "m0", Way::Write, 3, [40, 50, 60]);
        scene.event("a", 110, Deed::Late { millis: 60 });
        assert_eq!(found(&scene, Some(0)), []);
    }
}
