//! Processes that take turns, and their notes.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use lock_tests::{Worker, WorkerBuilder, eventually};
use tempfile::NamedTempFile;

use super::SOON;

/// The length of a record: two short numbers, three long ones, and the separators.
const RECORD: usize = 2 * (10 + 1) + 3 * (20 + 1);

/// One turn: which task had the lock, when it asked for it and got it, and its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) process: u32,
    pub(crate) task: u32,
    pub(crate) token: FencingToken,
    pub(crate) asked: Instant,
    pub(crate) had: Instant,
}

impl Turn {
    fn parse(line: &str) -> Self {
        let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [process, task, token, asked, had] = numbers[..] else { panic!("no turn: {line}") };
        Self {
            process: process.try_into().unwrap(),
            task: task.try_into().unwrap(),
            token: FencingToken::new(token),
            asked: Instant::from_nanos(asked),
            had: Instant::from_nanos(had),
        }
    }
}

/// Processes that take the lock "it" over and over, with several tasks each.
pub(crate) struct Crew {
    workers: Vec<Worker>,
    ledger: NamedTempFile,
}

impl Crew {
    /// Starts this many processes, and returns once every task has had a turn.
    pub(crate) fn start(options: &WorkerBuilder, url: &str, processes: usize, tasks: u32) -> Self {
        Self::of((0..processes).map(|_| options.clone().spawn(url)).collect(), tasks)
    }

    fn of(workers: Vec<Worker>, tasks: u32) -> Self {
        let ledger = NamedTempFile::new().unwrap();
        for worker in &workers {
            worker.send(&format!("work it {tasks} {}", ledger.path().display()));
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

    /// Waits until each process has had another turn.
    #[track_caller]
    pub(crate) fn goes_on(&self, limit: Duration) {
        let (mut seen, mut processes) = (self.count(), HashSet::new());
        eventually("each process has had another turn", limit, || {
            let turns = self.turns_since(seen);
            seen += turns.len();
            processes.extend(turns.iter().map(|turn| turn.process));
            processes.len() == self.workers.len()
        });
    }

    /// The number of turns so far.
    pub(crate) fn count(&self) -> usize {
        let bytes = std::fs::metadata(self.ledger.path()).unwrap().len();
        usize::try_from(bytes).unwrap() / RECORD
    }

    /// The turns from this number on, in order.
    #[track_caller]
    pub(crate) fn turns_since(&self, first: usize) -> Vec<Turn> {
        use std::io::{Read, Seek, SeekFrom};

        let mut file = self.ledger.reopen().unwrap();
        file.seek(SeekFrom::Start((first * RECORD) as u64)).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        bytes
            .chunks_exact(RECORD)
            .map(|line| Turn::parse(std::str::from_utf8(line).unwrap()))
            .collect()
    }

    /// Stops all processes, and returns all turns.
    ///
    /// Fails if a process gave up, a turn was overwritten by another, or a token is not above the
    /// previous one.
    #[track_caller]
    pub(crate) fn rest(self) -> Vec<Turn> {
        for worker in &self.workers {
            worker.send("rest it");
        }
        let taken = |worker: &Worker| {
            worker.wait_for("worked it", SOON * 2).word(2).parse::<usize>().unwrap()
        };
        let taken: usize = self.workers.iter().map(taken).sum();
        let turns = self.turns_since(0);
        assert_eq!(turns.len(), taken, "two had the lock at once");
        for pair in turns.windows(2) {
            assert!(pair[0].token < pair[1].token, "{:?} came before {:?}", pair[0], pair[1]);
        }
        turns
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{RedisServer, lock_worker};

    use super::*;

    #[test]
    #[should_panic(expected = "two had the lock at once")]
    fn processes_that_do_not_exclude_each_other_are_found_out() {
        // Each on a server of its own.
        let servers = [(); 2].map(|()| RedisServer::start());
        let worker = |server: &RedisServer| Worker::spawn(lock_worker!(), &server.url());
        let crew = Crew::of(servers.iter().map(worker).collect(), 2);
        eventually("there were many turns", SOON * 2, || crew.count() > 3_000);
        crew.rest();
    }
}
