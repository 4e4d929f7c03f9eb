//! The task that listens for hints about a key.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use lock_core::{Error, Hint, Key};
use tokio::runtime::{Handle, Id};
use tokio::task::AbortHandle;

use super::Entry;
use super::Shared;

/// The task that listens for hints. Events of an earlier one are told apart by their number.
#[derive(Default)]
pub(super) struct WatchTask {
    number: u64,
    task: Option<AbortHandle>,
    /// Whether the task is to be stopped, once the entry is unlocked: what it owns may be dropped with that.
    stopped: bool,
}

impl WatchTask {
    /// The number of a new one, in place of the former.
    pub(super) fn begin(&mut self) -> u64 {
        self.number += 1;
        self.number
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

impl Entry {
    /// Runs the watch with this number, unless it is out of date.
    pub(crate) fn begin_watch(self: &Arc<Self>, number: u64) {
        if self.lock().watch.number != number {
            return;
        }
        let driver = Handle::current();
        let runtime = self.shared.ears.runtime().unwrap_or(driver);
        let listener =
            Listener { entry: Arc::downgrade(self), number, runtime: runtime.id(), over: false };
        let watch = watch(listener, self.shared.clone(), self.key.clone());
        let task = runtime.spawn(watch).abort_handle();
        let mut state = self.lock();
        if state.watch.number == number {
            state.watch.task = Some(task);
        } else {
            drop(state);
            task.abort();
        }
    }

    fn watch_event(self: &Arc<Self>, number: u64, event: WatchEvent<'_>) {
        if matches!(event, WatchEvent::Hint(Hint::Wanted)) {
            self.wanted.store(true, Ordering::Release);
        }
        self.event_in(|state, pass| {
            if state.watch.number == number {
                match event {
                    WatchEvent::Started => state.machine.watch_started(pass),
                    WatchEvent::Hint(hint) => state.machine.hint(hint, pass),
                    WatchEvent::Ended(error) => state.machine.watch_ended(error, pass),
                }
            }
        });
    }
}

enum WatchEvent<'a> {
    Started,
    Hint(Hint),
    Ended(Option<&'a Error>),
}

/// A task that listens. A runtime that shuts down drops it before it is over, or does not run it at all.
struct Listener {
    entry: Weak<Entry>,
    number: u64,
    runtime: Id,
    over: bool,
}

impl Listener {
    /// Tells the entry. Returns whether there still is one.
    fn tell(&mut self, event: WatchEvent<'_>) -> bool {
        self.over = matches!(event, WatchEvent::Ended(_));
        self.entry.upgrade().map(|entry| entry.watch_event(self.number, event)).is_some()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(entry) = self.entry.upgrade().filter(|_| !self.over) else { return };
        // A watch that the entry has stopped is out of date.
        if entry.lock().watch.number == self.number {
            entry.shared.ears.lose(self.runtime);
            entry.watch_event(self.number, WatchEvent::Ended(None));
        }
    }
}

/// Listens for hints about a key until the entry wants none.
async fn watch(mut listener: Listener, shared: Arc<Shared>, key: Key) {
    let mut hints = match shared.backend.watch(&key).await {
        Ok(hints) => hints,
        Err(error) => {
            tracing::debug!(%key, %error, "no hints: waiting by the clock alone");
            listener.tell(WatchEvent::Ended(Some(&error)));
            return;
        }
    };
    let mut wanted = listener.tell(WatchEvent::Started);
    while wanted {
        wanted = match hints.next().await {
            Some(hint) => listener.tell(WatchEvent::Hint(hint)),
            None => {
                listener.tell(WatchEvent::Ended(None));
                false
            }
        };
    }
}
