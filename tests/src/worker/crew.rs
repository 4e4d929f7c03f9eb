//! Workers that take turns, and their notes.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use tempfile::NamedTempFile;

use super::{Worker, WorkerBuilder};
use crate::{SOON, eventually};

/// The length of a record: two short numbers, three long ones, and the separators.
const RECORD: usize = 2 * (10 + 1) + 3 * (20 + 1);

/// One turn of a [`Crew`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Turn {
    /// The id of the process.
    pub process: u32,
    /// The number of the task in the process.
    pub task: u32,
    /// The fencing token of the lease.
    pub token: FencingToken,
    /// When the task asked for the lock.
    pub asked: Instant,
    /// When the task got the lock.
    pub had: Instant,
}

impl Turn {
    /// `None` if this is no record.
    fn parse(record: &[u8]) -> Option<Self> {
        let words = std::str::from_utf8(record).ok()?.split_whitespace();
        let numbers = words.map(|word| word.parse().ok()).collect::<Option<Vec<u64>>>()?;
        let [process, task, token, asked, had] = numbers[..] else { return None };
        Some(Self {
            process: process.try_into().ok()?,
            task: task.try_into().ok()?,
            token: FencingToken::new(token),
            asked: Instant::from_nanos(asked),
            had: Instant::from_nanos(had),
        })
    }
}

/// Workers that take the lock "it" over and over, with several tasks each.
///
/// Each turn reads where a common file ends, and writes its record there in a later step. So two turns at once would
/// overwrite one record: a lost update.
#[derive(Debug)]
pub struct Crew {
    workers: Vec<Worker>,
    ledger: NamedTempFile,
}

impl Crew {
    /// Starts this many workers on the store at `url`, and returns once every task has had a turn.
    ///
    /// # Panics
    ///
    /// If a worker does not start, or a task gets no turn.
    #[track_caller]
    pub fn start(options: &WorkerBuilder, url: &str, workers: usize, tasks: u32) -> Self {
        let workers = (0..workers).map(|_| options.clone().spawn(url)).collect();
        Self::of(workers, tasks, Duration::ZERO)
    }

    /// As above, with workers that have started. Each turn lasts for `hold` at least.
    ///
    /// # Panics
    ///
    /// If a task gets no turn.
    #[track_caller]
    pub fn of(workers: Vec<Worker>, tasks: u32, hold: Duration) -> Self {
        let ledger = NamedTempFile::new().expect("a file for the turns");
        for worker in &workers {
            let (ledger, hold) = (ledger.path().display(), hold.as_millis());
            worker.send(&format!("work it {tasks} {ledger} {hold}"));
        }
        let crew = Self { workers, ledger };
        let (mut seen, mut heads) = (0, HashSet::new());
        eventually("every task has had a turn", SOON * 2, || {
            let turns = crew.turns_since(seen);
            seen += turns.len();
            heads.extend(turns.iter().map(|turn| (turn.process, turn.task)));
            heads.len() == crew.workers.len() * tasks as usize
        });
        crew
    }

    /// Waits until each worker has had another turn.
    ///
    /// # Panics
    ///
    /// If a worker gets no turn within `limit`.
    #[track_caller]
    pub fn goes_on(&self, limit: Duration) {
        let (mut seen, mut processes) = (self.count(), HashSet::new());
        eventually("each process has had another turn", limit, || {
            let turns = self.turns_since(seen);
            seen += turns.len();
            processes.extend(turns.iter().map(|turn| turn.process));
            processes.len() == self.workers.len()
        });
    }

    /// The number of turns so far.
    ///
    /// # Panics
    ///
    /// If the file of the turns is gone.
    pub fn count(&self) -> usize {
        let bytes = fs::metadata(self.ledger.path()).expect("the file of the turns").len();
        bytes as usize / RECORD
    }

    /// Stops all workers, and returns all turns in order.
    ///
    /// # Panics
    ///
    /// If a worker gave up, a turn was overwritten by another, or a token is not above the previous one.
    #[track_caller]
    pub fn rest(self) -> Vec<Turn> {
        for worker in &self.workers {
            worker.send("rest it");
        }
        let taken = |worker: &Worker| {
            let worked = worker.wait_for("worked it", SOON * 2);
            worked.word(2).parse::<usize>().expect("a number of turns")
        };
        let taken: usize = self.workers.iter().map(taken).sum();
        let turns = self.turns_since(0);
        assert_eq!(turns.len(), taken, "two had the lock at once");
        for pair in turns.windows(2) {
            assert!(pair[0].token < pair[1].token, "{:?} came before {:?}", pair[0], pair[1]);
        }
        turns
    }

    /// The turns from this number on, in order.
    fn turns_since(&self, first: usize) -> Vec<Turn> {
        let bytes = self.read_from(first * RECORD).expect("the file of the turns");
        let turn = |record: &[u8]| {
            let text = || String::from_utf8_lossy(record).into_owned();
            Turn::parse(record).unwrap_or_else(|| panic!("no turn: {:?}", text()))
        };
        bytes.chunks_exact(RECORD).map(turn).collect()
    }

    fn read_from(&self, at: usize) -> io::Result<Vec<u8>> {
        let mut file = self.ledger.reopen()?;
        file.seek(SeekFrom::Start(at as u64))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}
