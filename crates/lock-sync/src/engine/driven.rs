//! What the driver does for an entry: ticks, releases, and listening for hints.

use std::sync::{Arc, Weak};

use lock_core::{Error, Hint, Key};
use tokio::runtime::{Handle, Id};

use super::command::Driven;
use super::driver::Timed;
use super::machine::Ending;
use super::{Entry, Shared};
use crate::sync::atomic::Ordering;

impl Timed for Entry {
    fn tick(self: &Arc<Self>) {
        self.event_locked(self.lock(), |state| {
            state.armed = None;
            state.machine.tick();
            state.machine.settle();
        });
        // A store that has not answered these releases by now may never do so. The driver sets them a limit.
        let parked = std::mem::take(&mut self.lock().parked);
        parked.iter().filter_map(Weak::upgrade).for_each(|parked| parked.go_on());
    }
}

impl Driven for Entry {
    fn begin_releases(&self) -> Vec<Ending> {
        let mut state = self.lock();
        state.release_queued = false;
        std::iter::from_fn(|| state.machine.begin_release()).collect()
    }

    fn begin_watch(self: &Arc<Self>, number: u64) {
        if !self.lock().watch.is(number) {
            return;
        }
        let driver = Handle::current();
        let runtime = self.shared.ears.runtime().unwrap_or(driver);
        let listener =
            Listener { entry: Arc::downgrade(self), number, runtime: runtime.id(), over: false };
        let watch = watch(listener, self.shared.clone(), self.key.clone());
        let task = runtime.spawn(watch).abort_handle();
        let mut state = self.lock();
        let over = if state.watch.is(number) { state.watch.runs(task) } else { Some(task) };
        drop(state);
        if let Some(over) = over {
            over.abort();
        }
    }
}

impl Entry {
    fn watch_event(self: &Arc<Self>, number: u64, event: WatchEvent<'_>) {
        if matches!(event, WatchEvent::Hint(Hint::Contended)) {
            self.wanted.store(true, Ordering::Release);
        }
        self.event_locked(self.lock(), |state| {
            if state.watch.is(number) {
                match event {
                    WatchEvent::Started => state.machine.watch_started(),
                    WatchEvent::Hint(hint) => state.machine.hint(hint),
                    WatchEvent::Ended(error) => state.machine.watch_ended(error),
                }
            }
            state.machine.settle();
        });
    }
}

enum WatchEvent<'a> {
    Started,
    Hint(Hint),
    Ended(Option<&'a Error>),
}

/// The state of a task that listens. A runtime that shuts down drops the task before its end, or never runs it. The
/// drop of the listener tells the entry.
struct Listener {
    entry: Weak<Entry>,
    number: u64,
    runtime: Id,
    over: bool,
}

impl Listener {
    /// Tells the entry. Returns `false` if the entry has gone.
    fn tell(&mut self, event: WatchEvent<'_>) -> bool {
        self.over = matches!(event, WatchEvent::Ended(_));
        self.entry.upgrade().map(|entry| entry.watch_event(self.number, event)).is_some()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(entry) = self.entry.upgrade().filter(|_| !self.over) else { return };
        // If the entry has stopped this watch, it needs no news of its end.
        if entry.lock().watch.is(self.number) {
            entry.shared.ears.lose(self.runtime);
            entry.watch_event(self.number, WatchEvent::Ended(None));
        }
    }
}

/// Listens for hints about a key until the watch ends or the entry has gone.
async fn watch(mut listener: Listener, shared: Arc<Shared>, key: Key) {
    let mut hints = match shared.backend.watch(&key).await {
        Ok(hints) => hints,
        Err(error) => {
            tracing::debug!(%key, %error, "the store sends no hints: waiters rely on the clock alone");
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
