//! Listening for hints about the key.

use std::time::Duration;

use lock_core::{Claim, Demand, Error, ErrorKind, Grant, Hint, Instant, OwnerToken};

use super::timing::{BACKOFF, doubled, jitter};
use super::{Effects, Machine, Next, Op, Phase};

/// How long the machine goes on listening when nobody here needs it: a lock that was contended a
/// moment ago is likely to be so again, and who listens is queued with its first request.
const LINGER: Duration = Duration::from_secs(5);

/// After how long it listens again where it was refused. Rights may be given, and are taken by mistake.
const REFUSED: Duration = Duration::from_secs(5);

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
            self.polls = 0;
            self.alone_since = None;
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
            Some(error) if error.kind() == ErrorKind::Unsupported => Instant::FAR_FUTURE,
            Some(error) if !error.is_retryable() => now + REFUSED,
            _ => now + doubled(BACKOFF.0, failures).min(BACKOFF.1),
        };
        self.watch = Watching::Failed { retry, failures: failures.saturating_add(1) };
        for seat in 0..self.seats.len() {
            match &mut self.seats[seat] {
                // Nobody can say any more that he wants it.
                Phase::Held(held) | Phase::Releasing { held, .. } => {
                    held.set_demand(Demand::Unknown, now);
                }
                Phase::Kept { held, .. } => {
                    held.set_demand(Demand::Unknown, now);
                    if !was_on {
                        self.review_kept(seat, now, true, false, effects);
                    }
                }
                _ => {}
            }
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
            Hint::Granted { owner, grant } => {
                for seat in 0..self.seats.len() {
                    self.granted_by_hint(seat, now, owner, grant, effects);
                }
            }
            Hint::Next { owner, after } => {
                for seat in 0..self.seats.len() {
                    self.next_by_hint(seat, now, owner, after);
                }
            }
            Hint::Wanted => self.wanted(now, effects),
            // Somebody else got it, which is no news to who waits.
            Hint::Changed => self.doubt(now),
            _ => {
                for seat in 0..self.seats.len() {
                    self.heard(seat, now, hint == Hint::Resync, effects);
                }
                self.ask_upgrade_again(effects);
            }
        }
    }

    /// Something has happened to the key, or may have.
    fn heard(&mut self, seat: usize, now: Instant, resync: bool, effects: &mut Effects<W>) {
        match &mut self.seats[seat] {
            Phase::Attempting { heard, .. } => heard.again = true,
            // A store out of reach is not asked more often because it flickers.
            Phase::Waiting { outage: None, yielding: Some(end), until, .. } if now < *end => {
                *until = (*until).min(*end);
            }
            Phase::Waiting { outage: None, .. } => self.ask_again(seat, now, effects),
            _ if resync => self.inquire(seat, now, effects),
            _ => self.doubt_seat(seat, now),
        }
    }

    /// The store says that it has handed the lock to a claim of this process.
    fn granted_by_hint(
        &mut self,
        seat: usize,
        now: Instant,
        owner: OwnerToken,
        grant: Option<Grant>,
        effects: &mut Effects<W>,
    ) {
        // Without renewal the lease must have its full length at once, which takes a request.
        let grant = grant.filter(|grant| self.policy.renew && grant.valid_until > now);
        match &mut self.seats[seat] {
            Phase::Waiting { claim, line, .. } if claim.owner == owner => {
                let Some(grant) = grant else { return self.ask_again(seat, now, effects) };
                let (claim, line) = (claim.clone(), *line);
                self.seats[seat] = Phase::Idle;
                self.granted(seat, now, claim, line, grant, effects);
            }
            // The answer to the request under way may be older than the grant.
            Phase::Attempting { claim, heard, .. } if claim.owner == owner => heard.again = true,
            Phase::Releasing { next: Some(next), .. } if next.claim.owner == owner => {
                next.heard.again = true;
            }
            Phase::Held(held) if held.claim.owner == owner => self.ask_upgrade_again(effects),
            _ => {}
        }
    }

    /// The store says that this claim is the first in its queue, and how long the lease before it lives.
    /// No message tells that this lease has ended, so the claim asks then.
    fn next_by_hint(&mut self, seat: usize, now: Instant, owner: OwnerToken, after: Duration) {
        let ask_by = |claim: &Claim| now + after + jitter(claim);
        match &mut self.seats[seat] {
            Phase::Waiting { claim, outage: None, until, relaxed, .. } if claim.owner == owner => {
                *relaxed &= *until < ask_by(claim);
                *until = (*until).min(ask_by(claim));
            }
            // The answer to the request under way may be older than the hint.
            Phase::Attempting { claim, heard, .. }
            | Phase::Releasing { next: Some(Next { claim, heard, .. }), .. }
                if claim.owner == owner =>
            {
                heard.ask_by = heard.ask_by.min(ask_by(claim));
            }
            _ => {}
        }
    }

    /// Somebody waits elsewhere for what is held here.
    fn wanted(&mut self, now: Instant, effects: &mut Effects<W>) {
        for seat in 0..self.seats.len() {
            match &mut self.seats[seat] {
                Phase::Attempting { wanted, .. } => *wanted = true,
                Phase::Held(held) => {
                    held.hear_wish(now);
                    self.weaken(seat, now, effects);
                }
                // It may be taken back.
                Phase::Releasing { held, .. } => held.hear_wish(now),
                Phase::Kept { held, .. } => {
                    held.hear_wish(now);
                    self.review_kept(seat, now, true, false, effects);
                }
                _ => {}
            }
        }
    }

    /// Something may have happened to the leases that are held: it is looked into soon.
    pub(super) fn doubt(&mut self, now: Instant) {
        for seat in 0..self.seats.len() {
            self.doubt_seat(seat, now);
        }
    }

    fn doubt_seat(&mut self, seat: usize, now: Instant) {
        if let Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } =
            &mut self.seats[seat]
            && self.policy.renew
        {
            held.doubt(now);
        }
    }

    /// Hints may have been missed: whether the lease is held and wanted must be asked.
    fn inquire(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        match &mut self.seats[seat] {
            // The answer to the renewal under way may be older.
            Phase::Held(held) | Phase::Kept { held, .. } if held.renewing => {
                held.check_at = Some(now);
            }
            _ => self.renew_seat(seat, now, effects),
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
