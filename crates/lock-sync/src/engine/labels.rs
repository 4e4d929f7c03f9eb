//! The labels by which people know this process, and how the store learns of them.
//!
//! A label costs no lock anything: the owner token of a claim ends in the mark of its label, and the driver tells the
//! store, a few times in an hour, which label the mark stands for.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use lock_core::{Backend, ClientMark, Error, ErrorKind, Label};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::sync::{Mutex, owner};

/// The labels of the locks of one [`Locks`](crate::Locks).
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// Those that a policy has, and perhaps some that none has any more.
    known: Mutex<HashMap<Label, Weak<Labelled>>>,
    added: Notify,
}

/// A label, and the mark in the owner tokens of its locks. The store is told of it for as long as a policy has it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Labelled {
    pub(crate) mark: ClientMark,
    label: Label,
}

/// How long the driver waits before it tells the store a new label. A process that has ended by then costs the store
/// nothing.
const MOMENT: Duration = Duration::from_millis(100);
/// How often the driver tells the store a label.
const PERIOD: Duration = Duration::from_secs(300);
/// How long the driver waits after a failure.
const PAUSE: Duration = Duration::from_secs(10);

impl Labels {
    /// This label with its mark. `None` if the system gives no random bytes.
    pub(crate) fn of(&self, label: &Label) -> Option<Arc<Labelled>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(labelled) = known.get(label).and_then(Weak::upgrade) {
            return Some(labelled);
        }
        let new = Arc::new(Labelled { mark: owner().ok()?.client(), label: label.clone() });
        known.insert(label.clone(), Arc::downgrade(&new));
        drop(known);
        self.added.notify_one();
        Some(new)
    }

    /// Tells the store every label, and again before the store forgets it. A label stays in the store for a few periods
    /// longer than a lease of `lease` lives, so that the leases of a process that has died are shown with it. Never
    /// ends.
    pub(crate) async fn introduce(&self, backend: &dyn Backend, lease: Duration) {
        let keep = lease + 3 * PERIOD;
        let mut due: HashMap<ClientMark, Instant> = HashMap::new();
        loop {
            sleep(MOMENT).await;
            let live = self.live();
            due.retain(|mark, _| live.contains_key(mark));
            for (mark, labelled) in live {
                if due.get(&mark).is_none_or(|at| *at <= Instant::now()) {
                    // The driver goes on without labels if the backend panics.
                    let told = AssertUnwindSafe(backend.introduce(mark, &labelled.label, keep));
                    let told = told.catch_unwind().await.unwrap_or_else(|_| Err(keeps_none()));
                    let Some(pause) = pause_after(&told) else {
                        return self.drop_unused().await;
                    };
                    due.insert(mark, Instant::now() + pause);
                }
            }
            match due.values().min() {
                Some(first) => {
                    let _ = timeout_at(*first, self.added.notified()).await;
                }
                None => self.added.notified().await,
            }
        }
    }

    /// Drops unused labels, for a store that keeps none. Never ends.
    async fn drop_unused(&self) {
        loop {
            self.added.notified().await;
            sleep(MOMENT).await;
            drop(self.live());
        }
    }

    /// The labels that a policy has. All others are dropped.
    fn live(&self) -> HashMap<ClientMark, Arc<Labelled>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, labelled| labelled.strong_count() > 0);
        let live = known.values().filter_map(Weak::upgrade);
        live.map(|labelled| (labelled.mark, labelled)).collect()
    }
}

fn keeps_none() -> Error {
    Error::new(ErrorKind::Unsupported, "the backend panicked when it was told a label")
}

/// When the store is to be told again. `None` if it keeps no labels.
fn pause_after(told: &Result<(), Error>) -> Option<Duration> {
    match told {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        Err(error) if error.is_retryable() => Some(PAUSE),
        _ => Some(PERIOD),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::memory::{MemoryBackend, Verb};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_store_that_keeps_no_labels_leaves_none_behind() {
        let (store, labels) = (MemoryBackend::new(), Labels::default());
        store.faults().on(Verb::Introduce).fail(ErrorKind::Unsupported);
        let adding = async {
            for number in 0..100 {
                drop(labels.of(&Label::new(number.to_string()).unwrap()));
                sleep(2 * MOMENT).await;
            }
        };
        tokio::select! {
            () = labels.introduce(&store, PERIOD) => {}
            () = adding => {}
        }
        assert_eq!(labels.known.lock().unwrap().len(), 0);
    }
}
