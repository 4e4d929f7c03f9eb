//! Listening for hints about the key.

use std::time::Duration;

use lock_core::{Demand, Error, ErrorKind, Grant, Hint, Instant, OwnerToken};

use super::facts::{Asking, Watching};
use super::leased::Leased;
use super::seat::Seat;
use super::timing::{BACKOFF, jitter};
use super::{Machine, Op, Pass};

/// How long the machine goes on listening when no waiter or holder here needs it: a lock that was contended
/// a moment ago is likely to be so again, and a process that listens is queued with its first request.
const REST_AFTER: Duration = Duration::from_secs(5);

/// After how long it listens again where it was refused. Rights may be given, and are taken by mistake.
const REFUSED: Duration = Duration::from_secs(5);

impl<W> Machine<W> {
    // ---- Events ----

    /// The watch is in place: what happened before it is unknown.
    pub(in super::super) fn watch_started(&mut self, pass: &mut Pass<W>) {
        if let Watching::Starting { failures } = self.watch {
            self.watch = Watching::On { failures };
            self.polls = 0;
            self.alone_since = None;
            self.hear(Hint::Resync, pass);
        }
        self.settle(pass);
    }

    /// The watch could not be put in place, or has ended.
    pub(in super::super) fn watch_ended(&mut self, error: Option<&Error>, pass: &mut Pass<W>) {
        let now = pass.now;
        let (failures, was_on) = match self.watch {
            Watching::On { failures } => (failures, true),
            Watching::Starting { failures } => (failures, false),
            Watching::Off | Watching::Failed { .. } => return,
        };
        let retry = match error {
            Some(error) if error.kind() == ErrorKind::Unsupported => Instant::FAR_FUTURE,
            Some(error) if !error.is_retryable() => now + REFUSED,
            _ => now + BACKOFF.after(failures).pause(),
        };
        self.watch = Watching::Failed { retry, failures: failures.saturating_add(1) };
        // No other process can say any more that it wants the lock.
        self.seats.iter_mut().filter_map(Seat::leased_mut).for_each(|it| it.hear_nothing(now));
        if was_on {
            self.hear(Hint::Resync, pass);
        }
        self.settle(pass);
    }

    /// A hint about the key.
    pub(in super::super) fn hint(&mut self, hint: Hint, pass: &mut Pass<W>) {
        if let (Watching::On { failures }, false) = (&mut self.watch, hint == Hint::Resync) {
            *failures = 0;
        }
        self.hear(hint, pass);
        self.settle(pass);
    }

    fn hear(&mut self, hint: Hint, pass: &mut Pass<W>) {
        let now = pass.now;
        for seat in 0..self.seats.len() {
            match hint {
                Hint::Granted { owner, grant } => {
                    self.granted_by_hint(seat, owner, grant, pass);
                }
                Hint::Next { owner, after } => self.next_by_hint(seat, now, owner, after),
                Hint::Wanted => self.wanted(seat, now),
                // Another process got it, which is no news to a waiter.
                Hint::Changed => self.doubt_seat(seat, now),
                _ => self.heard(seat, now, hint == Hint::Resync),
            }
        }
    }

    /// Something has happened to the key, or may have.
    fn heard(&mut self, seat: usize, now: Instant, resync: bool) {
        self.hint_at_change(seat, now);
        match &mut self.seats[seat] {
            Seat::Asking(asking) => asking.hear(now),
            Seat::Leased(leased) if resync && self.policy.renew => {
                leased.listen_again();
                leased.check_at = Some(now);
            }
            _ => self.doubt_seat(seat, now),
        }
    }

    /// The store says that it has handed the lock to a claim of this process.
    fn granted_by_hint(
        &mut self,
        seat: usize,
        owner: OwnerToken,
        grant: Option<Grant>,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        // Without renewal the lease must have its full length at once, which takes a request.
        let grant = grant.filter(|grant| self.policy.renew && grant.valid_until > now);
        if let Some(asking) = self.seats[seat].waiting().filter(|it| it.claim.owner == owner)
            && let Some(grant) = grant
        {
            let claim = asking.claim.clone();
            return self.granted(seat, claim, grant, pass);
        }
        if let Some(asking) = self.seats[seat].asking_mut().filter(|it| it.claim.owner == owner) {
            asking.hear_grant();
        } else if self.seats[seat].live().is_some_and(|it| it.claim.owner == owner) {
            self.hint_at_change(seat, now);
        }
    }

    /// The store says that this claim is the first in its queue, and how long the lease before it lives.
    /// No message tells that this lease has ended, so the claim asks then.
    fn next_by_hint(&mut self, seat: usize, now: Instant, owner: OwnerToken, after: Duration) {
        let asking = self.seats[seat].asking_mut().filter(|asking| asking.claim.owner == owner);
        if let Some(asking) = asking {
            let ask_by = now + after + jitter(&asking.claim);
            asking.ask_by(ask_by);
        }
    }

    /// Another process waits for what this one has.
    fn wanted(&mut self, seat: usize, now: Instant) {
        match &mut self.seats[seat] {
            Seat::Asking(asking) => {
                if let Some(sent) = &mut asking.sent {
                    sent.wanted = true;
                }
            }
            Seat::Leased(leased) => leased.hear_wish(now),
            Seat::Free => {}
        }
    }

    /// Something may have happened to the leases that are here: the process looks soon.
    pub(super) fn doubt(&mut self, now: Instant) {
        (0..self.seats.len()).for_each(|seat| self.doubt_seat(seat, now));
    }

    fn doubt_seat(&mut self, seat: usize, now: Instant) {
        if self.policy.renew
            && let Some(leased) = self.seats[seat].leased_mut()
        {
            leased.doubt(now);
        }
    }

    // ---- Listening or not ----

    /// Listens, stops, or lets things be.
    pub(super) fn settle_watch(&mut self, pass: &mut Pass<W>) {
        let now = pass.now;
        let failures = match self.watch {
            Watching::Off => Some(0),
            Watching::Failed { retry, failures } if now >= retry => Some(failures),
            _ => None,
        };
        if let Some(failures) = failures
            && self.wants_watch(now)
        {
            self.watch = Watching::Starting { failures };
            pass.ops.push(Op::Watch);
        }
        let needed = !self.queue.is_empty()
            || self.seats.iter().any(|seat| seat.waiting().is_some() || seat.live().is_some());
        if needed && !self.closed {
            self.rest_at = Instant::FAR_FUTURE;
        } else if self.rest_at == Instant::FAR_FUTURE {
            self.rest_at = now + REST_AFTER;
        }
        if (self.closed || now >= self.rest_at) && !matches!(self.watch, Watching::Off) {
            self.watch = Watching::Off;
            pass.ops.push(Op::Unwatch);
        }
    }

    /// Whether a hint would be of use to what is here.
    fn wants_watch(&self, now: Instant) -> bool {
        let lonely = self.was_alone(now) && self.is_waited_for();
        let several = self.seats.iter().filter(|seat| !seat.is_free()).count() > 1;
        !self.closed
            && (lonely
                || self.seats.iter().any(|seat| match seat {
                    Seat::Free => false,
                    // A process that has one lease and waits for another is contended for certain.
                    Seat::Asking(asking) => several || asking.is_held_up(),
                    Seat::Leased(leased) => self.wants_hints(leased, now),
                }))
    }

    fn wants_hints(&self, leased: &Leased, now: Instant) -> bool {
        let failed = matches!(self.watch, Watching::Failed { .. });
        leased.is_idle()
            || leased.is_live() && leased.crowded && leased.demand() == Demand::Unknown
            || leased.is_live() && self.policy.renew && (failed || now >= leased.watch_at)
    }

    /// When the machine begins to listen, or stops, if nothing else happens.
    pub(super) fn watch_due(&self) -> Instant {
        match self.watch {
            _ if self.closed => Instant::FAR_FUTURE,
            Watching::Failed { retry, .. } if self.wants_watch(retry) => retry,
            Watching::Off if self.policy.renew => {
                let live = self.seats.iter().filter_map(Seat::live);
                live.map(|leased| leased.watch_at).min().unwrap_or(Instant::FAR_FUTURE)
            }
            Watching::Off => Instant::FAR_FUTURE,
            _ => self.rest_at,
        }
    }
}

impl Asking {
    /// Something has happened to the key.
    fn hear(&mut self, now: Instant) {
        match (&mut self.sent, self.yielding) {
            (Some(sent), _) => sent.again = true,
            // A store out of reach is not asked more often because it flickers.
            _ if self.outage.is_some() => {}
            (None, Some(end)) if now < end => self.until = self.until.min(end),
            (None, _) => self.hinted = true,
        }
    }

    /// The store says that it has granted the claim. An answer under way may be older.
    fn hear_grant(&mut self) {
        match &mut self.sent {
            Some(sent) => sent.again = true,
            None => self.hinted = true,
        }
    }

    /// Asks again by then.
    fn ask_by(&mut self, at: Instant) {
        match &mut self.sent {
            Some(sent) => sent.ask_by = sent.ask_by.min(at),
            None if self.outage.is_some() => {}
            None => {
                self.relaxed &= self.until < at;
                self.until = self.until.min(at);
            }
        }
    }
}
