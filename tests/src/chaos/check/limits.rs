//! The highest possible number of permits at any time.

use lock_core::Instant;

use super::terms::Terms;
use crate::chaos::history::{Deed, Event};
use crate::chaos::table::confuses_limits;

/// The limit of one semaphore over time, as far as it is known.
#[derive(Debug)]
pub(super) struct Limit {
    /// In the order of times.
    steps: Vec<Step>,
    /// The lowest limit that was ever requested.
    pub(super) least: u32,
}

/// The possible limits from an instant on.
#[derive(Clone, Copy, Debug)]
struct Step {
    from: Instant,
    least: u32,
    most: u32,
}

impl Limit {
    /// `changes` are the events that change the limit, in order.
    pub(super) fn of(first: u32, changes: &[&Event], terms: &Terms) -> Self {
        let begin = Instant::from_nanos(0);
        let mut state = State {
            least: first,
            most: first,
            under_way: Vec::new(),
            doubt: 0,
            lowest: u32::MAX,
            doubted: begin,
        };
        let mut steps = vec![Step { from: begin, least: first, most: first }];
        let mut least = first;
        for event in changes {
            match event.deed {
                Deed::Resize { limit, .. } => {
                    least = least.min(limit);
                    state.begins(event, limit);
                }
                Deed::Resized { limit, .. } => {
                    least = least.min(limit.unwrap_or(least));
                    state.ends(event, limit, terms);
                }
                _ => continue,
            }
            steps.push(Step { from: event.at, least: state.least(), most: state.most() });
        }
        let mut limit = Self { steps, least };
        if !changes.is_empty() {
            limit.forget(changes, terms);
        }
        limit
    }

    /// The highest possible limit at that time.
    pub(super) fn at(&self, time: Instant) -> u32 {
        self.steps[self.present(time)].most
    }

    /// The lowest possible limit at some time between these.
    pub(super) fn least_between(&self, begin: Instant, end: Instant) -> u32 {
        let steps = &self.steps[self.present(begin)..=self.present(end)];
        steps.iter().map(|step| step.least).min().unwrap_or(0)
    }

    /// The last step at or before that time.
    fn present(&self, time: Instant) -> usize {
        self.steps.partition_point(|step| step.from <= time).saturating_sub(1)
    }

    /// The times at which the limit changes.
    pub(super) fn changes(&self) -> impl Iterator<Item = Instant> {
        self.steps.iter().skip(1).map(|step| step.from)
    }

    /// If a server forgets, or repeats a change, the limit is unknown until a later change was
    /// requested and confirmed.
    fn forget(&mut self, changes: &[&Event], terms: &Terms) {
        for trouble in terms.troubles.iter().filter(|trouble| confuses_limits(trouble.fault)) {
            let over = trouble.end + terms.lingers();
            let asks =
                |event: &&&Event| matches!(event.deed, Deed::Resize { .. }) && event.at > over;
            let asked = changes.iter().find(asks).map(|event| event.at);
            let told = asked.and_then(|asked| {
                let tells = |event: &&&Event| {
                    matches!(event.deed, Deed::Resized { limit: Some(_), .. }) && event.at > asked
                };
                changes.iter().find(tells).map(|event| event.at)
            });
            let until = told.unwrap_or(Instant::FAR_FUTURE);
            let within = |time: Instant| trouble.begin <= time && time < until;
            let unknown = |from| Step { from, least: 0, most: u32::MAX };
            let here = self.steps.iter_mut().filter(|step| within(step.from));
            here.for_each(|step| *step = unknown(step.from));
            let begin = self.steps.partition_point(|step| step.from < trouble.begin);
            self.steps.insert(begin, unknown(trouble.begin));
        }
    }
}

/// The knowledge of the limit, while the changes are read.
struct State {
    /// The bounds of the limit, without the changes below.
    least: u32,
    most: u32,
    under_way: Vec<Change>,
    /// How many more there may be by changes with an unknown outcome.
    doubt: u32,
    /// The lowest limit by those changes.
    lowest: u32,
    /// When the last of those changes was given up.
    doubted: Instant,
}

/// A requested change.
struct Change {
    client: String,
    asked: Instant,
    limit: u32,
    more: u32,
    /// Another change overlapped it: the order in the store is unknown.
    crowded: bool,
}

impl State {
    fn begins(&mut self, event: &Event, limit: u32) {
        self.under_way.iter_mut().for_each(|change| change.crowded = true);
        let crowded = !self.under_way.is_empty();
        let (client, asked) = (event.client.clone(), event.at);
        let more = limit.saturating_sub(self.most);
        self.under_way.push(Change { client, asked, limit, more, crowded });
    }

    fn ends(&mut self, event: &Event, limit: Option<u32>, terms: &Terms) {
        let of_client = |change: &Change| change.client == event.client;
        let Some(place) = self.under_way.iter().position(of_client) else { return };
        let change = self.under_way.remove(place);
        match limit {
            Some(limit) if change.crowded => {
                (self.least, self.most) = (self.least.min(limit), self.most.max(limit));
            }
            Some(limit) => {
                (self.least, self.most) = (limit, limit);
                // A failed request may still be on its way for a while.
                if change.asked > self.doubted + terms.lingers() {
                    (self.doubt, self.lowest) = (0, u32::MAX);
                }
            }
            None => {
                self.doubt = self.doubt.saturating_add(change.more);
                self.lowest = self.lowest.min(change.limit);
                self.doubted = event.at;
            }
        }
    }

    fn most(&self) -> u32 {
        let under_way = self.under_way.iter().map(|change| change.more);
        under_way.fold(self.most.saturating_add(self.doubt), u32::saturating_add)
    }

    fn least(&self) -> u32 {
        let under_way = self.under_way.iter().map(|change| change.limit);
        under_way.fold(self.least.min(self.lowest), u32::min)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Trouble;
    use super::super::scene::{Scene, at};
    use super::*;
    use crate::chaos::{Deployment, Extent, Fault};

    fn terms() -> Terms {
        Terms::new(Deployment::Redis, Duration::from_secs(1))
    }

    fn change(
        scene: &mut Scene,
        client: &str,
        [asks, has]: [u64; 2],
        limit: u32,
        answer: Option<u32>,
    ) {
        let key = "s1".to_owned();
        scene.event(client, asks, Deed::Resize { key: key.clone(), limit });
        scene.event(client, has, Deed::Resized { key, limit: answer });
    }

    fn limits(scene: &Scene, terms: &Terms, times: &[u64]) -> Vec<u32> {
        let changes: Vec<&Event> = scene.events().iter().collect();
        let limit = Limit::of(8, &changes, terms);
        times.iter().map(|&time| limit.at(at(time))).collect()
    }

    fn least(scene: &Scene, terms: &Terms, times: &[[u64; 2]]) -> Vec<u32> {
        let changes: Vec<&Event> = scene.events().iter().collect();
        let limit = Limit::of(8, &changes, terms);
        times.iter().map(|&[begin, end]| limit.least_between(at(begin), at(end))).collect()
    }

    #[test]
    fn more_is_there_when_it_is_asked_for_and_less_when_it_is_told() {
        let mut scene = Scene::new();
        change(&mut scene, "a", [10, 20], 9, Some(9));
        change(&mut scene, "a", [30, 40], 6, Some(6));
        assert_eq!(limits(&scene, &terms(), &[5, 10, 20, 30, 39, 40]), [8, 9, 9, 9, 9, 6]);
        let seen = least(&scene, &terms(), &[[5, 9], [19, 20], [20, 29], [29, 30], [50, 60]]);
        assert_eq!(seen, [8, 8, 9, 6, 6]);
    }

    #[test]
    fn changes_at_once_add_up() {
        let mut scene = Scene::new();
        change(&mut scene, "a", [10, 20], 9, Some(9));
        change(&mut scene, "b", [11, 21], 9, Some(10));
        assert_eq!(limits(&scene, &terms(), &[10, 11, 20, 21]), [9, 10, 10, 10]);
    }

    #[test]
    fn a_failed_change_may_have_been_made_until_a_client_hears_otherwise() {
        let mut scene = Scene::new();
        change(&mut scene, "a", [10, 20], 9, None);
        change(&mut scene, "a", [30, 40], 7, Some(7));
        change(&mut scene, "a", [5_000, 5_010], 7, Some(7));
        assert_eq!(limits(&scene, &terms(), &[20, 40, 5_010]), [9, 8, 7]);
        change(&mut scene, "b", [9_000, 9_001], 5, None);
        change(&mut scene, "b", [9_010, 9_020], 9, Some(9));
        change(&mut scene, "b", [19_010, 19_020], 9, Some(9));
        let seen = least(&scene, &terms(), &[[0, 5], [35, 40], [9_030, 9_040], [20_000, 20_000]]);
        assert_eq!(seen, [8, 7, 5, 9]);
    }

    #[test]
    fn a_server_that_forgets_makes_it_unknown() {
        let mut terms = terms();
        let (begin, end) = (at(100), at(200));
        let (fault, extent, servers) = (Fault::Flush, Extent::Majority, vec![0]);
        terms.troubles = vec![Trouble { fault, extent, servers, workers: vec![], begin, end }];
        let mut scene = Scene::new();
        assert_eq!(limits(&scene, &terms, &[50, 150]), [8, 8]);
        change(&mut scene, "a", [10, 20], 7, Some(7));
        change(&mut scene, "a", [300, 310], 6, Some(6));
        change(&mut scene, "a", [5_000, 5_010], 7, Some(7));
        let seen = limits(&scene, &terms, &[50, 100, 310, 5_009, 5_010]);
        assert_eq!(seen, [7, u32::MAX, u32::MAX, u32::MAX, 7]);
        assert_eq!(least(&scene, &terms, &[[50, 60], [50, 100], [5_010, 6_000]]), [7, 0, 7]);
    }
}
