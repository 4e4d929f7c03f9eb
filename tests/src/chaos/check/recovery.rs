//! When all faults are healed, every client soon gets what it asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use lock_core::Instant;

use super::operations::Operations;
use super::terms::Terms;
use super::{Property, Violation};

/// Looks at every time after which nothing fails for as long as a recovery may take: a client that waits for a
/// kind of lock for at least half of that time, in any number of operations, gets one.
pub(super) fn check(operations: &Operations, terms: &Terms) -> Vec<Violation> {
    let times = calm(operations, terms);
    let mut clients = BTreeMap::new();
    for operation in operations.all.iter().filter(|operation| !operation.tries()) {
        let (asked, got) = (operation.asked, operation.got());
        let waits_until = operations.without_until(operation);
        let first = times.partition_point(|(_, end)| *end < asked);
        for &(begin, end) in times[first..].iter().take_while(|(begin, _)| *begin <= waits_until) {
            let who = (begin, end, operation.client, kind(operations.key(operation)));
            let waiting: &mut Waiting = clients.entry(who).or_default();
            waiting.served |= got.is_some_and(|got| begin <= got && got <= end);
            waiting.waits(asked.max(begin), waits_until.min(end));
        }
    }
    let starves = |(&(begin, end, client, kind), waiting): (&_, &Waiting)| {
        let lives = end <= operations.last_of(client);
        (lives && !waiting.served && waiting.time >= terms.recovery / 2).then(|| {
            let name = &operations.client_names()[client];
            let text = format!(
                "{name} waited for a lock like {kind} for {:?} of the time from {} to {}, and got none",
                waiting.time,
                Instant::as_nanos(begin),
                Instant::as_nanos(end),
            );
            Violation::new(Property::Recovery, (end, end), kind, text)
        })
    };
    clients.iter().filter_map(starves).collect()
}

/// How long a client waits, and whether it is served.
#[derive(Default)]
struct Waiting {
    served: bool,
    time: Duration,
    /// Until when its waits are counted already: several tasks may wait at once.
    counted: Option<Instant>,
}

impl Waiting {
    fn waits(&mut self, begin: Instant, end: Instant) {
        let begin = self.counted.map_or(begin, |counted| counted.max(begin));
        self.time += end.saturating_duration_since(begin);
        self.counted = Some(self.counted.map_or(end, |counted| counted.max(end)));
    }
}

/// The times that begin when all faults are healed, and last for as long as a recovery may take.
fn calm(operations: &Operations, terms: &Terms) -> Vec<(Instant, Instant)> {
    let unrest = terms.unrest(Property::Recovery);
    let first = operations.all.first().map(|operation| operation.asked);
    let begins = unrest.times().iter().map(|(_, end)| *end + Duration::from_nanos(1));
    let times = begins.chain(first).map(|begin| (begin, begin + terms.recovery));
    let mut times: Vec<_> = times.filter(|&(begin, end)| !unrest.touches(begin, end)).collect();
    times.sort_unstable();
    times
}

/// `m0` and `m1` are of one kind.
fn kind(key: &str) -> &str {
    key.trim_end_matches(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::{Deed, Refusal, Way};
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms(faults: &[(u64, u64)]) -> Terms {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.recovery = Duration::from_secs(2);
        let trouble = |&(begin, end)| Trouble {
            fault: Fault::StopServer,
            extent: Extent::Majority,
            servers: vec![0],
            workers: vec![],
            begin: at(begin),
            end: at(end),
        };
        terms.troubles = faults.iter().map(trouble).collect();
        terms
    }

    fn found(scene: &Scene, terms: &Terms) -> usize {
        let (operations, odd) = Operations::of(scene.events());
        assert_eq!(odd, []);
        check(&operations, terms).len()
    }

    /// A client that is served before a fault at 3 s, and after it from then on. It lives for 20 s.
    fn served_again(when: u64) -> Scene {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 1, 10]);
        scene.held("a", "m1", Way::Write, 2, [3_000, when, when + 1]);
        scene.event("a", 20_000, Deed::Late { millis: 0 });
        scene
    }

    #[test]
    fn a_waiter_is_served_soon_after_the_last_fault_ends() {
        let terms = terms(&[(2_500, 4_000)]);
        let whole = terms.unrest(Property::Recovery).times()[0].1.as_nanos() / 1_000_000;
        assert_eq!(found(&served_again(whole + 1_900), &terms), 0);
        assert_eq!(found(&served_again(whole + 2_100), &terms), 1);
    }

    #[test]
    fn nothing_is_demanded_before_the_next_fault_comes_too_soon() {
        let served = served_again(15_000);
        assert_eq!(found(&served, &terms(&[(2_500, 4_000), (8_000, 9_000)])), 1);
        assert_eq!(found(&served, &terms(&[(2_500, 4_000), (6_000, 12_000)])), 0);
    }

    #[test]
    fn many_short_waits_are_one_long_one_and_few_are_none() {
        let short = |step: usize| {
            let mut scene = Scene::new();
            for begin in (0_u64..2_000).step_by(step) {
                let id = scene.asks("a", "m0", Way::Write, begin);
                scene.fails(id, begin + 50, Refusal::TimedOut);
            }
            scene.event("a", 3_000, Deed::Late { millis: 0 });
            scene
        };
        assert_eq!(found(&short(60), &terms(&[])), 1);
        assert_eq!(found(&short(200), &terms(&[])), 0);
    }

    #[test]
    fn the_dead_are_not_waited_for() {
        let mut scene = Scene::new();
        scene.asks("a", "m0", Way::Write, 0);
        scene.event("a", 1_500, Deed::Late { millis: 0 });
        assert_eq!(found(&scene, &terms(&[])), 0);
        scene.event("a", 2_500, Deed::Late { millis: 0 });
        assert_eq!(found(&scene, &terms(&[])), 1);
    }
}
