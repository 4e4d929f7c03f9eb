//! Whether the driver comes to its work in time.

use std::time::{self, Duration};

use lock_core::observer::{ClockJumped, DriverStalled, Observers};
use lock_core::{Clock, Instant};

/// A delay up to this length is normal on a busy machine.
const NORMAL: Duration = Duration::from_millis(100);

/// Looks after the driver, and tells the observers.
#[derive(Clone, Debug)]
pub(super) struct Health {
    observers: Observers,
    clock: Clock,
    /// Whether the clock goes on while the computer is suspended. The clock of tests goes on while no time passes.
    pub(super) counts_suspend: bool,
    last: Option<Look>,
}

/// One look of the driver at its timers.
#[derive(Clone, Copy, Debug)]
struct Look {
    at: Moment,
    /// When the driver wanted to look again.
    next: Instant,
}

/// A moment on the clock of the leases. The clock that stops while the computer is suspended is read before and after
/// it, because the thread may lose its processor in between.
#[derive(Clone, Copy, Debug)]
struct Moment {
    before: time::Instant,
    now: Instant,
    after: time::Instant,
}

/// What a look finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Found {
    late: Option<Duration>,
    jumped: Option<Duration>,
}

impl Health {
    pub(super) fn new(observers: Observers, clock: Clock) -> Self {
        Self { observers, clock, counts_suspend: clock == Clock::boot(), last: None }
    }

    /// The driver looks at its timers now. The caller holds no lock.
    pub(super) fn look(&mut self) {
        if self.observers.is_empty() {
            return;
        }
        let at = Moment::read(self.clock);
        // Until the driver plans its next look, it is busy, and comes back at once.
        let last = self.last.replace(Look { at, next: at.now });
        let found = last.map(|last| last.compare(&at, self.counts_suspend)).unwrap_or_default();
        if let Some(by) = found.jumped {
            let event = ClockJumped { by };
            self.observers.tell(|observer| observer.clock_jumped(&event));
        }
        if let Some(late) = found.late {
            let event = DriverStalled { late };
            self.observers.tell(|observer| observer.driver_stalled(&event));
        }
    }

    /// The driver sleeps until this instant, if nothing wakes it up before.
    pub(super) fn sleep(&mut self, until: Instant) {
        if let Some(last) = &mut self.last {
            last.next = until;
        }
    }
}

impl Moment {
    fn read(clock: Clock) -> Self {
        let (before, now) = (time::Instant::now(), clock.now());
        Self { before, now, after: time::Instant::now() }
    }
}

impl Look {
    /// What has become of the plan at this later moment. The time for which the computer was suspended is a lower
    /// bound.
    fn compare(&self, at: &Moment, counts_suspend: bool) -> Found {
        let passed = at.now.saturating_duration_since(self.at.now);
        let awake = at.after.saturating_duration_since(self.at.before);
        let asleep = passed.saturating_sub(awake);
        let asleep = if counts_suspend { asleep } else { Duration::ZERO };
        let late = at.now.saturating_duration_since(self.next).saturating_sub(asleep);
        let notable = |time: Duration| (time > NORMAL).then_some(time);
        Found { late: notable(late), jumped: notable(asleep) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// What is found after so much time on both clocks, if the driver wanted to look after `planned`.
    fn found(planned: Duration, leases: Duration, awake: Duration) -> Found {
        let (start, now) = (time::Instant::now(), Instant::from_nanos(0));
        let at = Moment { before: start, now, after: start };
        let later = Moment { before: start + awake, now: now + leases, after: start + awake };
        Look { at, next: now + planned }.compare(&later, true)
    }

    #[test]
    fn a_driver_in_time_is_healthy() {
        assert_eq!(found(ms(1_000), ms(1_050), ms(1_050)), Found::default());
        assert_eq!(found(ms(1_000), ms(10), ms(10)), Found::default(), "it was woken before");
        assert_eq!(found(Duration::MAX, ms(90_000), ms(90_000)), Found::default(), "no timer");
    }

    #[test]
    fn a_blocked_driver_is_late() {
        let late = Some(ms(2_000));
        assert_eq!(found(ms(1_000), ms(3_000), ms(3_000)), Found { late, jumped: None });
    }

    #[test]
    fn a_suspended_computer_is_no_late_driver() {
        let jumped = Some(ms(60_000));
        assert_eq!(found(ms(1_000), ms(61_000), ms(1_000)), Found { late: None, jumped });
        let late = Some(ms(500));
        assert_eq!(found(ms(1_000), ms(61_500), ms(1_500)), Found { late, jumped });
    }

    #[test]
    fn a_thread_that_loses_its_processor_between_two_clocks_was_not_asleep() {
        let (start, now) = (time::Instant::now(), Instant::from_nanos(0));
        let at = Moment { before: start, now, after: start + ms(900) };
        let later = start + ms(1_000);
        let later = Moment { before: later, now: now + ms(1_000), after: later };
        let look = Look { at, next: now + ms(1_000) };
        assert_eq!(look.compare(&later, true), Found::default());
    }
}
