//! When each key wants to be looked at.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::Notify;

use crate::engine::Entry;

/// The deadlines of all keys, at most one for each that matters.
///
/// The timers of the runtime stop while the machine is suspended, leases do not. So the driver never
/// sleeps longer than [`SLICE`] while there is a deadline, and reads the clock of the backend when it
/// wakes up. The slice also bounds what arming costs: a deadline further away than the driver's next
/// look does not wake it.
///
/// When it does look, it also takes what is due within the *window*. Most deadlines are renewals, which
/// may be early: those of many leases then travel together, and stay together from then on.
#[derive(Debug)]
pub(crate) struct Timers {
    clock: Clock,
    window: Duration,
    deadlines: Mutex<BTreeMap<(Instant, usize), Weak<Entry>>>,
    /// When the driver is going to look next, in nanoseconds on `clock`.
    next_look: AtomicU64,
    earlier: Notify,
}

const SLICE: Duration = Duration::from_secs(1);

impl Timers {
    pub(crate) fn new(clock: Clock, window: Duration) -> Self {
        Self {
            clock,
            window,
            deadlines: Mutex::new(BTreeMap::new()),
            next_look: AtomicU64::new(Instant::FAR_FUTURE.as_nanos()),
            earlier: Notify::new(),
        }
    }

    /// Sets the deadline of an entry, in place of its former one.
    pub(crate) fn arm(&self, entry: &Arc<Entry>, former: Option<Instant>, deadline: Instant) {
        let id = Arc::as_ptr(entry).addr();
        let mut deadlines = self.lock();
        if let Some(former) = former {
            deadlines.remove(&(former, id));
        }
        deadlines.insert((deadline, id), Arc::downgrade(entry));
        // Under the lock, so that it cannot fall between the driver's look and its sleep.
        let wake = deadline.as_nanos() < self.next_look.load(Ordering::Relaxed);
        drop(deadlines);
        if wake {
            self.earlier.notify_one();
        }
    }

    /// Forgets the deadline of an entry that is going away.
    pub(crate) fn disarm(&self, id: usize, deadline: Instant) {
        self.lock().remove(&(deadline, id));
    }

    /// Waits until some deadline has passed, and takes it and those within the window.
    ///
    /// # Cancel safety
    ///
    /// No deadline is lost: they are taken in the poll that returns them.
    pub(crate) async fn due(&self) -> Vec<Arc<Entry>> {
        loop {
            let look = {
                let mut deadlines = self.lock();
                let now = self.clock.now();
                let first = deadlines.first_key_value().map(|((deadline, _), _)| *deadline);
                if first.is_some_and(|first| first <= now) {
                    return take_until(&mut deadlines, now + self.window);
                }
                let look = first.map(|first| first.min(now + SLICE));
                let nanos = look.unwrap_or(Instant::FAR_FUTURE).as_nanos();
                self.next_look.store(nanos, Ordering::Relaxed);
                look.map(|look| look.saturating_duration_since(now))
            };
            match look {
                Some(pause) => {
                    let _ = tokio::time::timeout(pause, self.earlier.notified()).await;
                }
                None => self.earlier.notified().await,
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(Instant, usize), Weak<Entry>>> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_until(
    deadlines: &mut BTreeMap<(Instant, usize), Weak<Entry>>,
    end: Instant,
) -> Vec<Arc<Entry>> {
    let mut taken = Vec::new();
    while let Some(first) = deadlines.first_entry() {
        if first.key().0 > end {
            break;
        }
        taken.extend(first.remove().upgrade());
    }
    taken
}
