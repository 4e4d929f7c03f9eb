//! What happens when time passes.

use std::time::Duration;

use lock_core::{Claim, Error, ErrorKind, Instant, Ttl};

use super::watching::Watching;
use super::{Deadline, Denial, Effects, Machine, Op, Phase, Stage};
use crate::error::LossReason;

/// Back-off after failures: from here, doubling, up to there.
pub(super) const BACKOFF: (Duration, Duration) =
    (Duration::from_millis(20), Duration::from_secs(1));

impl<W> Machine<W> {
    /// When [`tick`](Self::tick) has something to do, if nothing else happens.
    pub(in super::super) fn next_deadline(&self) -> Option<Deadline> {
        let mut exact = self.queue.first_limit().unwrap_or(Instant::FAR_FUTURE).min(self.rest_at);
        let mut flexible = Instant::FAR_FUTURE;
        match &self.phase {
            Phase::Idle | Phase::Attempting { .. } | Phase::Lost { .. } => {}
            Phase::Waiting { until, .. } => exact = exact.min(*until).min(self.watch_retry()),
            Phase::Held(held) | Phase::Kept { held, .. } => {
                exact = exact.min(held.lease.deadline()).min(held.hold_until);
                if self.policy.renew {
                    exact = exact.min(self.watch_retry());
                    if !held.renewing {
                        exact = exact.min(held.check_at.unwrap_or(Instant::FAR_FUTURE));
                        let renewal = if held.relaxed { &mut flexible } else { &mut exact };
                        *renewal = held.renew_at.min(*renewal);
                    }
                    if matches!(self.watch, Watching::Off) {
                        exact = exact.min(held.watch_at);
                    }
                }
                if let Phase::Kept { until, .. } = &self.phase
                    && self.queue.is_empty()
                {
                    exact = exact.min(*until);
                }
            }
            Phase::Releasing { stage: Stage::Failed(at) | Stage::Sent(at), .. } => {
                exact = exact.min(*at);
            }
            Phase::Releasing { .. } => {}
        }
        let at = exact.min(flexible);
        (at < Instant::FAR_FUTURE).then_some(Deadline { at, flexible: flexible < exact })
    }

    fn watch_retry(&self) -> Instant {
        match self.watch {
            Watching::Failed { retry, .. } => retry,
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Whether the claim that is given up waits for another try.
    pub(in super::super) fn is_retrying(&self) -> bool {
        matches!(self.phase, Phase::Releasing { stage: Stage::Failed(_), .. })
    }

    /// Time has passed.
    pub(in super::super) fn tick(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.expire_waiters(now, effects);
        if now >= self.rest_at {
            self.rest_at = Instant::FAR_FUTURE;
            let needed =
                matches!(self.phase, Phase::Waiting { .. } | Phase::Held(_) | Phase::Kept { .. });
            if !needed {
                self.stop_watching(effects);
            }
        }
        match &mut self.phase {
            Phase::Waiting { until, .. } if now >= *until => self.ask_again(now, effects),
            Phase::Waiting { .. } => self.watch_again(now, effects),
            Phase::Held(held) if !held.lease.is_valid(now) => {
                self.lose(now, LossReason::Expired, effects);
            }
            Phase::Held(held) if now >= held.hold_until => {
                self.lose(now, LossReason::HeldTooLong, effects);
            }
            Phase::Kept { held, .. } if !held.lease.is_valid(now) => {
                self.drop_kept(now, LossReason::Expired, effects);
            }
            Phase::Kept { until, .. } if now >= *until && self.queue.is_empty() => {
                self.settle_empty(now, effects);
            }
            Phase::Held(_) | Phase::Kept { .. } => self.tend(now, effects),
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
    fn tend(&mut self, now: Instant, effects: &mut Effects<W>) {
        if !self.policy.renew {
            return;
        }
        let window = renewal_window(self.policy.ttl);
        let (Phase::Held(held) | Phase::Kept { held, .. }) = &mut self.phase else { return };
        let watch = now >= held.watch_at;
        if watch {
            held.watch_at = Instant::FAR_FUTURE;
        }
        let slack = if held.relaxed { window } else { Duration::ZERO };
        let due = now + slack >= held.renew_at || held.check_at.is_some_and(|at| now >= at);
        if watch || now >= self.watch_retry() {
            self.watch_again(now, effects);
        }
        if due {
            self.renew_current(now, effects);
        }
    }

    /// Renews what is held.
    pub(super) fn renew_current(&mut self, now: Instant, effects: &mut Effects<W>) {
        let mut phase = std::mem::replace(&mut self.phase, Phase::Idle);
        if let Phase::Held(held) | Phase::Kept { held, .. } = &mut phase {
            let shared = !self.queue.is_empty() || held.used > 1;
            self.renew(now, held, shared, effects);
        }
        self.phase = phase;
    }

    fn expire_waiters(&mut self, now: Instant, effects: &mut Effects<W>) {
        let mut expired = false;
        while let Some(id) = self.queue.overdue(now) {
            let error = match &self.phase {
                Phase::Waiting { outage, .. }
                | Phase::Attempting { outage: outage @ Some(_), .. }
                | Phase::Releasing { outage, .. } => {
                    outage.as_ref().map(|outage| outage.error.clone())
                }
                Phase::Attempting { fresh: true, .. } => {
                    Some(Error::new(ErrorKind::Timeout, "the backend has not answered yet"))
                }
                _ => None,
            };
            let waker = self.queue.settle(id, Err(Denial::Timeout(error)));
            effects.wake(waker);
            expired = true;
        }
        if expired {
            self.settle_empty(now, effects);
        }
    }
}

/// How much earlier than at a third of its time a lease may be renewed, in company.
pub(crate) fn renewal_window(ttl: Ttl) -> Duration {
    ttl.duration() / 30
}

pub(super) fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(1 << times.min(16))
}

/// The pause before the next try: doubling, with full jitter in its upper half.
pub(super) fn backoff(tries: u32, claim: &Claim) -> Duration {
    let most = doubled(BACKOFF.0, tries).min(BACKOFF.1);
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
