//! How late the machine is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_tests::chaos::history::Deed;

use super::journal::Journal;

const TICK: Duration = Duration::from_millis(10);

/// The least lateness of a tick that is reported.
const LATE: Duration = Duration::from_millis(50);

/// How often the lateness is checked.
const ROUND: u32 = 100;

/// Ticks for ever, on a thread of its own that no task can block.
pub(super) fn tick(journal: Arc<Journal>) {
    std::thread::spawn(move || {
        loop {
            let late = |_| {
                let before = Instant::now();
                std::thread::sleep(TICK);
                before.elapsed().saturating_sub(TICK)
            };
            let worst = (0..ROUND).map(late).max().unwrap_or_default();
            if worst > LATE {
                let millis = u64::try_from(worst.as_millis()).unwrap_or(u64::MAX);
                journal.record(&Deed::Late { millis });
            }
        }
    });
}
