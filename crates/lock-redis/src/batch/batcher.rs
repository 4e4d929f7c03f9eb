//! How requests that begin together become one call.
//!
//! A request joins a list, yields once, and looks again. All requests that began in that round have joined by
//! then. The first request that looks sends the whole list, so no request depends on another one to be polled.
//! The call is a task of its own, so no request depends on another one to live.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::{Error, ErrorKind};
use tokio::runtime::{self, Handle};
use tokio::sync::oneshot;
use tokio::task;

use super::part::{self, Part};
use crate::link::{Answer, Link};
use crate::wire::{Failure, Script};

/// The most requests in one call.
const MOST_REQUESTS: usize = 64;

/// The outcome of a request that joined others.
#[derive(Debug)]
pub(super) enum Told {
    /// The request is sent alone, by the usual way.
    Alone,
    /// The request is sent alone, to the full script.
    Undecided,
    Answered(Answer),
    Failed(Error),
}

/// Sends requests of one kind that begin together.
pub(super) struct Batcher {
    shared: Arc<Shared>,
    pending: Mutex<Pending>,
}

/// The context of a call.
struct Shared {
    link: Link,
    script: &'static Script,
    /// Whether the server accepts no call for keys in several slots.
    by_slot: Arc<AtomicBool>,
}

#[derive(Default)]
struct Pending {
    entries: Vec<Entry>,
    /// Tells the entries apart.
    latest: u64,
}

impl fmt::Debug for Batcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batcher({:?})", self.shared.link)
    }
}

/// A request that waits for others to join.
struct Entry {
    id: u64,
    runtime: runtime::Id,
    part: Part,
    done: oneshot::Sender<Told>,
}

impl Batcher {
    pub(super) fn new(link: &Link, script: &'static Script, by_slot: &Arc<AtomicBool>) -> Self {
        let (link, by_slot) = (link.clone(), Arc::clone(by_slot));
        Self { shared: Arc::new(Shared { link, script, by_slot }), pending: Mutex::default() }
    }

    /// Sends the request together with the requests that begin in its round on its runtime.
    ///
    /// # Cancel safety
    ///
    /// Leaves open whether the script ran for this request. The others do not notice.
    pub(super) async fn join(&self, part: Part) -> Told {
        let Ok(runtime) = Handle::try_current() else { return Told::Alone };
        let (done, told) = oneshot::channel();
        let id = self.put(runtime.id(), part, done);
        task::yield_now().await;
        self.flush(id);
        told.await.unwrap_or_else(|_| Told::Failed(gone()))
    }

    fn put(&self, runtime: runtime::Id, part: Part, done: oneshot::Sender<Told>) -> u64 {
        let mut pending = self.lock();
        pending.latest += 1;
        let id = pending.latest;
        pending.entries.push(Entry { id, runtime, part, done });
        id
    }

    /// Sends what has joined, unless another request has done so.
    fn flush(&self, id: u64) {
        let mut entries = self.take(id);
        entries.retain(Entry::is_awaited);
        while !entries.is_empty() {
            let rest = entries.split_off(entries.len().min(MOST_REQUESTS));
            self.send(entries);
            entries = rest;
        }
    }

    /// Takes what one call may hold beside this entry, and drops the entries that no future awaits.
    fn take(&self, id: u64) -> Vec<Entry> {
        let mut pending = self.lock();
        let Some(own) = pending.entries.iter().find(|entry| entry.id == id) else {
            return Vec::new();
        };
        let runtime = own.runtime;
        let by_slot = self.shared.by_slot.load(Ordering::Relaxed);
        let slot = by_slot.then(|| own.part.slot());
        let joins = |entry: &mut Entry| {
            let is_near = slot.is_none_or(|slot| entry.part.slot() == slot);
            entry.runtime == runtime && is_near || !entry.is_awaited()
        };
        pending.entries.extract_if(.., joins).collect()
    }

    fn send(&self, entries: Vec<Entry>) {
        match Handle::try_current() {
            Ok(runtime) if entries.len() > 1 => {
                drop(runtime.spawn(Arc::clone(&self.shared).call(entries)));
            }
            _ => tell_all(entries, || Told::Alone),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn call(self: Arc<Self>, mut entries: Vec<Entry>) {
        entries.retain(Entry::is_awaited);
        if entries.len() < 2 {
            return tell_all(entries, || Told::Alone);
        }
        let call = part::call(self.script, entries.iter().map(|entry| &entry.part));
        let answers = match self.link.run(call).await {
            Ok(answer) => part::answers(entries.len(), answer),
            Err(failure) => match self.verdict(failure) {
                Some(error) => Err(error),
                None => return tell_all(entries, || Told::Alone),
            },
        };
        match answers {
            Ok(answers) => {
                for (entry, answer) in entries.into_iter().zip(answers) {
                    entry.tell(answer.map_or(Told::Undecided, Told::Answered));
                }
            }
            Err(error) => tell_all(entries, || Told::Failed(error.clone())),
        }
    }

    /// The meaning of a failure for every request of the call. `None` if each request finds that out alone: the
    /// reason may be one of them, or that there are several.
    fn verdict(&self, failure: Failure) -> Option<Error> {
        if matches!(failure, Failure::Moving(_) | Failure::Moved(..) | Failure::Asks(..)) {
            return None;
        }
        let error = failure.into_error();
        if error.kind() == ErrorKind::Unsupported {
            // A cluster takes no command for keys in several slots.
            self.by_slot.store(true, Ordering::Relaxed);
        }
        let kinds =
            [ErrorKind::Unreachable, ErrorKind::Timeout, ErrorKind::NotReady, ErrorKind::Protocol];
        kinds.contains(&error.kind()).then_some(error)
    }
}

impl Entry {
    /// Whether a future still awaits the answer.
    fn is_awaited(&self) -> bool {
        !self.done.is_closed()
    }

    fn tell(self, told: Told) {
        // The future may have been dropped.
        let _ = self.done.send(told);
    }
}

fn tell_all(entries: Vec<Entry>, told: impl Fn() -> Told) {
    entries.into_iter().for_each(|entry| entry.tell(told()));
}

fn gone() -> Error {
    Error::new(ErrorKind::Unreachable, "the tokio runtime that sent the request has gone")
}
