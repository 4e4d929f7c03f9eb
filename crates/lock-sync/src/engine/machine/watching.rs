//! Listening for hints about the key.

use std::time::Duration;

use lock_core::{Contention, Error, ErrorKind, Grant, Hint, Instant, OwnerToken};

use super::facts::{Asking, Watching};
use super::leased::Leased;
use super::plan::Plan;
use super::seat::Seat;
use super::{Machine, Op};
use crate::engine::timing::{BACKOFF, jitter};

/// How long the machine goes on listening when no waiter or lease of this process needs it. A lock that was
/// contended a moment ago is likely to be contended again, and a process that listens gets a place in the store's
/// queue with its first request.
const REST_AFTER: Duration = Duration::from_secs(5);

/// The pause before the machine listens again after a refusal that is not retryable. A missing right may be granted
/// later.
const REFUSED: Duration = Duration::from_secs(5);

impl<W> Machine<W> {
    // ---- Events ----

    /// The watch is in place. Hints from before that may have been missed.
    pub(in super::super) fn watch_started(&mut self) {
        if self.watch == Watching::Starting {
            self.watch = Watching::On;
            (self.polls, self.alone_since) = (0, None);
            self.hint(Hint::Resync);
        }
    }

    /// The watch could not be put in place, or has ended.
    pub(in super::super) fn watch_ended(&mut self, error: Option<&Error>) {
        let now = self.pass.now;
        let was_on = self.watch == Watching::On;
        if !was_on && self.watch != Watching::Starting {
            return;
        }
        self.watch = Watching::Failed(match error {
            Some(error) if error.kind() == ErrorKind::Unsupported => Instant::FAR_FUTURE,
            Some(error) if !error.is_retryable() => now + REFUSED,
            _ => now + BACKOFF.after(self.watch_failures).pause(),
        });
        self.watch_failures = self.watch_failures.saturating_add(1);
        // From now on no hint tells that another process wants the lock.
        self.leases_mut().for_each(|leased| leased.turn.hear_nothing(now));
        if was_on {
            self.hint(Hint::Resync);
        }
    }

    /// A hint about the key.
    pub(in super::super) fn hint(&mut self, hint: Hint) {
        let now = self.pass.now;
        if hint != Hint::Resync {
            self.watch_failures = 0;
        }
        match hint {
            Hint::Granted { owner, grant } => self.granted_by_hint(owner, grant),
            // When the lease before this claim expires, no hint comes. So the claim asks then.
            Hint::Next { owner, after } => {
                if let Some(asking) = self.asking_for(owner).filter(|it| !it.request.is_failing()) {
                    asking.request.by(now + after + jitter(&asking.claim), false);
                }
            }
            Hint::Contended => self.seats.iter_mut().for_each(|seat| match seat {
                Seat::Asking(asking) => asking.wanted = true,
                Seat::Leased(leased) => leased.turn.hear_wish(leased.is_busy(), now),
                Seat::Free => {}
            }),
            // The key went to another owner. That is news to a lease, but not to a waiting claim.
            Hint::Changed => self.doubt(),
            _ => self.heard(hint == Hint::Resync),
        }
    }

    /// Something has happened to the key, or may have.
    fn heard(&mut self, resync: bool) {
        let now = self.pass.now;
        // A try does not wait for news.
        if !self.tries_to_upgrade() {
            self.hint_at_change();
        }
        for seat in &mut self.seats {
            match seat {
                Seat::Asking(asking) => asking.hear(now),
                Seat::Leased(leased) if resync => {
                    leased.turn.listen_again();
                    leased.renewal.by(now, false);
                }
                Seat::Leased(leased) => leased.doubt(now),
                Seat::Free => {}
            }
        }
    }

    /// The store says that it has handed the lock to a claim of this process.
    fn granted_by_hint(&mut self, owner: OwnerToken, grant: Option<Grant>) {
        // A lease that is handed over is short. Without renewal it needs its full length at once, and only a
        // request gives it that.
        let grant = grant.filter(|grant| self.policy.renew && grant.valid_until > self.pass.now);
        let ours = self.seat_of(owner);
        let waiting = ours.and_then(|seat| self.seats[seat].waiting());
        if let (Some(seat), Some(asking), Some(grant)) = (ours, waiting, grant) {
            self.granted(seat, asking.claim.clone(), grant);
            if let Some(leased) = self.seats[seat].leased_mut() {
                (leased.is_pushed, leased.trip) = (true, Duration::ZERO);
            }
        } else if let Some(asking) = self.asking_for(owner) {
            asking.hinted = true;
        } else if let Some(seat) = ours {
            self.hint_at_change_on(seat);
        }
    }

    pub(super) fn asking_for(&mut self, owner: OwnerToken) -> Option<&mut Asking> {
        let mut asking = self.seats.iter_mut().filter_map(Seat::asking_mut);
        asking.find(|asking| asking.claim.owner == owner)
    }

    /// The leases of this process may have been lost: the process checks them soon.
    pub(super) fn doubt(&mut self) {
        let now = self.pass.now;
        self.leases_mut().for_each(|leased| leased.doubt(now));
    }

    // ---- Starting and stopping the watch ----

    /// Starts or stops the watch, if that is due, and plans the next look.
    pub(super) fn settle_watch(&mut self, plan: &mut Plan) {
        let retry = match self.watch {
            Watching::Off => Some(plan.now),
            Watching::Failed(retry) => Some(retry),
            Watching::Starting | Watching::On => None,
        };
        if let Some(retry) = retry.filter(|_| self.wants_watch(plan)) {
            if plan.now < retry {
                plan.wake(retry);
            } else {
                self.watch = Watching::Starting;
                self.pass.ops.push(Op::Watch);
            }
        }
        let needs = |seat: &Seat| seat.waiting().is_some() || seat.live().is_some();
        if !self.closed && (!self.queue.is_empty() || self.seats.iter().any(needs)) {
            self.rest_at = plan.now + REST_AFTER;
        } else if self.watch != Watching::Off && (self.closed || plan.now >= self.rest_at) {
            (self.watch, self.watch_failures) = (Watching::Off, 0);
            self.pass.ops.push(Op::Unwatch);
        } else if self.watch != Watching::Off {
            plan.wake(self.rest_at);
        }
    }

    /// Whether a hint would be of use to a waiter or a lease of this process.
    fn wants_watch(&self, plan: &mut Plan) -> bool {
        let lonely = self.was_alone(plan.now) && self.is_waited_for();
        let several = self.seats.iter().filter(|seat| !seat.is_free()).count() > 1;
        let wants = |seat: &Seat| match seat {
            Seat::Free => false,
            // The store has refused the claim, other processes go first, or this one waits beside a lease of its own:
            // then there is contention.
            Seat::Asking(asking) => several || asking.refused || !asking.request.sent,
            Seat::Leased(leased) => leased.is_live() && self.wants_hints(leased, plan),
        };
        !self.closed && (lonely || self.seats.iter().any(wants))
    }

    fn wants_hints(&self, leased: &Leased, plan: &mut Plan) -> bool {
        let crowded = leased.holds.live() > 1 || !self.queue.is_empty();
        let lasts = self.watch != Watching::Off || plan.now >= leased.watch_at;
        if self.policy.renew {
            plan.look(leased.watch_at);
        }
        leased.is_idle()
            || crowded && leased.turn.contention() == Contention::Unknown
            || self.policy.renew && lasts
    }
}
