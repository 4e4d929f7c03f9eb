//! One set of workers for a long time, and its leaks.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::check::{self, Findings, Property};
use super::super::history::{self, Deed, Event};
use super::super::stage::{Cast, Stage};
use super::super::{Deployment, Plan};
use super::{REST, left, machine, terms};
use crate::Random;

/// The time of work between two reads of the resources.
const ROUND: Duration = Duration::from_secs(20);

/// The results of a soak so far, after a round.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Soaked {
    /// How many rounds there were.
    pub rounds: usize,
    /// The number of locks and permits that were granted.
    pub holds: usize,
    /// The findings of all rounds.
    pub findings: Findings,
    /// The resources of each client at rest after this round: its name, files, threads, tasks, kibibytes.
    pub uses: Vec<(String, [u64; 4])>,
}

impl Soaked {
    /// Adds what was found in one more round.
    fn count(&mut self, found: Findings) {
        self.rounds += 1;
        self.holds += found.holds;
        // Cells are read for longer than a round, whose history does not contain their making.
        let found_here = found.violations.into_iter().filter(|it| it.property != Property::Values);
        self.findings.violations.extend(found_here);
        self.findings.violations.truncate(100);
        let round = self.rounds;
        let doubts = found.doubts.into_iter().map(|doubt| format!("in round {round}: {doubt}"));
        self.findings.doubts.extend(doubts);
    }
}

/// Runs workers that take everything for this time. Some of their tasks are ended wherever they are, and some
/// runtimes are replaced, but nothing else fails. Every round is checked like a run. The resources at rest after
/// the first round are compared with those after the last.
///
/// # Errors
///
/// If workers do not come to rest.
///
/// # Panics
///
/// As [`run`](super::run).
pub fn soak(
    deployment: Deployment,
    seed: u64,
    time: Duration,
    cast: &Cast,
    mut tell: impl FnMut(&Soaked),
) -> Result<Soaked, String> {
    let folder = TempDir::with_prefix("soak-").map_err(|error| error.to_string())?;
    let plan = Plan { seed, tasks: 8, workers: 3, ..Plan::of(deployment, Vec::new()) };
    let mut random = Random::from_seed(seed);
    let stage = Stage::set(&plan, folder.path(), cast);
    let terms = terms(&plan);
    let begin = Instant::now();
    let (mut uses, mut resized): (Vec<Event>, Vec<Event>) = Default::default();
    let findings = Findings::default();
    let mut soaked = Soaked { rounds: 0, holds: 0, findings, uses: Vec::new() };
    loop {
        machine::watched(&stage, folder.path(), || work(&stage, &mut random))
            .map_err(|error| error.to_string())?;
        stage.rest(plan.wait_limit + REST)?;
        let round = history::read(folder.path()).map_err(|error| error.to_string())?;
        // The limits of semaphores are the results of all earlier rounds.
        let mut events = resized.clone();
        events.extend(round);
        let found = check::check(&events, &stage.resource().tally(), &terms);
        soaked.count(found);
        let at_rest = last_uses(&events);
        soaked.uses = at_rest.iter().map(shown).collect();
        uses.extend(at_rest);
        events.retain(|event| matches!(event.deed, Deed::Resize { .. } | Deed::Resized { .. }));
        resized = events;
        tell(&soaked);
        if begin.elapsed() >= time {
            break;
        }
        empty(folder.path()).map_err(|error| error.to_string())?;
        stage.go(REST)?;
    }
    stage.shut_down(plan.wait_limit + REST)?;
    let mut leaks = check::leaks(&uses, &left(&stage, &terms));
    leaks.extend(
        stage.posts().iter().flat_map(|post| post.complaints()).map(super::complaint(&uses)),
    );
    soaked.findings.violations.extend(leaks);
    Ok(soaked)
}

/// A round, in which some tasks are ended, and once a runtime.
fn work(stage: &Stage, random: &mut Random) {
    let workers = stage.plan().workers;
    for part in 0..4 {
        std::thread::sleep(ROUND / 4);
        let worker = random.below(workers);
        stage.order(worker, if part == 2 { "collapse" } else { "abort 2" });
    }
}

/// The last record of the resources of each client.
fn last_uses(events: &[Event]) -> Vec<Event> {
    let mut seen = std::collections::BTreeMap::new();
    for event in events {
        if let Deed::Uses { .. } = event.deed {
            seen.insert(event.client.clone(), event.clone());
        }
    }
    seen.into_values().collect()
}

fn shown(event: &Event) -> (String, [u64; 4]) {
    match event.deed {
        Deed::Uses { files, threads, tasks, memory } => {
            (event.client.clone(), [files, threads, tasks, memory])
        }
        _ => (event.client.clone(), [0; 4]),
    }
}

/// Empties the files of the history, to which all clients continue to append.
fn empty(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "events") {
            OpenOptions::new().write(true).truncate(true).open(path)?;
        }
    }
    Ok(())
}
