//! The task of an entry that listens for hints.

use tokio::task::AbortHandle;

/// The task that listens for hints. Its number tells its events from those of earlier tasks.
#[derive(Default)]
pub(super) struct WatchTask {
    number: u64,
    task: Option<AbortHandle>,
    /// Whether to abort the task once the entry is unlocked. An abort may drop what the task owns, so it must not run
    /// under the lock.
    stopped: bool,
}

impl WatchTask {
    /// Begins a new task, in place of the former. Returns its number.
    pub(super) fn begin(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Whether the task with this number is the present one.
    pub(super) fn is(&self, number: u64) -> bool {
        self.number == number
    }

    /// The task runs. Returns the former task, to be aborted once the entry is unlocked.
    pub(super) fn runs(&mut self, task: AbortHandle) -> Option<AbortHandle> {
        self.task.replace(task)
    }

    pub(super) fn stop(&mut self) {
        self.number += 1;
        self.stopped = true;
    }

    /// The task to be aborted.
    pub(super) fn take_stopped(&mut self) -> Option<AbortHandle> {
        if std::mem::take(&mut self.stopped) { self.task.take() } else { None }
    }

    pub(super) fn abort(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}
