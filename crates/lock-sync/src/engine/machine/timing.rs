//! What happens when time passes.

use std::time::Duration;

use lock_core::{Claim, Error, ErrorKind, Instant, Ttl};

use super::held::{Held, Leaving};
use super::watching::Watching;
use super::{Deadline, Denial, Effects, Machine, Op, Phase, Stage};
use crate::error::LossReason;

/// Back-off after failures: from here, doubling, up to there.
pub(super) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));

/// How often a client asks that has no place in the store's queue and hears no hint: the longest pause after
/// its first refusal, and after many. Each pause lasts for at least half of that, so a fleet of such
/// clients spreads, and one of them costs the store three requests a second.
pub(super) const POLL: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_millis(500));

/// The earliest deadlines.
struct Due {
    exact: Instant,
    flexible: Instant,
}

impl Due {
    fn at(&mut self, at: Instant) {
        self.exact = self.exact.min(at);
    }

    /// If `relaxed`, it may be a little earlier.
    fn about(&mut self, at: Instant, relaxed: bool) {
        let earliest = if relaxed { &mut self.flexible } else { &mut self.exact };
        *earliest = at.min(*earliest);
    }
}

impl<W> Machine<W> {
    /// When [`tick`](Self::tick) has something to do, if nothing else happens.
    pub(in super::super) fn next_deadline(&self) -> Option<Deadline> {
        let first_limit = self.queue.first_limit().unwrap_or(Instant::FAR_FUTURE);
        let mut due = Due { exact: first_limit, flexible: Instant::FAR_FUTURE };
        due.at(self.rest_at);
        due.at(self.upgrade_deadline());
        for (seat, phase) in self.seats.iter().enumerate() {
            match phase {
                Phase::Idle | Phase::Attempting { .. } | Phase::Lost { .. } => {}
                Phase::Waiting { until, relaxed, .. } => {
                    due.about(*until, *relaxed);
                    due.at(self.watch_retry());
                }
                Phase::Held(held) => self.held_deadline(seat, held, &mut due),
                Phase::Kept { held, until, .. } => {
                    self.held_deadline(seat, held, &mut due);
                    if self.queue.is_empty() {
                        due.at(*until);
                    }
                }
                Phase::Releasing { stage: Stage::Failed(at) | Stage::Sent(at), .. } => due.at(*at),
                Phase::Releasing { .. } => {}
            }
        }
        let at = due.exact.min(due.flexible);
        let flexible = due.flexible < due.exact;
        (at < Instant::FAR_FUTURE).then_some(Deadline { at, flexible })
    }

    /// When a lease that stays has to be looked after.
    fn held_deadline(&self, seat: usize, held: &Held, due: &mut Due) {
        due.at(held.lease.deadline());
        due.at(held.holds.first_limit());
        if let Some(Leaving::Due(at)) = held.leaving {
            due.at(at);
        }
        if self.may_weaken(seat, held) {
            due.at(held.weaken_due());
        }
        if !self.policy.renew {
            return;
        }
        due.at(self.watch_retry());
        if !held.renewing && held.converting.is_none() {
            due.at(held.check_at.unwrap_or(Instant::FAR_FUTURE));
            due.about(held.renew_at, held.relaxed);
        }
        if matches!(self.watch, Watching::Off) {
            due.at(held.watch_at);
        }
    }

    /// How long a claim waits that was refused and has no place in the store's queue. If no hint can
    /// reach it either, it asks again soon: the lock may be free long before the present lease ends.
    pub(super) fn pause_outside(&mut self, claim: &Claim, pause: Duration) -> Duration {
        if matches!(self.watch, Watching::On { .. }) {
            return pause;
        }
        let poll = spread(POLL, self.polls, claim);
        self.polls = self.polls.saturating_add(1);
        pause.min(poll)
    }

    /// Whether it is at least a third of a lease: the time after which leases are renewed and places kept.
    pub(super) fn is_third(&self, pause: Duration) -> bool {
        pause >= self.policy.ttl.duration() / 3
    }

    fn watch_retry(&self) -> Instant {
        match self.watch {
            Watching::Failed { retry, .. } => retry,
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Whether a claim that is given up waits for another try.
    pub(in super::super) fn is_retrying(&self) -> bool {
        let failed =
            |phase: &Phase| matches!(phase, Phase::Releasing { stage: Stage::Failed(_), .. });
        self.seats.iter().any(failed)
    }

    /// Time has passed.
    pub(in super::super) fn tick(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.expire_waiters(now, effects);
        if now >= self.rest_at {
            self.rest_at = Instant::FAR_FUTURE;
            let needed = self.seats.iter().any(|phase| {
                matches!(phase, Phase::Waiting { .. } | Phase::Held(_) | Phase::Kept { .. })
            });
            if !needed {
                self.stop_watching(effects);
            }
        }
        self.tick_upgrade(now, effects);
        for seat in 0..self.seats.len() {
            self.tick_seat(seat, now, effects);
        }
    }

    fn tick_seat(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let window = renewal_window(self.policy.ttl);
        match &mut self.seats[seat] {
            Phase::Waiting { until, relaxed, .. } if due(now, *until, *relaxed, window) => {
                self.ask_once_more(seat, now, true, effects);
            }
            Phase::Waiting { .. } => self.watch_again(now, effects),
            Phase::Held(held) if !held.lease.is_valid(now) => {
                self.lose(seat, now, LossReason::Expired, effects);
            }
            Phase::Held(held) if now >= held.holds.first_limit() => {
                while let Phase::Held(held) = &mut self.seats[seat]
                    && let Some(hold) = held.holds.overdue(seat, now)
                {
                    self.lose_hold(hold, now, effects);
                }
            }
            Phase::Kept { held, .. } if !held.lease.is_valid(now) => {
                self.drop_kept(seat, now, LossReason::Expired, effects);
            }
            Phase::Kept { until, .. } if now >= *until && self.queue.is_empty() => {
                self.settle_seat(seat, now, effects);
            }
            Phase::Held(_) | Phase::Kept { .. } => self.tend(seat, now, effects),
            Phase::Releasing { stage, .. } if matches!(*stage, Stage::Failed(retry) if now >= retry) =>
            {
                *stage = Stage::Queued;
                effects.ops.push(Op::Release { urgent: false });
            }
            Phase::Releasing { stage: Stage::Sent(look), .. } if now >= *look => {
                *look = Instant::FAR_FUTURE;
            }
            _ => {}
        }
    }

    /// Looks after a lease that stays.
    fn tend(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        self.tick_leaving(seat, now, effects);
        if matches!(&self.seats[seat], Phase::Held(held) if now >= held.weaken_due()) {
            self.weaken(seat, now, effects);
        }
        if !self.policy.renew {
            return;
        }
        let window = renewal_window(self.policy.ttl);
        let (Phase::Held(held) | Phase::Kept { held, .. }) = &mut self.seats[seat] else { return };
        let watch = now >= held.watch_at;
        if watch {
            held.watch_at = Instant::FAR_FUTURE;
        }
        let due = due(now, held.renew_at, held.relaxed, window)
            || held.check_at.is_some_and(|at| now >= at);
        if watch || now >= self.watch_retry() {
            self.watch_again(now, effects);
        }
        if due {
            self.renew_seat(seat, now, effects);
        }
    }

    fn expire_waiters(&mut self, now: Instant, effects: &mut Effects<W>) {
        let mut expired = false;
        while let Some(id) = self.queue.overdue(now) {
            let error = self.seats.iter().find_map(|phase| match phase {
                Phase::Waiting { outage, .. }
                | Phase::Attempting { outage: outage @ Some(_), .. }
                | Phase::Releasing { outage, .. } => {
                    outage.as_ref().map(|outage| outage.error.clone())
                }
                Phase::Attempting { fresh: true, .. } => {
                    Some(Error::new(ErrorKind::Timeout, "the backend has not answered yet"))
                }
                _ => None,
            });
            let waker = self.queue.settle(id, Err(Denial::Timeout(error)));
            effects.wake(waker);
            expired = true;
        }
        if expired {
            self.line_changed(now, effects);
        }
    }
}

/// Whether it is time for this. If `relaxed`, it may be earlier by the window.
fn due(now: Instant, at: Instant, relaxed: bool, window: Duration) -> bool {
    now + if relaxed { window } else { Duration::ZERO } >= at
}

/// How much earlier than at a third of its time a lease may be renewed, or a place kept, in company.
pub(crate) fn renewal_window(ttl: Ttl) -> Duration {
    ttl.duration() / 30
}

pub(super) fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// The pause before the next try: doubling, with full jitter in its upper half.
pub(super) fn backoff(tries: u32, claim: &Claim) -> Duration {
    spread(BACKOFF, tries, claim)
}

fn spread((first, last): (Duration, Duration), tries: u32, claim: &Claim) -> Duration {
    let most = doubled(first, tries).min(last);
    most / 2 + most.mul_f64(fraction(claim, tries) / 2.0)
}

/// A little beyond the end of a lease, and not for everybody at once.
pub(super) fn jitter(claim: &Claim) -> Duration {
    Duration::from_millis(1) + Duration::from_millis(9).mul_f64(fraction(claim, 0))
}

/// A number between 0 and 1. Owner tokens are random: no other source is needed.
fn fraction(claim: &Claim, salt: u32) -> f64 {
    let random = claim.owner.expose().iter().fold(salt, |hash, digit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(*digit)).rotate_left(7)
    });
    f64::from(random) / f64::from(u32::MAX)
}
