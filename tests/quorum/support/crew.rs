//! Processes that take one lock over and over, and write down who had it when.

use std::collections::HashSet;
use std::time::Duration;

use lock_tests::{Direction, Proxy, Worker, eventually, lock_worker};
use tempfile::NamedTempFile;

use super::history::History;
use super::{LEASE, Nodes, SOON};

/// What they do by turns, as it is told to a [`Worker`].
const HOW: &str = "write read descend read descend write";

/// For how long they go on asking while no process gets the lock.
const PATIENCE: Duration = Duration::from_secs(60);

/// Some processes, each with a way of its own to each server.
pub(crate) struct Crew {
    members: Vec<Member>,
    ledger: NamedTempFile,
}

pub(crate) struct Member {
    ways: Vec<Proxy>,
    pub(crate) worker: Worker,
}

impl Crew {
    /// Starts so many processes, and returns once each has had a turn.
    pub(crate) fn start(nodes: &Nodes, processes: usize) -> Self {
        Self::of((0..processes).map(|_| Member::start(nodes)).collect())
    }

    fn of(members: Vec<Member>) -> Self {
        let crew = Self { members, ledger: NamedTempFile::new().unwrap() };
        for member in &crew.members {
            member.worker.send(&format!("mix it 1 {} {HOW}", crew.ledger.path().display()));
        }
        crew.goes_on(SOON);
        crew
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Waits until all processes have had another turn, except those that stand still.
    #[track_caller]
    pub(crate) fn goes_on(&self, limit: Duration) {
        let running = self.members.iter().enumerate();
        let running = running.filter(|(_, member)| member.worker.is_running());
        self.go_on(&running.map(|(number, _)| number).collect::<Vec<_>>(), limit);
    }

    /// Waits until these have had another turn.
    #[track_caller]
    pub(crate) fn go_on(&self, members: &[usize], limit: Duration) {
        let before = self.lines().len();
        let able: HashSet<u32> =
            members.iter().map(|&number| self.members[number].worker.pid()).collect();
        eventually("each process has had another turn", limit, || {
            for member in &self.members {
                let failed = member.worker.poll("failed it");
                assert!(failed.is_none(), "{failed:?}");
            }
            let lines = self.lines();
            let process = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
            able.is_subset(&lines[before..].iter().map(process).collect())
        });
    }

    /// Lets all processes rest, and checks what they have written. No two holders that exclude each other had the lock
    /// at once while their leases were valid. Tokens increase from one holder to each holder that asked later.
    #[track_caller]
    pub(crate) fn rest(self) {
        for member in &self.members {
            member.worker.send("rest it");
        }
        for member in &self.members {
            member.worker.wait_for("worked it", SOON * 2);
        }
        let history = History::parse(self.lines().iter().map(|line| line.trim_end()));
        assert_eq!(history.processes().len(), self.members.len());
        history.assert_readers_and_writers();
        println!("{} turns", history.turns());
    }

    /// How many ways of holding the lock have been written down.
    pub(crate) fn count(&self) -> usize {
        self.lines().len()
    }

    /// What has been written, but for a line that is not whole.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.ledger.path()).unwrap();
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
    }
}

impl Member {
    fn start(nodes: &Nodes) -> Self {
        let ways: Vec<_> = nodes.servers().iter().map(Proxy::before).collect();
        let urls: Vec<_> = ways.iter().map(Proxy::url).collect();
        let worker = Worker::builder(lock_worker!())
            .ttl(LEASE)
            .max_ttl(nodes.max_ttl.duration())
            .node_timeout(nodes.timeout())
            .wait_limit(PATIENCE)
            .fair(true)
            .spawn_over(&urls);
        Self { ways, worker }
    }

    /// Cuts it off from these servers: its connections are closed, and it gets no others.
    pub(crate) fn cut_off_from(&self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes {
            self.ways[node].refuse();
            self.ways[node].cut();
        }
    }

    /// Holds back what goes this way between it and these servers.
    pub(crate) fn silence(&self, nodes: impl IntoIterator<Item = usize>, direction: Direction) {
        for node in nodes {
            self.ways[node].silence(direction);
        }
    }

    /// Delays all that it says to these servers.
    pub(crate) fn delay(&self, nodes: impl IntoIterator<Item = usize>, delay: Duration) {
        for node in nodes {
            self.ways[node].delay(Direction::ToServer, delay);
        }
    }

    pub(crate) fn heal(&self) {
        self.ways.iter().for_each(Proxy::pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    #[should_panic(expected = " at once")]
    async fn processes_that_do_not_exclude_each_other_are_found_out() {
        // Each on servers of its own.
        let nodes = [Nodes::new(3).await, Nodes::new(3).await];
        let crew = Crew::of(nodes.iter().map(Member::start).collect());
        crew.goes_on(SOON);
        eventually("there were many turns", SOON, || crew.count() > 500);
        crew.rest();
    }
}
