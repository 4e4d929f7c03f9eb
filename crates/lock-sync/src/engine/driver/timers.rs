//! The timers: when the driver has to call the entry of each key.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use lock_core::observer::Observers;
use lock_core::{Clock, Instant};
use tokio::sync::Notify;

use super::health::Health;
use crate::engine::Deadline;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// Something that the timers call.
pub(crate) trait Timed: Send + Sync + 'static {
    /// The deadline has passed, or is within the window.
    fn tick(self: &Arc<Self>);
}

/// The deadlines of all entries, at most one for each entry.
///
/// The timers of the runtime stop while the computer is suspended, but leases do not. So while there is a deadline,
/// the driver never sleeps for longer than [`SLICE`], and it reads the clock of the backend when it wakes up. The
/// slice also keeps arming cheap: a deadline after the driver's next look does not wake the driver.
///
/// Renewals are flexible, and so are requests that only keep a place in a queue: they may be early. When a flexible
/// deadline has passed, the driver takes all flexible deadlines within the *window*. So the requests of many keys
/// travel together, and stay together from then on. A deadline that is not flexible does not open the window. If it
/// did, many such deadlines would take the renewals one by one.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    clock: Clock,
    window: Duration,
    deadlines: Mutex<Deadlines<T>>,
    /// When the driver looks next, in nanoseconds on `clock`.
    next_look: AtomicU64,
    earlier: Notify,
    /// The health of a driver that has not looked yet.
    health: Health,
}

const SLICE: Duration = Duration::from_secs(1);

impl<T: Timed> Timers<T> {
    pub(crate) fn new(clock: Clock, window: Duration, observers: Observers) -> Self {
        Self {
            clock,
            window,
            deadlines: Mutex::default(),
            next_look: AtomicU64::new(Instant::FAR_FUTURE.as_nanos()),
            earlier: Notify::new(),
            health: Health::new(observers, clock),
        }
    }

    /// The clock of these timers may be that of a computer that is suspended, whatever clock it is.
    #[cfg(test)]
    pub(super) fn counting_suspend(mut self) -> Self {
        self.health.counts_suspend = true;
        self
    }

    /// Sets the deadline of an entry, in place of its former one.
    pub(crate) fn arm(&self, entry: &Arc<T>, former: Option<Deadline>, deadline: Deadline) {
        let id = Arc::as_ptr(entry).addr();
        let mut deadlines = self.lock();
        if let Some(former) = former {
            deadlines.of(former.flexible).remove(&(former.at, id));
        }
        deadlines.of(deadline.flexible).insert((deadline.at, id), Arc::downgrade(entry));
        // Read under the lock, so that the driver has stored the instant of its next look.
        let wake = deadline.at.as_nanos() < self.next_look.load(Ordering::Relaxed);
        drop(deadlines);
        if wake {
            self.earlier.notify_one();
        }
    }

    /// Removes the deadline of an entry that is going away.
    pub(crate) fn disarm(&self, id: usize, deadline: Deadline) {
        self.lock().of(deadline.flexible).remove(&(deadline.at, id));
    }

    /// Whether the driver waits for the deadlines that there are.
    #[cfg(test)]
    pub(super) fn is_asleep(&self) -> bool {
        self.next_look.load(Ordering::Relaxed) < Instant::FAR_FUTURE.as_nanos()
    }

    /// Looks after the driver of these timers.
    pub(super) fn health(&self) -> Health {
        self.health.clone()
    }

    /// Waits until a deadline has passed. Returns its entry, and those of the flexible deadlines within an open window.
    ///
    /// # Cancel safety
    ///
    /// No deadline is lost: deadlines are taken in the poll that returns their entries.
    pub(super) async fn due(&self, health: &mut Health) -> Vec<Arc<T>> {
        loop {
            health.look();
            let look = {
                let mut deadlines = self.lock();
                let now = self.clock.now();
                let first = deadlines.first();
                if first.is_some_and(|first| first <= now) {
                    return deadlines.take(now, self.window);
                }
                let look = first.map(|first| first.min(now + SLICE));
                let nanos = look.unwrap_or(Instant::FAR_FUTURE).as_nanos();
                self.next_look.store(nanos, Ordering::Relaxed);
                health.sleep(Instant::from_nanos(nanos));
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

    fn lock(&self) -> MutexGuard<'_, Deadlines<T>> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries by instant, and by address to tell apart the entries of one instant.
type Line<T> = BTreeMap<(Instant, usize), Weak<T>>;

#[derive(Debug)]
struct Deadlines<T> {
    exact: Line<T>,
    flexible: Line<T>,
}

impl<T> Default for Deadlines<T> {
    fn default() -> Self {
        Self { exact: Line::new(), flexible: Line::new() }
    }
}

impl<T> Deadlines<T> {
    fn of(&mut self, flexible: bool) -> &mut Line<T> {
        if flexible { &mut self.flexible } else { &mut self.exact }
    }

    /// Takes the deadlines that have passed. If a flexible one has passed, takes all flexible ones within the window.
    fn take(&mut self, now: Instant, window: Duration) -> Vec<Arc<T>> {
        let mut due = take_until(&mut self.exact, now);
        if self.flexible.first_key_value().is_some_and(|((first, _), _)| *first <= now) {
            due.extend(take_until(&mut self.flexible, now + window));
        }
        due
    }

    fn first(&self) -> Option<Instant> {
        let firsts = [&self.exact, &self.flexible].map(BTreeMap::first_key_value);
        firsts.into_iter().flatten().map(|((deadline, _), _)| *deadline).min()
    }
}

fn take_until<T>(line: &mut Line<T>, end: Instant) -> Vec<Arc<T>> {
    let mut taken = Vec::new();
    while let Some(first) = line.first_entry() {
        if first.key().0 > end {
            break;
        }
        taken.extend(first.remove().upgrade());
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_flexible_leaves_early_only_in_company_of_what_is_flexible() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let window = Duration::from_millis(100);
        let mut deadlines = Deadlines::<()>::default();
        for (millis, flexible) in [(5, false), (90, true), (150, true), (190, true), (191, true)] {
            deadlines.of(flexible).insert((at(millis), 0), Weak::new());
        }
        let mut left = |now| {
            deadlines.take(at(now), window);
            (deadlines.exact.len(), deadlines.flexible.len())
        };
        assert_eq!(left(4), (1, 4));
        assert_eq!(left(5), (0, 4));
        assert_eq!(left(89), (0, 4));
        assert_eq!(left(90), (0, 1));
        assert_eq!(left(190), (0, 1));
        assert_eq!(left(191), (0, 0));
    }
}
