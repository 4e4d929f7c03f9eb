//! Listening for hints about the key.

use std::time::Duration;

use lock_core::{Demand, Error, Hint, Instant};

use super::timing::{BACKOFF, doubled};
use super::{Effects, Machine, Op, Phase};

/// How long the machine goes on listening when nobody here needs it: a lock that was contended a
/// moment ago is likely to be so again, and who listens is queued with its first request.
const LINGER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum Watching {
    Off,
    Starting { failures: u32 },
    On { failures: u32 },
    Failed { retry: Instant, failures: u32 },
}

impl<W> Machine<W> {
    /// The watch is in place: what happened before it is unknown.
    pub(in super::super) fn watch_started(&mut self, now: Instant, effects: &mut Effects<W>) {
        if let Watching::Starting { failures } = self.watch {
            self.watch = Watching::On { failures };
            self.hint(now, Hint::Resync, effects);
        }
    }

    /// The watch could not be put in place, or has ended.
    pub(in super::super) fn watch_ended(
        &mut self,
        now: Instant,
        error: Option<&Error>,
        effects: &mut Effects<W>,
    ) {
        let (failures, was_on) = match self.watch {
            Watching::On { failures } => (failures, true),
            Watching::Starting { failures } => (failures, false),
            Watching::Off | Watching::Failed { .. } => return,
        };
        let retry = match error {
            Some(error) if !error.is_retryable() => Instant::FAR_FUTURE,
            _ => now + doubled(BACKOFF.0, failures).min(BACKOFF.1),
        };
        self.watch = Watching::Failed { retry, failures: failures.saturating_add(1) };
        match &mut self.phase {
            // Nobody can say any more that he wants it.
            Phase::Held(held) | Phase::Releasing { held, .. } => {
                held.set_demand(Demand::Unknown, now)
            }
            Phase::Kept { held, .. } => {
                held.set_demand(Demand::Unknown, now);
                if !was_on {
                    self.review_kept(now, true, false, effects);
                }
            }
            _ => {}
        }
        if was_on {
            self.hint(now, Hint::Resync, effects);
        }
    }

    /// A hint about the key.
    pub(in super::super) fn hint(&mut self, now: Instant, hint: Hint, effects: &mut Effects<W>) {
        if let (Watching::On { failures }, false) = (&mut self.watch, hint == Hint::Resync) {
            *failures = 0;
        }
        match hint {
            Hint::Granted { owner, grant } => match &mut self.phase {
                Phase::Waiting { claim, .. } | Phase::Attempting { claim, .. }
                    if claim.owner == owner =>
                {
                    self.granted_by_hint(now, grant, effects);
                }
                Phase::Releasing { next: Some(next), .. } if next.claim.owner == owner => {
                    next.again = true;
                }
                _ => {}
            },
            Hint::Wanted => self.wanted(now, effects),
            // Somebody else got it, which is no news to who waits.
            Hint::Changed => self.doubt(now),
            _ => match &mut self.phase {
                Phase::Attempting { again, .. } => *again = true,
                // A store out of reach is not asked more often because it flickers.
                Phase::Waiting { outage: None, yielding: Some(end), until, .. } if now < *end => {
                    *until = (*until).min(*end);
                }
                Phase::Waiting { outage: None, .. } => self.ask_again(now, effects),
                _ if hint == Hint::Resync => self.inquire(now, effects),
                _ => self.doubt(now),
            },
        }
    }

    /// The store says that it has handed the lock to the claim of this process.
    fn granted_by_hint(
        &mut self,
        now: Instant,
        grant: Option<lock_core::Grant>,
        effects: &mut Effects<W>,
    ) {
        // Without renewal the lease must have its full length at once, which takes a request.
        let grant = grant.filter(|grant| self.policy.renew && grant.valid_until > now);
        match (std::mem::replace(&mut self.phase, Phase::Idle), grant) {
            (Phase::Waiting { claim, .. }, Some(grant)) => {
                self.granted(now, claim, grant, effects);
            }
            (waiting @ Phase::Waiting { .. }, None) => {
                self.phase = waiting;
                self.ask_again(now, effects);
            }
            (mut other, _) => {
                // The answer to the request under way may be older than the grant.
                if let Phase::Attempting { again, .. } = &mut other {
                    *again = true;
                }
                self.phase = other;
            }
        }
    }

    /// Somebody waits elsewhere for what is held here.
    fn wanted(&mut self, now: Instant, effects: &mut Effects<W>) {
        match &mut self.phase {
            Phase::Attempting { wanted, .. } => *wanted = true,
            // It may be taken back.
            Phase::Held(held) | Phase::Releasing { held, .. } => held.hear_wish(now),
            Phase::Kept { held, .. } => {
                held.hear_wish(now);
                self.review_kept(now, true, false, effects);
            }
            _ => {}
        }
    }

    /// Something may have happened to the lease that is held: it is looked into soon.
    pub(super) fn doubt(&mut self, now: Instant) {
        if let Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } =
            &mut self.phase
            && self.policy.renew
        {
            held.doubt(now);
        }
    }

    /// Hints may have been missed: whether the lease is held and wanted must be asked.
    fn inquire(&mut self, now: Instant, effects: &mut Effects<W>) {
        match &mut self.phase {
            // The answer to the renewal under way may be older.
            Phase::Held(held) | Phase::Kept { held, .. } if held.renewing => {
                held.check_at = Some(now);
            }
            _ => self.renew_current(now, effects),
        }
    }

    /// Listens, now or again.
    pub(super) fn watch_again(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.rest_at = Instant::FAR_FUTURE;
        let failures = match self.watch {
            Watching::Off => 0,
            Watching::Failed { retry, failures } if now >= retry => failures,
            _ => return,
        };
        if self.closed {
            return;
        }
        self.watch = Watching::Starting { failures };
        effects.ops.push(Op::Watch);
    }

    /// Nobody here needs to listen for the moment.
    pub(super) fn rest_watch(&mut self, now: Instant) {
        if !matches!(self.watch, Watching::Off) {
            self.rest_at = now + LINGER;
        }
    }

    pub(super) fn stop_watching(&mut self, effects: &mut Effects<W>) {
        self.rest_at = Instant::FAR_FUTURE;
        if !matches!(self.watch, Watching::Off) {
            self.watch = Watching::Off;
            effects.ops.push(Op::Unwatch);
        }
    }
}
