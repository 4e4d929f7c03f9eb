//! Cells: all readers see one value, and it was made once, by one task alone.
//!
//! Values are numbers that are unique to an attempt.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use lock_core::Instant;

use super::terms::Terms;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::{Deed, Event, Op, Refusal};

pub(super) fn check(events: &[Event], terms: &Terms) -> Vec<Violation> {
    let (cells, mut violations) = read(events, terms);
    let (forgets, unrest) = (terms.unrest(Property::Values), terms.unrest(Property::Errors));
    for (key, cell) in &cells {
        let found = [cell.different(), cell.vanished(), cell.again(terms, &unrest)];
        let found = found.into_iter().flatten().chain(cell.at_once(terms, &unrest));
        // A fault of the store at any later time may show whenever a task asks.
        let found = found.filter(|(at, _)| !forgets.touches(cell.begin, *at));
        let tell = |(at, text)| Violation::new(Property::Values, (at, at), key, text);
        violations.extend(found.map(tell));
    }
    violations
}

type Name<'a> = (&'a str, Op);

type Found = (Instant, String);

/// The fate of one cell.
struct Cell<'a> {
    /// When a task first wanted its value.
    begin: Instant,
    makes: Vec<Make<'a>>,
    values: BTreeSet<u64>,
    /// The answers, in the order of times.
    saws: Vec<Saw<'a>>,
}

/// An attempt to make the value.
struct Make<'a> {
    name: Name<'a>,
    begin: Instant,
    /// When it was over, as far as known.
    end: Option<Instant>,
}

/// An answer.
struct Saw<'a> {
    name: Name<'a>,
    asked: Instant,
    at: Instant,
    value: Option<u64>,
}

/// A call that has not returned.
struct Look<'a> {
    key: &'a str,
    asked: Instant,
    /// Its attempt, by its number in the cell.
    make: Option<usize>,
    /// An attempt that has come to nothing.
    failed: bool,
}

impl Cell<'_> {
    fn since(begin: Instant) -> Self {
        Self { begin, makes: Vec::new(), values: BTreeSet::new(), saws: Vec::new() }
    }
}

/// The cells, and calls that have failed without a cause.
fn read<'a>(events: &'a [Event], terms: &Terms) -> (BTreeMap<&'a str, Cell<'a>>, Vec<Violation>) {
    let mut cells = BTreeMap::<&str, Cell<'_>>::new();
    let mut open = HashMap::<Name<'_>, Look<'_>>::new();
    let mut odd = Vec::new();
    for event in events {
        let (at, client) = (event.at, event.client.as_str());
        match &event.deed {
            Deed::Look { op, key, .. } => {
                cells.entry(key).or_insert_with(|| Cell::since(at));
                open.insert((client, *op), Look { key, asked: at, make: None, failed: false });
            }
            Deed::Make { op } => {
                let Some(look) = open.get_mut(&(client, *op)) else { continue };
                let Some(cell) = cells.get_mut(look.key) else { continue };
                look.make = Some(cell.makes.len());
                cell.makes.push(Make { name: (client, *op), begin: at, end: None });
            }
            Deed::Made { op, value } => {
                let Some(look) = open.get_mut(&(client, *op)) else { continue };
                let Some(cell) = cells.get_mut(look.key) else { continue };
                if let Some(make) = look.make {
                    cell.makes[make].end = Some(at);
                }
                cell.values.extend(value);
                look.failed = value.is_none();
            }
            Deed::Saw { op, value } => {
                let Some(look) = open.remove(&(client, *op)) else { continue };
                let Some(cell) = cells.get_mut(look.key) else { continue };
                let (name, asked, value) = ((client, *op), look.asked, *value);
                cell.saws.push(Saw { name, asked, at, value });
            }
            Deed::Not { op, why } => {
                let Some(look) = open.remove(&(client, *op)) else { continue };
                odd.extend(unexplained(&look, (client, *op), at, why, terms));
            }
            _ => {}
        }
    }
    (cells, odd)
}

/// A call that failed without a known cause.
fn unexplained(
    look: &Look<'_>,
    (client, op): Name<'_>,
    at: Instant,
    why: &Refusal,
    terms: &Terms,
) -> Option<Violation> {
    let own = || terms.of_client(client);
    let is_explained = match why {
        // Its own attempt has failed.
        Refusal::Failed(kind) if kind == INIT => look.failed,
        Refusal::Failed(kind) => own().explained(kind, look.asked, at),
        Refusal::Lost | Refusal::Closed => own().unrest(Property::Errors).touches(look.asked, at),
        Refusal::Busy | Refusal::TimedOut | Refusal::GivenUp => true,
    };
    (!is_explained).then(|| {
        let text = format!("there is no reason for {why}: {client} op {op}");
        Violation::new(Property::Errors, (at, at), look.key, text)
    })
}

/// The errors of a call whose attempt to make the value has failed.
const INIT: &str = "Init";

impl Cell<'_> {
    /// The first answer with a value.
    fn known(&self) -> Option<(&Saw<'_>, u64)> {
        self.saws.iter().find_map(|saw| Some((saw, saw.value?)))
    }

    /// An answer with another value than the first one, or with a value that no task has made.
    fn different(&self) -> Option<Found> {
        let (first, value) = self.known()?;
        let is_wrong = |seen: u64| seen != value || !self.values.contains(&seen);
        let wrong = self.saws.iter().find(|saw| saw.value.is_some_and(is_wrong))?;
        let seen = wrong.value.unwrap_or_default();
        let text = if seen == value {
            format!("{} saw {seen}, which no task has made", tell(wrong.name))
        } else {
            format!("{} saw {value}, and {} saw {seen}", tell(first.name), tell(wrong.name))
        };
        Some((wrong.at, text))
    }

    /// A caller that asked after others had seen the value, and heard that there is none.
    fn vanished(&self) -> Option<Found> {
        let (first, value) = self.known()?;
        let late = |saw: &&Saw<'_>| saw.value.is_none() && saw.asked > first.at;
        let saw = self.saws.iter().find(late)?;
        let text = format!("{} saw {value}, and {} nothing", tell(first.name), tell(saw.name));
        Some((saw.at, text))
    }

    /// A caller that began to make the value after others had seen it. A caller that stood still between finding
    /// none and beginning may do so.
    fn again(&self, terms: &Terms, unrest: &Unrest) -> Option<Found> {
        let (first, value) = self.known()?;
        let late = |make: &&Make<'_>| {
            make.begin > first.at && !unrest.touches(make.begin - terms.ttl, make.begin)
        };
        let make = self.makes.iter().find(late)?;
        let (first, make) = (tell(first.name), (tell(make.name), make.begin));
        Some((make.1, format!("{first} saw {value}, and {} made another after that", make.0)))
    }

    /// A caller that began to make the value while another was making it. A caller that stands still may be so
    /// for longer than its lease lives.
    fn at_once(&self, terms: &Terms, unrest: &Unrest) -> Option<Found> {
        let mut there: Option<(&Make<'_>, Instant)> = None;
        for make in &self.makes {
            if let Some((other, end)) = there
                && make.begin < end
                && !unrest.touches(other.begin - terms.ttl, make.begin)
            {
                let text = format!("{} and {} made it at once", tell(other.name), tell(make.name));
                return Some((make.begin, text));
            }
            if let Some(end) = make.end
                && there.is_none_or(|(_, last)| last < end)
            {
                there = Some((make, end));
            }
        }
        None
    }
}

fn tell((client, op): Name<'_>) -> String {
    format!("{client} op {op}")
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

    fn looks(scene: &mut Scene, client: &str, op: Op, when: u64) {
        scene.event(client, when, Deed::Look { op, task: 0, key: "c1".to_owned() });
    }

    /// A caller that asks and gets an answer at these times.
    fn sees(scene: &mut Scene, client: &str, op: Op, [asks, told]: [u64; 2], value: Option<u64>) {
        looks(scene, client, op, asks);
        scene.event(client, told, Deed::Saw { op, value });
    }

    /// A caller that asks at the time at which it begins to make the value, and has made it at the other.
    fn makes(
        scene: &mut Scene,
        client: &str,
        op: Op,
        [begins, ends]: [u64; 2],
        value: Option<u64>,
    ) {
        looks(scene, client, op, begins);
        scene.event(client, begins, Deed::Make { op });
        scene.event(client, ends, Deed::Made { op, value });
    }

    fn found(scene: &Scene) -> Vec<(Property, u64)> {
        let of = |it: &Violation| (it.property, it.until.as_nanos() / 1_000_000);
        check(scene.events(), &terms()).iter().map(of).collect()
    }

    /// One caller has made 7, and another sees it.
    fn made() -> Scene {
        let mut scene = Scene::new();
        sees(&mut scene, "b", 0, [0, 5], None);
        makes(&mut scene, "a", 0, [10, 20], Some(7));
        scene.event("a", 30, Deed::Saw { op: 0, value: Some(7) });
        sees(&mut scene, "b", 1, [15, 31], Some(7));
        // It asked before any caller saw the value.
        sees(&mut scene, "c", 0, [28, 32], None);
        scene
    }

    #[test]
    fn what_one_has_made_all_see() {
        assert_eq!(found(&made()), []);
    }

    #[test]
    fn another_value_no_value_and_an_unmade_value_are_found() {
        let mut other = made();
        makes(&mut other, "c", 9, [15, 15], Some(8));
        other.event("c", 40, Deed::Saw { op: 9, value: Some(8) });
        assert!(found(&other).contains(&(Property::Values, 40)));
        let mut none = made();
        sees(&mut none, "c", 9, [31, 40], None);
        assert_eq!(found(&none), [(Property::Values, 40)]);
        let mut unknown = Scene::new();
        sees(&mut unknown, "a", 0, [0, 5], Some(7));
        assert_eq!(found(&unknown), [(Property::Values, 5)]);
    }

    #[test]
    fn it_is_made_once_and_by_one_alone() {
        let mut again = made();
        makes(&mut again, "c", 9, [35, 40], None);
        again.event("c", 41, Deed::Saw { op: 9, value: Some(7) });
        assert_eq!(found(&again), [(Property::Values, 35)]);
        let mut at_once = made();
        makes(&mut at_once, "c", 9, [19, 40], None);
        at_once.event("c", 41, Deed::Saw { op: 9, value: Some(7) });
        assert_eq!(found(&at_once), [(Property::Values, 19)]);
        let mut after = made();
        makes(&mut after, "c", 9, [20, 25], None);
        after.event("c", 41, Deed::Saw { op: 9, value: Some(7) });
        assert_eq!(found(&after), []);
    }

    #[test]
    fn a_client_that_stood_still_may_make_the_value_beside_another() {
        let mut scene = made();
        makes(&mut scene, "c", 9, [19, 40], None);
        let mut terms = terms();
        terms.troubles = vec![Trouble {
            fault: Fault::StopWorker,
            extent: Extent::Minority,
            servers: vec![],
            workers: vec![0],
            begin: at(12),
            end: at(18),
        }];
        assert_eq!(check(scene.events(), &terms), []);
    }

    #[test]
    fn a_store_that_forgets_may_have_another_value_afterwards() {
        let with = |begin: u64| {
            let mut scene = made();
            makes(&mut scene, "c", 9, [9_000, 9_010], Some(8));
            scene.event("c", 9_020, Deed::Saw { op: 9, value: Some(8) });
            let mut terms = terms();
            terms.troubles = vec![Trouble {
                fault: Fault::Flush,
                extent: Extent::Majority,
                servers: vec![0],
                workers: vec![],
                begin: at(begin),
                end: at(begin),
            }];
            check(scene.events(), &terms).len()
        };
        assert_eq!(with(1_000), 0);
        assert_ne!(with(9_100), 0);
    }

    #[test]
    fn a_call_fails_for_a_reason() {
        let ends = |made: Option<u64>, why: &Refusal| {
            let mut scene = Scene::new();
            makes(&mut scene, "a", 0, [0, 5], made);
            scene.event("a", 10, Deed::Not { op: 0, why: why.clone() });
            found(&scene)
        };
        let failed = |kind: &str| Refusal::Failed(kind.to_owned());
        let wrong = [(Property::Errors, 10)];
        assert_eq!(ends(None, &failed(INIT)), []);
        assert_eq!(ends(Some(7), &failed(INIT)), wrong);
        assert_eq!(ends(None, &failed("Timeout")), wrong);
        assert_eq!(ends(Some(7), &Refusal::Lost), wrong);
        assert_eq!(ends(Some(7), &Refusal::GivenUp), []);
    }
}
