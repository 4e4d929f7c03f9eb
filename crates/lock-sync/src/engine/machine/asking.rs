//! The answers to requests for a lease.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use lock_core::AcquireOutcome::{Busy, Granted, Queued};
use lock_core::{AcquireOutcome, Claim, Contention, Error, ErrorKind, Grant, Instant, Mode};

use super::facts::{Asking, Watching};
use super::leased::Leased;
use super::seat::Seat;
use super::{AcquireAnswer, Denial, Machine};
use crate::engine::queue::Patience;
use crate::engine::timing::{self, LONGEST_POLL, POLL, jitter};
use crate::engine::validity::Validity;

/// The pause after a refusal that names no time to ask again.
const RECHECK_ENDLESS: Duration = Duration::from_secs(5);
/// Other clients may wait for a release outside the store's queue. Then a process with waiters of its own lets these
/// clients go first. After the shorter pause, the process asks if a hint says that the key is free. After the longer
/// pause, it asks in any case. The hint may be the echo of the process's own release, so even the shorter pause is long
/// enough for the other clients.
const YIELD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// A process that hears no hints does not know whether other processes poll for the lock, as it does itself. Its
/// tasks may take the lock turn after turn for a sixth of a lease, within these bounds. Then the process leaves the
/// lock alone for so long that every other process polls at least once.
const ALONE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A watch that is starting has this time to be in place. After that the process counts as one that hears no hints.
const HEARS_WITHIN: Duration = Duration::from_millis(50);
/// A claim asks for a place in the store's queue after this time, even if the process has all the declared permits.
const INSIST_AFTER: Duration = Duration::from_secs(1);
/// One request asks for the permits of at most this many waiters.
const LONGEST_RUN: u32 = 1024;
/// The bounds of a reservation of tokens. The lower one applies when the machine expects few holders.
const RESERVE: (u32, u32) = (8, 8192);

impl<W> Machine<W> {
    /// How many fencing tokens to reserve: twice as many as the waiters need, so that a growing line is served. No
    /// more, because every reserved token moves the counter of the store.
    pub(super) fn reserve(&self) -> NonZeroU32 {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let needed = waiting.max(self.used_last).saturating_mul(2);
        NonZeroU32::MIN.saturating_add(needed.clamp(RESERVE.0, RESERVE.1))
    }

    /// The store has answered a request.
    pub(in super::super) fn attempt_done(&mut self, asked: &Claim, result: &AcquireAnswer) {
        let sent = |seat: &Seat| matches!(seat, Seat::Asking(asking) if asking.request.sent);
        let seat = self.seat_of(asked.owner).filter(|seat| sent(&self.seats[*seat]));
        let Some(seat) = seat else { return self.refuse(asked, result) };
        let Seat::Asking(mut asking) = std::mem::replace(&mut self.seats[seat], Seat::Free) else {
            return;
        };
        asking.request.sent = false;
        match result {
            Ok(Granted(grant)) => {
                let mut grant = grant.clone();
                if asking.wanted {
                    grant.contention = Contention::Contended;
                }
                self.granted(seat, asking.claim, grant);
                if asking.hinted {
                    // The hint may be about this very grant.
                    self.doubt();
                }
            }
            Ok(refusal @ (Busy { .. } | Queued { .. })) => self.refused(seat, asking, refusal),
            Ok(_) => {
                let unreadable = "an outcome this version cannot read";
                self.failed(seat, asking, &Error::new(ErrorKind::Protocol, unreadable));
            }
            Err(error) => self.failed(seat, asking, error),
        }
    }

    /// The process repeats a request for this claim. The store may still carry out the first one.
    pub(in super::super) fn attempt_repeated(&mut self, asked: &Claim) {
        if let Some(asking) = self.asking_for(asked.owner) {
            asking.placed = true;
        }
    }

    /// The store has granted the claim on this seat.
    pub(super) fn granted(&mut self, seat: usize, claim: Claim, grant: Grant) {
        let now = self.pass.now;
        if claim.mode.counts() {
            let wanted = grant.contention == Contention::Contended;
            self.run = if wanted { 1 } else { (self.run * 2).min(LONGEST_RUN) };
        }
        self.polls = 0;
        if self.watch != Watching::On {
            self.alone_since.get_or_insert(now);
        }
        let (holds, ttl) = (std::mem::take(&mut self.spare), self.policy.ttl);
        let lease = self.next_lease(grant.valid_until);
        self.seats[seat] = Seat::Leased(Leased::new(holds, lease, claim, grant, ttl, now));
    }

    /// What the holders of the next lease see of it.
    pub(super) fn next_lease(&self, valid_until: Instant) -> Arc<Validity> {
        if !self.lease_is_free() {
            return Arc::new(Validity::new(self.lease.clock(), valid_until));
        }
        self.lease.restart(valid_until);
        Arc::clone(&self.lease)
    }

    fn refused(&mut self, seat: usize, mut asking: Asking, refusal: &AcquireOutcome) {
        let mode = asking.claim.mode;
        let queued = matches!(refusal, Queued { .. });
        asking.placed |= queued;
        (asking.refused, asking.request.outage) = (true, None);
        (self.run, self.alone_since) = (1, None);
        let mut pause = self.pause_after(&asking.claim, refusal);
        if !queued && self.has_all(mode) {
            // The store may allow more permits by now than the mode declares.
            pause = pause.min(INSIST_AFTER);
        }
        // Only a request that keeps a place may leave early. After a shorter pause the lease of the holder may have
        // ended, so that request leaves on time.
        let third = self.policy.ttl.duration() / 3;
        asking.request.by(self.pass.now + pause, queued && pause >= third);
        self.seats[seat] = Seat::Asking(asking);
        // A refusal of more permits than the first waiter wants says nothing about that waiter.
        let less = |first: Mode| first.counts() && mode.permits() > first.permits();
        if !self.queue.first_want().is_some_and(less) {
            self.deny_tries(&Denial::WouldBlock);
        }
    }

    /// How long a claim waits after this refusal if no hint comes. A claim without a place that no hint can reach
    /// asks again soon, because the lock may be free long before the present lease ends.
    pub(super) fn pause_after(&mut self, claim: &Claim, refusal: &AcquireOutcome) -> Duration {
        let (Busy { retry_after } | Queued { retry_after }) = refusal else {
            return RECHECK_ENDLESS;
        };
        let pause = retry_after.map_or(RECHECK_ENDLESS, |after| after + jitter(claim));
        let hears = self.watch == Watching::On;
        if hears || matches!(refusal, Queued { .. }) {
            return pause;
        }
        let poll = timing::pause(POLL, self.polls, claim);
        self.polls = self.polls.saturating_add(1);
        pause.min(poll)
    }

    fn failed(&mut self, seat: usize, mut asking: Asking, error: &Error) {
        let now = self.pass.now;
        let since = asking.request.fail(now, error, &asking.claim, &mut self.errors);
        let curable = error.is_retryable();
        let lasting = !curable || now >= since + self.policy.patience();
        let mode = asking.claim.mode;
        asking.placed |= asking.queued;
        (asking.refused, asking.hinted) = (false, false);
        self.run = 1;
        self.seats[seat] = Seat::Asking(asking);
        self.deny_where(&Denial::Failed(error.clone()), |patience, want| match patience {
            Patience::Try if curable => true,
            // The waiter goes on waiting for the store until its limit, or the limit of outages.
            Patience::Until(_) if curable => false,
            _ => lasting && size(mode) == size(want),
        });
    }

    // ---- Letting other processes go first ----

    /// Whether this process has taken the lock for so long, without hearing of other processes, that it has to let
    /// them go first.
    pub(super) fn was_alone(&self, now: Instant) -> bool {
        let limit = (self.policy.ttl.duration() / 6).clamp(ALONE.0, ALONE.1);
        self.alone_since.is_some_and(|since| now >= since + limit)
    }

    /// Notes for how long other processes go first after a release, if any may wait. The first time counts if a hint
    /// says that the lock is free, and the second in any case. A process that is about to hear hints first finds out
    /// whether other processes wait.
    pub(super) fn be_courteous(&mut self, contended: bool, stayed: bool) {
        let now = self.pass.now;
        self.courtesy = None;
        // A try does not yield: it needs a fresh answer of the store.
        if !self.is_waited_for() {
            self.alone_since = self.alone_since.filter(|_| !self.queue.is_empty());
            return;
        }
        let hears_soon = match self.watch {
            Watching::Off => true,
            Watching::Starting => !self.was_alone(now - HEARS_WITHIN),
            Watching::On | Watching::Failed(_) => false,
        };
        let (hinted, most) = match self.was_alone(now) {
            true if hears_soon => return,
            true => (LONGEST_POLL, LONGEST_POLL),
            // Perhaps no hint tells the other clients that the lock is free.
            false if stayed => (YIELD.1, YIELD.1),
            false if contended => YIELD,
            false => return,
        };
        self.alone_since = None;
        self.courtesy = Some((now + hinted, now + most));
    }

    // ---- Denying waiters ----

    /// Denies the waiters that only try. Such a waiter joins an empty line only, so it is the first.
    pub(super) fn deny_tries(&mut self, denial: &Denial) {
        self.deny_where(denial, |patience, _| patience == Patience::Try);
    }

    pub(super) fn deny_all(&mut self, denial: &Denial) {
        self.deny_where(denial, |_, _| true);
    }

    pub(super) fn deny_where(&mut self, denial: &Denial, denied: impl Fn(Patience, Mode) -> bool) {
        for (id, patience, want) in self.queue.waiting() {
            if denied(patience, want) {
                self.pass.wake(self.queue.answer(id, Err(denial.clone())));
            }
        }
    }
}

/// The declared number of permits. An error for a mode also stands for the modes with the same number.
fn size(mode: Mode) -> Option<u32> {
    let Mode::Permits { of, .. } = mode else { return None };
    Some(of)
}
