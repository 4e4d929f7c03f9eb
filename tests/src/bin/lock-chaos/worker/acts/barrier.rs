//! Barriers.

use std::sync::Arc;
use std::time::Duration;

use lock_tests::chaos::history::Way;

use crate::worker::op::{Asking, Subject};
use crate::worker::refusal::Denial;
use crate::worker::shelf::BARRIER;
use crate::worker::task::Task;

/// How long to wait for others that may not come.
const PATIENCE: Duration = Duration::from_millis(500);

/// One task of each client arrives, so that not all tasks wait there at once.
const WHO: u32 = 0;

pub(super) async fn act(task: &mut Task) {
    if task.number != WHO {
        return;
    }
    let crew = Arc::clone(&task.crew);
    let Some(counting) = &crew.shelf.counting else { return };
    let limit = task.some_time(PATIENCE.min(crew.options.wait_limit));
    let (whim, of) = (task.whim(), crew.options.party);
    // No task requests a lock here, in any way.
    let subject = Subject { key: BARRIER, way: Way::Read };
    let arrived = Asking::arrive(&crew.journal, task.number, subject, of);
    match whim.bear(counting.barrier.wait_timeout(limit)).await {
        Some(Ok(passed)) => arrived.passed(passed.is_leader()),
        Some(Err(error)) => arrived.not(&error.refusal()),
        None => drop(arrived),
    }
}
