//! The common state of the tasks of a client.

use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lock_sync::PassedOwner;
use lock_tests::Random;

use super::attendance::Attendance;
use super::journal::Journal;
use super::options::{Options, Primitive};
use super::shelf::Shelf;

pub(crate) struct Crew {
    pub(crate) options: Arc<Options>,
    /// The name of the client.
    pub(crate) name: String,
    pub(crate) journal: Arc<Journal>,
    pub(crate) shelf: Shelf,
    /// The primitives to take, each as often as its weight.
    pub(crate) menu: Vec<Primitive>,
    /// Nothing new is started any more.
    pub(crate) over: AtomicBool,
    /// Work without a task handle: holds that a task has handed on.
    pub(crate) errands: Attendance,
    /// Threads that wait for a lock.
    pub(crate) blocking: Attendance,
    /// Whether this client has forgotten a permit: once is enough.
    pub(crate) has_forgotten: AtomicBool,
    owners: AtomicU64,
    values: AtomicU64,
    started: AtomicU64,
}

impl Crew {
    pub(crate) fn new(
        options: Arc<Options>,
        name: String,
        journal: Arc<Journal>,
        shelf: Shelf,
    ) -> Self {
        let menu = options.primitives.iter().flat_map(|&it| repeat_n(it, it.weight()));
        Self {
            menu: menu.collect(),
            options,
            name,
            journal,
            shelf,
            over: AtomicBool::new(false),
            errands: Attendance::default(),
            blocking: Attendance::default(),
            has_forgotten: AtomicBool::new(false),
            owners: AtomicU64::new(0),
            values: AtomicU64::new(0),
            started: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// The random numbers of the next task that starts.
    pub(crate) fn random(&self) -> Random {
        let started = self.started.fetch_add(1, Ordering::Relaxed);
        Random::from_seed(digest(&format!("{} {} {started}", self.options.seed, self.name)))
    }

    /// A number for an owner that is unique in the run, and not zero.
    pub(crate) fn owner(&self) -> u64 {
        let owner = self.owners.fetch_add(1, Ordering::Relaxed);
        digest(&format!("owner {} {owner}", self.name)) | 1
    }

    /// A value that is unique in the run.
    pub(crate) fn value(&self) -> u64 {
        let value = self.values.fetch_add(1, Ordering::Relaxed);
        digest(&format!("value {} {value}", self.name))
    }

    /// The secret of the owner that all clients of the run know.
    pub(crate) fn shared_owner(&self) -> PassedOwner {
        let folder = self.options.folder.display();
        let half = |which: u8| digest(&format!("{which} {folder}"));
        let text = format!("{:016x}{:016x}", half(0), half(1));
        text.parse().unwrap_or_else(|error| panic!("no owner: {error}"))
    }
}

/// The hash of a text, equal in every process: FNV-1a, and a step of SplitMix64 to spread it.
pub(crate) fn digest(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Random::from_seed(text.bytes().fold(0xcbf2_9ce4_8422_2325, step)).draw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_a_text_is_the_same_for_all_and_another_for_another() {
        assert_eq!(digest("7 w1 0"), digest("7 w1 0"));
        let texts = ["7 w1 0", "7 w1 1", "7 w2 0", "8 w1 0", ""];
        let all: std::collections::HashSet<u64> = texts.map(digest).into();
        assert_eq!(all.len(), texts.len());
    }
}
