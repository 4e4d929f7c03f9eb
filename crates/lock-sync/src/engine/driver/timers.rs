//! When each key wants to be looked at.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use lock_core::{Clock, Instant};
use tokio::sync::Notify;

use crate::engine::Deadline;

/// Something that the timers call.
pub(crate) trait Timed: Send + Sync + 'static {
    /// Its deadline has passed, or nearly so.
    fn tick(self: &Arc<Self>);
}

/// The deadlines of all keys, at most one for each that matters.
///
/// The timers of the runtime stop while the machine is suspended, leases do not. So the driver never
/// sleeps longer than [`SLICE`] while there is a deadline, and reads the clock of the backend when it
/// wakes up. The slice also bounds what arming costs: a deadline further away than the driver's next
/// look does not wake it.
///
/// Renewals are flexible, and so are requests that only keep a place in a queue: they may be early. When one
/// of them is due, the driver takes all that are due within the *window*. Those of many keys then travel
/// together, and stay together from then on. Other deadlines do not open the window: where there are
/// many of them, each renewal would leave by itself.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    clock: Clock,
    window: Duration,
    deadlines: Mutex<Deadlines<T>>,
    /// When the driver is going to look next, in nanoseconds on `clock`.
    next_look: AtomicU64,
    earlier: Notify,
}

const SLICE: Duration = Duration::from_secs(1);

impl<T: Timed> Timers<T> {
    pub(crate) fn new(clock: Clock, window: Duration) -> Self {
        Self {
            clock,
            window,
            deadlines: Mutex::default(),
            next_look: AtomicU64::new(Instant::FAR_FUTURE.as_nanos()),
            earlier: Notify::new(),
        }
    }

    /// Sets the deadline of an entry, in place of its former one.
    pub(crate) fn arm(&self, entry: &Arc<T>, former: Option<Deadline>, deadline: Deadline) {
        let id = Arc::as_ptr(entry).addr();
        let mut deadlines = self.lock();
        if let Some(former) = former {
            deadlines.of(former.flexible).remove(&(former.at, id));
        }
        deadlines.of(deadline.flexible).insert((deadline.at, id), Arc::downgrade(entry));
        // Under the lock, so that it cannot fall between the driver's look and its sleep.
        let wake = deadline.at.as_nanos() < self.next_look.load(Ordering::Relaxed);
        drop(deadlines);
        if wake {
            self.earlier.notify_one();
        }
    }

    /// Forgets the deadline of an entry that is going away.
    pub(crate) fn disarm(&self, id: usize, deadline: Deadline) {
        self.lock().of(deadline.flexible).remove(&(deadline.at, id));
    }

    /// Waits until some deadline has passed, and takes it and those within the window.
    ///
    /// # Cancel safety
    ///
    /// No deadline is lost: they are taken in the poll that returns them.
    pub(crate) async fn due(&self) -> Vec<Arc<T>> {
        loop {
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

/// Entries by instant, and by address to tell them apart.
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

    /// Takes what is due, and what is flexible within the window if some of that is due.
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
