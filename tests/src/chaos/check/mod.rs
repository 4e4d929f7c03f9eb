//! The findings about the locks in the history of a run: pure functions over events.
//!
//! First the events become operations again: which task asked when, for what, from when to when it *certainly* held it,
//! and until when the store may have held it. Then each property has a checker of its own, a sweep over times in O(n
//! log n). A finding is excused if the [table](super::table) says that the property is not promised then; every other
//! finding is a bug.
//!
//! | property | a finding |
//! | --- | --- |
//! | [`Exclusion`](Property::Exclusion) | two tasks that certainly hold a lock in ways that exclude each other, in the
//! history or at the resource |
//! | [`Conversions`](Property::Conversions) | another task in between, or tokens that change when they must not, or
//! stay when they must change |
//! | [`Permits`](Property::Permits) | more permits certainly held than there can be |
//! | [`Tokens`](Property::Tokens) | a token that is not above, or not unique |
//! | [`Resource`](Property::Resource) | a write under a valid guard that was refused |
//! | [`Wakeups`](Property::Wakeups) | a task waits, no task is in the way, and nothing happens |
//! | [`Recovery`](Property::Recovery) | a client that gets nothing although all faults are healed |
//! | [`Order`](Property::Order) | two tasks of a client that are served in another order than that of their requests |
//! | [`Overtaking`](Property::Overtaking) | a client that other clients pass too often |
//! | [`Tries`](Property::Tries) | a try that is refused although no task was in the way |
//! | [`Errors`](Property::Errors) | an error or a lost lease that nothing explains, an operation that takes too long |
//! | [`Barriers`](Property::Barriers) | a barrier that opens for fewer than its group, or has two leaders |
//! | [`Values`](Property::Values) | a cell with two values, or with a value that is made again |
//! | [`Commits`](Property::Commits) | a committed value that a later holder of a stored mutex does not build on, a
//! version that is not above, or a holder that finds half a value |
//! | [`Snapshots`](Property::Snapshots) | a reader of a stored mutex that sees no committed value or an old one, or
//! follows the versions back, or not to the end |
//! | [`Leaks`](Property::Leaks) | keys, files, threads, tasks, connections or memory that stay |
//! | [`History`](Property::History) | events that cannot follow one another: then nothing is proved |

mod barriers;
mod commits;
mod conversions;
mod errors;
mod exclusion;
mod lateness;
mod leaks;
mod limits;
mod losses;
mod operations;
mod overtaking;
mod permits;
mod recovery;
mod sequels;
mod terms;
mod tokens;
mod tries;
mod trouble;
mod unrest;
mod values;
mod wakeups;
mod writes;

#[cfg(test)]
mod model;
#[cfg(test)]
mod scene;

use std::fmt;

use lock_core::Instant;

use super::history::{Deed, Event};
use super::resource::Tally;
use operations::Operations;

pub use leaks::{Left, leaks};
use terms::Excuses;
pub use terms::Terms;
pub use trouble::Trouble;

/// A promise of the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(clippy::exhaustive_enums, reason = "the table has an entry for each")]
pub enum Property {
    /// No two tasks hold a lock at once in ways that exclude each other, both with a valid guard.
    Exclusion,
    /// No task gets in during a conversion, and its tokens are as promised.
    Conversions,
    /// No more permits are held than there are.
    Permits,
    /// Tokens increase, and are unique where that is promised.
    Tokens,
    /// The resource refuses no write under a valid guard.
    Resource,
    /// A waiter that could be served is served soon.
    Wakeups,
    /// When all faults are healed, every client soon gets what it asks for.
    Recovery,
    /// Tasks of one client are served in the order in which they asked.
    Order,
    /// Other clients do not overtake a waiter too often.
    Overtaking,
    /// No try is refused without a task in the way.
    Tries,
    /// Operations end in time, and fail only with errors that a fault explains.
    Errors,
    /// Groups at barriers are whole, and have one leader.
    Barriers,
    /// All readers of a cell see one value, which one of them has made alone and once.
    Values,
    /// Every holder of a stored mutex finds the value that was committed last, and versions increase.
    Commits,
    /// Readers of a stored mutex see committed values alone, in their order, and the last one in the end.
    Snapshots,
    /// Nothing stays behind.
    Leaks,
    /// The events of the run make sense.
    History,
}

impl Property {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Exclusion,
        Self::Conversions,
        Self::Permits,
        Self::Tokens,
        Self::Resource,
        Self::Wakeups,
        Self::Recovery,
        Self::Order,
        Self::Overtaking,
        Self::Tries,
        Self::Errors,
        Self::Barriers,
        Self::Values,
        Self::Commits,
        Self::Snapshots,
        Self::Leaks,
        Self::History,
    ];
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_ascii_lowercase())
    }
}

/// A promise that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The promise.
    pub property: Property,
    /// When it was first broken.
    pub at: Instant,
    /// When it held again, or when the break was noticed.
    pub until: Instant,
    /// The lock, or the client if it concerns no lock.
    pub key: String,
    /// The finding: with the client and number of each operation, and times as in the files.
    pub text: String,
}

impl Violation {
    pub(crate) fn new(
        property: Property,
        (at, until): (Instant, Instant),
        key: &str,
        text: String,
    ) -> Self {
        Self { property, at, until, key: key.to_owned(), text }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} at {}: {}", self.property, self.key, self.at.as_nanos(), self.text)
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Findings {
    /// The bugs.
    pub violations: Vec<Violation>,
    /// The excused findings, and their excuses.
    pub excused: Vec<(Violation, &'static str)>,
    /// Why the run proves less than it should.
    pub doubts: Vec<String>,
    /// The number of locks and permits that were granted.
    pub holds: usize,
}

/// The verdict of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "there is no fourth")]
pub enum Verdict {
    /// All promises held.
    Sound,
    /// No bug is known, but too little was tried.
    Inconclusive,
    /// A promise did not hold.
    Broken,
}

impl Findings {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        match (self.violations.is_empty(), self.doubts.is_empty()) {
            (false, _) => Verdict::Broken,
            (true, false) => Verdict::Inconclusive,
            (true, true) => Verdict::Sound,
        }
    }

    /// Adds a finding, unless it is excused.
    pub fn judge(&mut self, violation: Violation, terms: &Terms) {
        let why = terms.excuse(&violation);
        self.add(violation, why);
    }

    /// Adds it, unless there are enough like it already.
    fn add(&mut self, violation: Violation, excuse: Option<&'static str>) {
        let (property, key) = (violation.property, violation.key.as_str());
        let like_it = |it: &&Violation| it.property == property && it.key == key;
        match excuse {
            Some(why) if self.excused.iter().map(|(it, _)| it).filter(like_it).count() < MOST => {
                self.excused.push((violation, why));
            }
            None if self.violations.iter().filter(like_it).count() < MOST => {
                self.violations.push(violation);
            }
            _ => {}
        }
    }
}

/// A machine that is late for more than this fraction of a run proves little.
const MOST_LATE: u32 = 4;

/// The most violations of one property that are kept of each lock, and the most excused ones. The first few show what
/// is wrong.
const MOST: usize = 8;

/// Checks the events of a run, in the order of their times, and the findings of the resource.
///
/// [`leaks`] checks what is left behind, for which it has to look into servers as well.
pub fn check(events: &[Event], tally: &Tally, terms: &Terms) -> Findings {
    let terms = &terms.hearing(events);
    let (operations, odd) = Operations::of(events);
    let mut seen = odd;
    seen.extend(exclusion::check(&operations));
    seen.extend(conversions::check(&operations));
    seen.extend(permits::check(&operations, events, terms));
    seen.extend(tokens::check(&operations, events, terms));
    seen.extend(writes::check(&operations, events, tally, terms));
    seen.extend(wakeups::check(&operations, events, terms));
    seen.extend(recovery::check(&operations, terms));
    seen.extend(overtaking::check(&operations, terms));
    seen.extend(tries::check(&operations, events, terms));
    seen.extend(errors::check(&operations, events, terms));
    seen.extend(barriers::check(events, terms));
    seen.extend(values::check(events, terms));
    seen.extend(commits::check(events, terms));
    let mut findings =
        Findings { doubts: doubts(events, terms), holds: operations.held(), ..Default::default() };
    let mut excuses = Excuses::new(terms);
    for violation in seen {
        let why = excuses.find(&violation);
        findings.add(violation, why);
    }
    findings
}

fn doubts(events: &[Event], terms: &Terms) -> Vec<String> {
    let mut doubts = Vec::new();
    let first = terms.troubles.iter().map(|trouble| trouble.begin).min();
    let before = |event: &&Event| first.is_none_or(|first| event.at < first);
    let served = |event: &&Event| {
        matches!(
            event.deed,
            Deed::Got { .. } | Deed::Pass { .. } | Deed::Saw { value: Some(_), .. }
        )
    };
    let got = events.iter().filter(before).filter(served).count();
    if got < terms.traffic {
        doubts.push(format!("only {got} were served before the first fault, of {}", terms.traffic));
    }
    let late = lateness::lateness(events, &terms.stood_still)
        .map(|(_, late)| late)
        .max()
        .unwrap_or_default();
    if late > terms.slack {
        doubts.push(format!("the machine was late by {late:?}"));
    }
    if let (Some(first), Some(last)) = (events.first(), events.last()) {
        let (begin, end) = (first.at, last.at);
        let (late, all) =
            (terms.share_of_lateness(begin, end), end.saturating_duration_since(begin));
        if late > all / MOST_LATE {
            doubts.push(format!("the machine was late in {late:.1?} of {all:.1?}"));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::scene::{Scene, at};
    use super::*;
    use crate::chaos::history::Way;
    use crate::chaos::{Deployment, Extent, Fault};

    #[test]
    fn the_list_has_each_once() {
        let names: std::collections::HashSet<_> =
            Property::ALL.iter().map(Property::to_string).collect();
        assert_eq!(names.len(), Property::ALL.len());
    }

    /// Two tasks at once, after others had it.
    fn overlap() -> Scene {
        let mut scene = Scene::new();
        scene.held("a", "m0", Way::Write, 1, [0, 1, 10]);
        scene.held("a", "m0", Way::Write, 2, [2_000, 2_001, 2_020]);
        scene.held("b", "m0", Way::Write, 3, [2_000, 2_010, 2_030]);
        scene
    }

    fn flushed(begin: u64) -> Terms {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let (fault, extent, servers, workers) = (Fault::Flush, Extent::Majority, vec![0], vec![]);
        let (begin, end) = (at(begin), at(begin));
        terms.troubles = vec![Trouble { fault, extent, servers, workers, begin, end }];
        terms
    }

    #[test]
    fn what_the_table_excludes_is_excused_and_nothing_else() {
        let scene = overlap();
        let broken = check(scene.events(), &Tally::default(), &flushed(60_000));
        assert_eq!((broken.violations.len(), broken.holds), (1, 3));
        assert_eq!(broken.verdict(), Verdict::Broken);
        let excused = check(scene.events(), &Tally::default(), &flushed(1_900));
        assert_eq!((excused.violations.len(), excused.excused.len()), (0, 1));
        assert_eq!(excused.verdict(), Verdict::Sound);
    }

    #[test]
    fn what_is_excused_hides_nothing_that_comes_later() {
        let mut scene = Scene::new();
        for begin in (0..20).map(|number| 2_000 + 20 * number).chain([30_000]) {
            scene.held("a", "m0", Way::Write, begin, [begin, begin + 1, begin + 10]);
            scene.held("b", "m0", Way::Write, begin + 1, [begin, begin + 5, begin + 15]);
        }
        let findings = check(scene.events(), &Tally::default(), &flushed(1_900));
        assert_eq!((findings.excused.len(), findings.violations.len()), (MOST, 1));
    }

    #[test]
    fn a_run_that_tried_too_little_proves_nothing() {
        let scene = overlap();
        let mut terms = flushed(1_900);
        let doubts = |terms: &Terms| check(scene.events(), &Tally::default(), terms).doubts.len();
        terms.traffic = 1;
        assert_eq!(doubts(&terms), 0);
        terms.traffic = 2;
        assert_eq!(doubts(&terms), 1);
        let mut late = overlap();
        late.event("a", 5_000, Deed::Late { millis: 700 });
        let findings = check(late.events(), &Tally::default(), &flushed(1_900));
        assert_eq!(findings.verdict(), Verdict::Inconclusive);
    }
}
