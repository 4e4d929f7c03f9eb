//! A clock that shows how late the machine is, and stands still when the process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_tests::chaos::history::Deed;

use super::journal::Journal;
use crate::voice::say;

const TICK: Duration = Duration::from_millis(10);

/// The least lateness of a tick that is reported.
const LATE: Duration = Duration::from_millis(25);

/// How often the ticker looks for calls that hang, in ticks.
const ROUND: u64 = 100;

/// The number of ticks so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ticks(Arc<AtomicU64>);

impl Ticks {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The least time since then during which the process was awake.
    pub(crate) fn since(&self, then: u64) -> Duration {
        TICK * u32::try_from(self.now().saturating_sub(then)).unwrap_or(u32::MAX)
    }

    #[cfg(test)]
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add((time.as_millis() / TICK.as_millis()) as u64, Ordering::Relaxed);
    }

    /// Ticks for ever, on a plain thread that nothing in this process blocks, and reports calls that hang.
    /// The first of the journals records the lateness.
    pub(crate) fn run(&self, journals: &[Arc<Journal>]) {
        loop {
            let before = Instant::now();
            std::thread::sleep(TICK);
            let late = before.elapsed().saturating_sub(TICK);
            if let Some(first) = journals.first().filter(|_| late > LATE) {
                let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                first.record(&Deed::Late { millis });
            }
            let ticks = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            if ticks.is_multiple_of(ROUND) {
                for (op, key) in journals.iter().flat_map(|journal| journal.hanging()) {
                    say(format_args!("hangs {op} {key}"));
                }
            }
        }
    }
}
