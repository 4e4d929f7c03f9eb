//! Processes that hold one lock in many ways, and their notes.

use std::collections::HashSet;
use std::time::Duration;

use lock_tests::{Worker, eventually};
use tempfile::NamedTempFile;

use super::{History, SOON};

/// Processes that hold the lock "it" over and over, with several tasks each.
pub(crate) struct Mixers {
    workers: Vec<Worker>,
    ledger: NamedTempFile,
}

impl Mixers {
    /// Starts these workers, each with this many tasks, and returns once each has had a turn. See [`Worker`]
    /// for the ways in which they hold the lock.
    pub(crate) fn start(workers: Vec<Worker>, tasks: u32, how: &str) -> Self {
        let ledger = NamedTempFile::new().unwrap();
        for worker in &workers {
            worker.send(&format!("mix it {tasks} {} {how}", ledger.path().display()));
        }
        let mixers = Self { workers, ledger };
        mixers.goes_on(SOON * 2);
        mixers
    }

    pub(crate) fn worker(&self, number: usize) -> &Worker {
        &self.workers[number]
    }

    /// Waits until each process that is alive and does not stand still has written something more.
    #[track_caller]
    pub(crate) fn goes_on(&self, limit: Duration) {
        let before = self.lines().len();
        let able: HashSet<u32> =
            self.workers.iter().filter(|worker| worker.is_running()).map(Worker::pid).collect();
        eventually("each process has had another turn", limit, || {
            for worker in &self.workers {
                let failed = worker.poll("failed it");
                assert!(failed.is_none(), "{failed:?}");
            }
            let lines = self.lines();
            let process = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
            able.is_subset(&lines[before..].iter().map(process).collect())
        });
    }

    /// Waits until this much has been written in all.
    #[track_caller]
    pub(crate) fn until(&self, lines: usize) {
        eventually("much was written", SOON * 3, || self.count() >= lines);
    }

    /// Waits until all permits were held at once, by several processes. On a loaded machine that may take a
    /// while.
    #[track_caller]
    pub(crate) fn until_all_are_held(&self, permits: u64) {
        eventually("all permits were held at once", SOON * 3, || {
            let history = History::parse(self.lines().iter().map(|line| line.trim_end()));
            let (most, processes) = history.assert_permits(permits);
            most == permits && processes > 1
        });
    }

    /// How much has been written.
    pub(crate) fn count(&self) -> usize {
        self.lines().len()
    }

    /// The notes, without a line that is not complete.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.ledger.path()).unwrap();
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
    }

    /// Stops all processes that are alive, and returns their notes. Fails if one gave up.
    #[track_caller]
    pub(crate) fn rest(self) -> History {
        let alive: Vec<&Worker> = self.workers.iter().filter(|worker| worker.is_alive()).collect();
        for worker in &alive {
            worker.send("rest it");
        }
        let turns = |worker: &&Worker| {
            worker.wait_for("worked it", SOON * 2).word(2).parse::<usize>().unwrap()
        };
        let turns: usize = alive.iter().map(turns).sum();
        let history = History::parse(self.lines().iter().map(|line| line.trim_end()));
        assert!(history.turns() >= turns, "not all was written down");
        history
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{RedisServer, lock_worker};

    use super::*;

    /// Each on a server of its own.
    fn strangers(servers: &[RedisServer]) -> Vec<Worker> {
        servers.iter().map(|server| Worker::spawn(lock_worker!(), &server.url())).collect()
    }

    #[test]
    #[should_panic(expected = "at once")]
    fn writers_that_do_not_exclude_each_other_are_found_out() {
        let servers = [(); 2].map(|()| RedisServer::start());
        let mixers = Mixers::start(strangers(&servers), 2, "write descend climb");
        mixers.until(400);
        mixers.rest().assert_readers_and_writers();
    }

    #[test]
    #[should_panic(expected = "permits of 3 were held")]
    fn permits_that_are_counted_twice_are_found_out() {
        let servers = [(); 2].map(|()| RedisServer::start());
        let mixers = Mixers::start(strangers(&servers), 2, "permits 3 3");
        mixers.until(400);
        mixers.rest().assert_permits(3);
    }
}
