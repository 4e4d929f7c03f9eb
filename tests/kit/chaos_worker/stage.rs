//! Workers on one stage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use lock_tests::Worker;
use lock_tests::chaos::history::{Deed, Event, read};
use lock_tests::chaos::resource::Resource;
use tempfile::TempDir;

use super::operations::verb;
use super::{LIMIT, TASKS, TTL};

/// Workers, and what they share.
pub(super) struct Stage {
    pub(super) folder: TempDir,
    pub(super) resource: Resource,
    pub(super) workers: Vec<Worker>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = TempDir::with_prefix("chaos-").unwrap();
        let resource = Resource::start(folder.path()).unwrap();
        Self { folder, resource, workers: Vec::new() }
    }

    /// Adds this many workers over these servers.
    pub(super) fn with(
        mut self,
        count: usize,
        deployment: &str,
        urls: &[String],
        clients: usize,
    ) -> Self {
        for number in 0..count {
            let worker = Worker::builder(env!("CARGO_BIN_EXE_lock-chaos"))
                .command("worker")
                .arg("--folder", self.folder.path().display())
                .arg("--client", format!("w{number}"))
                .arg("--seed", 7)
                .arg("--deployment", deployment)
                .arg("--clients", clients)
                .arg("--tasks", TASKS)
                .arg("--wait-limit", 8_000)
                .arg("--fair", number == 0)
                .ttl(TTL)
                .max_ttl(TTL * 2)
                .node_timeout(Duration::from_millis(400))
                .spawn_over(urls);
            self.workers.push(worker);
        }
        self
    }

    /// Sends all workers a command, and waits until they have executed it.
    #[track_caller]
    pub(super) fn all(&self, order: &str, done: &str) {
        self.workers.iter().for_each(|worker| worker.send(order));
        for worker in &self.workers {
            worker.wait_for(done, LIMIT);
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn events(&self) -> Vec<Event> {
        read(self.path()).unwrap()
    }

    /// Waits until each of these deeds is in the history.
    #[track_caller]
    pub(super) fn until_seen(&self, deeds: &[&str]) {
        self.until(&format!("all of {deeds:?} were written"), |events| {
            let seen: BTreeSet<String> = events.iter().map(verb).collect();
            deeds.iter().all(|deed| seen.contains(*deed))
        });
    }

    /// Waits until every client has held something again.
    #[track_caller]
    pub(super) fn goes_on(&self) {
        let count = |events: &[Event]| {
            let mut counts = BTreeMap::<String, usize>::new();
            for event in events {
                let got = matches!(event.deed, Deed::Got { .. });
                *counts.entry(event.client.clone()).or_default() += usize::from(got);
            }
            counts
        };
        let before = count(&self.events());
        self.until("every client goes on", |events| {
            let now = count(events);
            before.iter().all(|(client, had)| now.get(client).is_some_and(|has| has > had))
        });
    }

    /// Waits until the history satisfies the condition. A read costs more than a write, so it does not read
    /// too often.
    #[track_caller]
    pub(super) fn until(&self, what: &str, condition: impl Fn(&[Event]) -> bool) {
        let begin = std::time::Instant::now();
        while !condition(&self.events()) {
            assert!(begin.elapsed() < LIMIT, "gave up waiting until {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Stops all workers, makes one try everything and all shut their locks down, and returns the history.
    #[track_caller]
    pub(super) fn end(&self) -> Vec<Event> {
        self.all("rest", "rested");
        self.workers[0].send("at 0 probe");
        self.workers[0].wait_for("probed", LIMIT);
        self.all("shutdown", "shut");
        for worker in &self.workers {
            for bad in ["panicked", "hangs", "failed"] {
                let said = worker.poll(bad);
                assert!(said.is_none(), "{said:?}");
            }
        }
        self.events()
    }
}
