//! The record of the events of a client.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use lock_core::{Clock, Instant};
use lock_tests::chaos::history::{Deed, Op, Recorder};

use super::options::Options;
use super::ticker::Ticks;

/// The events of one client.
#[derive(Debug)]
pub(crate) struct Journal {
    recorder: Recorder,
    /// The clock by which its guards say how long they are valid.
    clock: Clock,
    next: AtomicU64,
    /// How often its runtime has ended. Work that began before that is over, and writes no more
    /// events.
    era: RwLock<Era>,
    calls: Mutex<HashMap<Op, Call>>,
    ticks: Ticks,
    /// The longest time of a call.
    patience: Duration,
}

/// The era in which an operation began: between two ends of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Era(u32);

/// A call that has not returned yet.
#[derive(Debug)]
struct Call {
    key: &'static str,
    since: u64,
    is_late: bool,
}

/// The additional time of a call, beyond its time limit, on a machine that is busy with a fault.
const SLACK: Duration = Duration::from_secs(10);

impl Journal {
    pub(crate) fn open(options: &Options, client: &str, ticks: Ticks) -> io::Result<Self> {
        let clock = if options.urls.is_empty() { Clock::tokio() } else { Clock::boot() };
        Ok(Self {
            recorder: Recorder::open(&options.folder, client)?,
            clock,
            next: AtomicU64::new(0),
            era: RwLock::new(Era(0)),
            calls: Mutex::default(),
            ticks,
            patience: options.wait_limit + 2 * options.ttl + SLACK,
        })
    }

    /// The number of a new operation.
    pub(super) fn number(&self) -> Op {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn era(&self) -> Era {
        *self.era.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Instant {
        self.recorder.now()
    }

    /// An instant of the guards' clock, on the clock of the events, or a moment before.
    pub(super) fn dated(&self, valid_until: Instant) -> Instant {
        if self.clock == Clock::boot() {
            return valid_until;
        }
        // In this order, so that the error is to the early side.
        let (here, there) = (self.recorder.now(), self.clock.now());
        let ahead = valid_until.saturating_duration_since(there);
        here + ahead - there.saturating_duration_since(valid_until)
    }

    /// Writes an event that belongs to no operation.
    pub(crate) fn record(&self, deed: &Deed) {
        self.recorder.record(deed);
    }

    /// Writes an event of an operation that began in this era, unless the era is over.
    pub(super) fn record_in(&self, era: Era, deed: &Deed) {
        self.record_at(era, self.now(), deed);
    }

    /// As above, with a time that was read before.
    pub(super) fn record_at(&self, era: Era, at: Instant, deed: &Deed) {
        let now = self.era.read().unwrap_or_else(PoisonError::into_inner);
        if *now == era {
            self.recorder.record_at(at, deed);
        }
    }

    /// All open operations have ended: no more of their events are written.
    pub(crate) fn collapse(&self) {
        let mut era = self.era.write().unwrap_or_else(PoisonError::into_inner);
        era.0 += 1;
        self.recorder.record(&Deed::Collapse);
    }

    /// A call of this operation begins, and lasts until the returned value is dropped.
    pub(super) fn calls(self: &Arc<Self>, op: Op, key: &'static str) -> Calling {
        let call = Call { key, since: self.ticks.now(), is_late: false };
        self.open_calls().insert(op, call);
        Calling { journal: Arc::clone(self), op }
    }

    /// The calls that take far too long, each once.
    pub(crate) fn hanging(&self) -> Vec<(Op, &'static str)> {
        let mut calls = self.open_calls();
        let late = calls
            .iter_mut()
            .filter(|(_, call)| !call.is_late && self.ticks.since(call.since) > self.patience);
        late.map(|(op, call)| {
            call.is_late = true;
            (*op, call.key)
        })
        .collect()
    }

    fn open_calls(&self) -> MutexGuard<'_, HashMap<Op, Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that has not returned yet.
#[must_use = "the call has returned when this is dropped"]
#[derive(Debug)]
pub(super) struct Calling {
    journal: Arc<Journal>,
    op: Op,
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.journal.open_calls().remove(&self.op);
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::chaos::history::read;

    use super::*;

    fn journal(folder: &std::path::Path, ticks: &Ticks) -> Arc<Journal> {
        let folder = folder.to_str().unwrap();
        let args = ["--folder", folder, "--client", "w", "--deployment", "memory", "--ttl", "500"];
        let options = Options::parse(args.into_iter().map(str::to_owned)).unwrap();
        Arc::new(Journal::open(&options, "w", ticks.clone()).unwrap())
    }

    #[test]
    fn a_call_hangs_when_it_takes_far_longer_than_it_may_wait() {
        let folder = tempfile::tempdir().unwrap();
        let ticks = Ticks::default();
        let journal = journal(folder.path(), &ticks);
        let short = journal.calls(1, "m0");
        let _long = journal.calls(2, "m1");
        // Ten leases to wait, two more, and a margin.
        ticks.pass(12 * Duration::from_millis(500) + SLACK);
        assert_eq!(journal.hanging(), []);
        drop(short);
        ticks.pass(Duration::from_millis(20));
        assert_eq!(journal.hanging(), [(2, "m1")]);
        assert_eq!(journal.hanging(), []);
    }

    #[test]
    fn what_began_before_a_collapse_has_nothing_more_to_say() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path(), &Ticks::default());
        let before = journal.era();
        let lost = |op| Deed::Lost { op };
        journal.record_in(before, &lost(1));
        journal.collapse();
        journal.record_in(before, &lost(2));
        journal.record_in(journal.era(), &lost(3));
        let deeds: Vec<Deed> =
            read(folder.path()).unwrap().into_iter().map(|event| event.deed).collect();
        assert_eq!(deeds, [lost(1), Deed::Collapse, lost(3)]);
    }

    #[test]
    fn instants_of_the_memory_are_told_by_the_clock_of_the_events() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path(), &Ticks::default());
        let hour = Duration::from_secs(3_600);
        let (there, here) = (Clock::tokio().now(), Clock::boot().now());
        let soon = Duration::from_secs(60);
        for (told, expected) in [(there + hour, here + hour), (there - hour, here - hour)] {
            let told = journal.dated(told);
            let off = told.as_nanos().abs_diff(expected.as_nanos());
            assert!(off < soon.as_nanos() as u64, "{told:?} is not {expected:?}");
            // Not a moment later than it is.
            assert!(told <= expected + Clock::tokio().now().saturating_duration_since(there));
        }
    }
}
