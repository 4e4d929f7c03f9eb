//! No try is refused without a task in the way.

use std::collections::HashMap;

use lock_core::Instant;

use super::limits::Limit;
use super::operations::{Kept, Operation, Operations};
use super::permits::changes;
use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::Deployment;
use crate::chaos::history::{Event, Refusal, Way};

/// For every try that was refused because of another holder, to acquire or to convert, looks for a task that
/// may have been in the way: one that held the lock, may have held it, waited for it or tried as well.
pub(super) fn check(operations: &Operations, events: &[Event], terms: &Terms) -> Vec<Violation> {
    let unrest = terms.unrest(Property::Tries);
    let mut changes = changes(events);
    let mut alone: Vec<&Operation> = Vec::new();
    let mut kept = Vec::new();
    for (key, list) in operations.by_key().filter(|(key, _)| !is_read(key, terms)) {
        let changes = changes.remove(key).unwrap_or_default();
        let limit = terms.limits.get(key).map(|&first| Limit::of(first, &changes, terms));
        let there = There::of(operations, &list, terms, &unrest);
        for operation in &list {
            let busy = operation.kept.iter().filter(|kept| {
                let begin = kept.asked - terms.lingers();
                let tries = kept.patience.tries() && kept.why == Refusal::Busy;
                tries && !unrest.touches(begin, kept.ended)
            });
            // It is not in its own way.
            let own = |kept: &Kept| {
                let held = operations.possible(operation, terms, &unrest).into_iter();
                let meets = |from, until| from <= kept.ended && kept.asked <= until + terms.linger;
                held.filter(|&(_, from, until)| meets(from, until)).count() as u64
            };
            let alone = busy.filter(|kept| {
                !there.in_the_way_of(&Try::to_turn(operation, kept, own(kept)), None)
            });
            kept.extend(alone.map(|kept| (*operation, kept.ended, kept.way)));
        }
        let refused = list.into_iter().filter(|operation| {
            let begin = operation.asked - terms.lingers();
            operation.tries() && operation.is_busy() && !unrest.touches(begin, operation.ended)
        });
        alone.extend(refused.filter(|it| {
            let permits = limit.as_ref().map(|limit| limit.least_between(it.asked, it.ended));
            !there.in_the_way_of(&Try::to_have(it), permits)
        }));
    }
    retain_those_alone_everywhere(&mut alone, operations);
    let alone = alone.into_iter().map(|it| told(operations, it, it.ended, ""));
    let kept = kept.into_iter().map(|(it, at, way)| {
        let what = format!(", which was not to become {way} at {}", at.as_nanos());
        told(operations, it, at, &what)
    });
    alone.chain(kept).collect()
}

/// Over a quorum, a task that reads a value may hold the lock for a moment to settle the value.
fn is_read(key: &str, terms: &Terms) -> bool {
    matches!(terms.deployment, Deployment::Quorum(_)) && terms.stored.contains(key)
}

fn told(operations: &Operations, operation: &Operation, at: Instant, what: &str) -> Violation {
    let text = format!("no task was in the way of {}{what}", operations.name(operation));
    Violation::new(Property::Tries, (at, at), operations.key(operation), text)
}

/// A try of several locks at once gets none of them if a task is in the way of one.
fn retain_those_alone_everywhere(alone: &mut Vec<&Operation>, operations: &Operations) {
    let asked_with = |it: &Operation| (it.client, it.asked, it.ended);
    let count = |list: &mut dyn Iterator<Item = &Operation>| {
        let mut counts = HashMap::new();
        list.for_each(|it| *counts.entry(asked_with(it)).or_insert(0_usize) += 1);
        counts
    };
    let all = count(&mut operations.all.iter().filter(|it| it.tries() && it.is_busy()));
    let of_those = count(&mut alone.iter().copied());
    alone.retain(|it| all.get(&asked_with(it)) == of_those.get(&asked_with(it)));
}

/// A try: to acquire a lock, or to convert a hold.
struct Try {
    client: usize,
    task: u32,
    way: Way,
    begin: Instant,
    end: Instant,
    /// How often the operation itself is counted among those that ask, and among the holders.
    asks: u64,
    holds: u64,
}

impl Try {
    fn to_have(operation: &Operation) -> Self {
        let &Operation { client, task, way, asked, ended, .. } = operation;
        Self { client, task, way, begin: asked, end: ended, asks: 1, holds: 0 }
    }

    fn to_turn(operation: &Operation, kept: &Kept, holds: u64) -> Self {
        let &Operation { client, task, .. } = operation;
        let &Kept { way, asked, ended, .. } = kept;
        Self { client, task, way, begin: asked, end: ended, asks: 0, holds }
    }
}

/// When a task may have been there, and in which way.
#[derive(Default)]
struct There {
    /// The operations that ask, or wait, and those that did so a moment ago.
    asking: Times,
    /// Those of them that were granted by then, by client and task: a task does not wait for itself.
    done: HashMap<(usize, u32), Times>,
    held: HashMap<Way, Times>,
    /// The holds of each owner. There are many owners, so no try looks at each of them.
    owners: HashMap<Way, Times>,
    all_owners: Times,
}

impl There {
    fn of(operations: &Operations, list: &[&Operation], terms: &Terms, unrest: &Unrest) -> Self {
        let mut there = Self::default();
        for operation in list {
            let without = operations.without_until(operation);
            let gone = operations.possibly_until(operation, terms, unrest);
            let until =
                if operation.spans.is_empty() && !operation.is_busy() { gone } else { without };
            there.asking.add(operation.asked, until + terms.linger, 1);
            if let Some(got) = operation.got() {
                let of_task = there.done.entry((operation.client, operation.task)).or_default();
                of_task.add(got, got + terms.linger, 1);
            }
            for (way, from, until) in operations.possible(operation, terms, unrest) {
                there.hold(way, from, until + terms.linger);
            }
        }
        there.asking.sort();
        let held = there.held.values_mut().chain(there.owners.values_mut());
        let rest = there.done.values_mut().chain([&mut there.all_owners]);
        held.chain(rest).for_each(Times::sort);
        there
    }

    fn hold(&mut self, way: Way, from: Instant, until: Instant) {
        let held = if let Way::Owner(_) = way {
            self.all_owners.add(from, until, 1);
            &mut self.owners
        } else {
            &mut self.held
        };
        held.entry(way).or_default().add(from, until, 1);
    }

    fn in_the_way_of(&self, it: &Try, permits: Option<u32>) -> bool {
        let &Try { client, task, way, begin, end, asks, holds } = it;
        let of_task = self.done.get(&(client, task));
        let own = of_task.map_or(0, |times| times.between(begin, begin));
        if self.asking.between(begin, end) > asks + own {
            return true;
        }
        let there = |times: &Times| times.between(begin, end);
        if let Way::Permits(count) = way {
            let taken =
                |(held, times): (&Way, &Times)| u64::from(held.mode().permits()) * there(times);
            let taken: u64 = self.held.iter().map(taken).sum();
            return taken + u64::from(count) > permits.unwrap_or_default().into();
        }
        let excluded = self.held.iter().filter(|(held, _)| !held.stands(way));
        let excluded: u64 = excluded.map(|(_, times)| there(times)).sum();
        // An owner stands beside itself, and beside no other holder.
        let others = there(&self.all_owners) - self.owners.get(&way).map_or(0, there);
        excluded + others > holds
    }
}

/// Times, each with a weight.
#[derive(Default)]
pub(super) struct Times {
    begins: Vec<(Instant, u64)>,
    ends: Vec<(Instant, u64)>,
}

impl Times {
    pub(super) fn add(&mut self, begin: Instant, end: Instant, weight: u64) {
        self.begins.push((begin, weight));
        self.ends.push((end, weight));
    }

    /// Sorts them, each with the sum of all up to it.
    pub(super) fn sort(&mut self) {
        for list in [&mut self.begins, &mut self.ends] {
            list.sort_unstable();
            let mut sum = 0;
            for (_, weight) in list {
                sum += *weight;
                *weight = sum;
            }
        }
    }

    /// The sum of the weights that overlap this time.
    pub(super) fn between(&self, begin: Instant, end: Instant) -> u64 {
        self.begun(end) - self.ended(begin)
    }

    /// The sum of the weights that have begun at this moment.
    pub(super) fn begun(&self, end: Instant) -> u64 {
        Self::sum(&self.begins, self.begins.partition_point(|(at, _)| *at <= end))
    }

    /// The sum of the weights that have ended before this moment.
    pub(super) fn ended(&self, begin: Instant) -> u64 {
        Self::sum(&self.ends, self.ends.partition_point(|(at, _)| *at < begin))
    }

    fn sum(list: &[(Instant, u64)], count: usize) -> u64 {
        count.checked_sub(1).map_or(0, |last| list[last].1)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::{Deed, Patience};
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms() -> Terms {
        Terms::new(Deployment::Redis, Duration::from_secs(1))
    }

    fn found(scene: &Scene, terms: &Terms) -> usize {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        check(&operations, scene.events(), terms).len()
    }

    /// One task holds a lock until 100, and another tries and is refused at this time.
    fn refused(there: Way, way: Way, when: u64) -> usize {
        let mut scene = Scene::new();
        scene.held("a", "it", there, 1, [0, 1, 100]);
        let tries = scene.tries("b", "it", way, when);
        scene.fails(tries, when + 1, Refusal::Busy);
        found(&scene, &terms())
    }

    #[test]
    fn an_incompatible_holder_explains_a_refusal() {
        assert_eq!(refused(Way::Write, Way::Write, 50), 0);
        assert_eq!(refused(Way::Read, Way::Write, 50), 0);
        assert_eq!(refused(Way::Owner(1), Way::Owner(2), 50), 0);
        assert_eq!(refused(Way::Upgradable, Way::Upgradable, 50), 0);
    }

    #[test]
    fn a_compatible_or_absent_holder_explains_no_refusal() {
        assert_eq!(refused(Way::Read, Way::Read, 50), 1);
        assert_eq!(refused(Way::Upgradable, Way::Read, 50), 1);
        assert_eq!(refused(Way::Read, Way::Upgradable, 50), 1);
        assert_eq!(refused(Way::Owner(1), Way::Owner(1), 50), 1);
        // It left at 101, and may show for a moment.
        assert_eq!(refused(Way::Write, Way::Write, 110), 0);
        assert_eq!(refused(Way::Write, Way::Write, 200), 1);
    }

    #[test]
    fn readers_are_in_the_way_of_an_upgrade_and_it_is_not_in_its_own() {
        let refused = |when: u64, readers: &[&'static str]| {
            let mut scene = Scene::new();
            for reader in readers {
                scene.held(reader, "it", Way::Read, 1, [0, 1, 100]);
            }
            let it = scene.had("b", "it", Way::Upgradable, 1, [2, 3], 900);
            scene.turns_within(it, Way::Write, Patience::None, when, 900);
            scene.says(it, when + 1, |op| Deed::Kept { op, why: Refusal::Busy });
            scene.leaves(it, when + 2, 900);
            found(&scene, &terms())
        };
        assert_eq!([50, 110, 200].map(|when| refused(when, &["a", "c"])), [0, 0, 1]);
        assert_eq!([5, 50, 200].map(|when| refused(when, &[])), [1, 1, 1]);
    }

    #[test]
    fn a_waiter_explains_the_refusal_of_an_upgrade_only_while_it_waits() {
        let mut scene = Scene::new();
        let it = scene.had("b", "it", Way::Upgradable, 1, [0, 1], 900);
        let tries = |scene: &mut Scene, when| {
            scene.turns_within(it, Way::Write, Patience::None, when, 900);
            scene.says(it, when + 1, |op| Deed::Kept { op, why: Refusal::Busy });
        };
        let waits = scene.asks("a", "it", Way::Write, 10);
        tries(&mut scene, 50);
        scene.fails(waits, 60, Refusal::TimedOut);
        assert_eq!(found(&scene, &terms()), 0);
        tries(&mut scene, 400);
        assert_eq!(found(&scene, &terms()), 1);
    }

    #[test]
    fn a_waiter_or_a_place_that_may_have_stayed_explains_a_refusal() {
        let mut scene = Scene::new();
        scene.held("a", "it", Way::Read, 1, [0, 1, 100]);
        let gives_up = scene.asks("c", "it", Way::Write, 10);
        scene.fails(gives_up, 90, Refusal::GivenUp);
        let tries = scene.tries("b", "it", Way::Read, 50);
        scene.fails(tries, 51, Refusal::Busy);
        let again = scene.tries("b", "it", Way::Read, 250);
        scene.fails(again, 251, Refusal::Busy);
        assert_eq!(found(&scene, &terms()), 0);
        let late = scene.tries("b", "it", Way::Read, 500);
        scene.fails(late, 501, Refusal::Busy);
        assert_eq!(found(&scene, &terms()), 1);
    }

    #[test]
    fn a_holder_of_one_lock_explains_the_refusal_of_all() {
        let mut scene = Scene::new();
        scene.held("a", "it", Way::Write, 1, [0, 1, 100]);
        let together = ["it", "that"].map(|key| scene.tries("b", key, Way::Write, 50));
        together.into_iter().for_each(|tries| scene.fails(tries, 51, Refusal::Busy));
        assert_eq!(found(&scene, &terms()), 0);
        let together = ["it", "that"].map(|key| scene.tries("b", key, Way::Write, 500));
        together.into_iter().for_each(|tries| scene.fails(tries, 501, Refusal::Busy));
        assert_eq!(found(&scene, &terms()), 2);
    }

    #[test]
    fn permits_are_refused_only_if_there_may_be_too_few() {
        let refused = |count| {
            let mut scene = Scene::new();
            scene.held("a", "s0", Way::Permits(2), 1, [0, 1, 100]);
            let tries = scene.tries("b", "s0", Way::Permits(count), 50);
            scene.fails(tries, 51, Refusal::Busy);
            found(&scene, &terms())
        };
        assert_eq!([refused(1), refused(2)], [1, 0]);
    }

    #[test]
    fn all_permits_of_a_changed_limit_are_granted_but_for_the_forgotten_ones() {
        let refused = |count| {
            let mut scene = Scene::new();
            for (limit, when) in [(6, 10), (9, 20)] {
                let key = || "s1".to_owned();
                scene.event("a", when, Deed::Resize { key: key(), limit });
                scene.event("a", when + 1, Deed::Resized { key: key(), limit: Some(limit) });
            }
            let forgotten = scene.had("a", "s1", Way::Permits(1), 1, [30, 31], 1_000);
            scene.says(forgotten, 40, |op| Deed::Forgot { op });
            let tries = scene.tries("b", "s1", Way::Permits(count), 5_000);
            scene.fails(tries, 5_001, Refusal::Busy);
            found(&scene, &terms())
        };
        assert_eq!([refused(8), refused(9)], [1, 0]);
    }

    #[test]
    fn no_task_is_in_its_own_way() {
        let refused = |task| {
            let mut scene = Scene::new();
            let ask = |op, task| Deed::Ask {
                op,
                task,
                key: "l0".to_owned(),
                way: Way::Permits(1),
                patience: Patience::None,
            };
            let token = lock_core::FencingToken::new(1);
            scene.event("a", 10, ask(0, 7));
            scene.event("a", 11, Deed::Got { op: 0, token, valid_until: at(900) });
            scene.event("a", 12, ask(1, task));
            scene.event("a", 13, Deed::Not { op: 1, why: Refusal::Busy });
            found(&scene, &terms())
        };
        assert_eq!([refused(7), refused(8)], [1, 0]);
    }

    #[test]
    fn two_that_try_may_refuse_each_other() {
        let mut scene = Scene::new();
        for client in ["a", "b"] {
            let tries = scene.tries(client, "it", Way::Write, 50);
            scene.fails(tries, 60, Refusal::Busy);
        }
        assert_eq!(found(&scene, &terms()), 0);
    }

    #[test]
    fn tries_are_not_judged_while_a_worker_stands_still() {
        let mut terms = terms();
        let (fault, extent) = (Fault::StopWorker, Extent::Minority);
        terms.troubles = vec![Trouble {
            fault,
            extent,
            servers: vec![],
            workers: vec![],
            begin: at(10),
            end: at(30),
        }];
        let mut scene = Scene::new();
        let tries = scene.tries("b", "it", Way::Write, 50);
        scene.fails(tries, 51, Refusal::Busy);
        assert_eq!(found(&scene, &terms), 0);
        scene.event("b", 60, Deed::Late { millis: 0 });
        let later = scene.tries("b", "it", Way::Write, 20_000);
        scene.fails(later, 20_001, Refusal::Busy);
        assert_eq!(found(&scene, &terms), 1);
    }
}
