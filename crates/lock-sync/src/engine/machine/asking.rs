//! What becomes of the requests for a lease.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{Attempt, Claim, Demand, Error, ErrorKind, Grant, Instant, Mode};

use super::facts::{Asking, Outage, Sent, Watching};
use super::leased::Leased;
use super::seat::Seat;
use super::timing::{BACKOFF, LONGEST_POLL, POLL, jitter, pause};
use super::{Denial, Machine, Op, Pass};
use crate::engine::queue::Patience;

/// When a holder without an end is asked about again, should no hint come.
const RECHECK_ENDLESS: Duration = Duration::from_secs(5);
/// After a release for which clients waited outside any queue, a process with waiters of its own asks
/// again only after the first if a hint says that it may, and after the second in any case. The hint
/// may be the echo of its own release, so the first leaves the others time to come.
const YIELD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// A process that hears no hints does not know whether others ask by the clock, as it does itself. Its
/// tasks may take the lock turn after turn for a sixth of a lease, within these bounds. Then the process
/// leaves the lock to others for so long that each of them asks at least once.
const ALONE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// A watch that begins has this time to be in place before the process counts as one that hears nothing.
const HEARS_WITHIN: Duration = Duration::from_millis(50);
/// When a place in the store's queue is asked for although all permits that were declared are here.
const INSIST_AFTER: Duration = Duration::from_secs(1);
/// Permits are asked for on behalf of at most so many waiters at once.
const LONGEST_RUN: u32 = 1024;
/// Tokens reserved when nothing is known about the demand, and at most.
const RESERVE: (u32, u32) = (8, 8192);

impl<W> Machine<W> {
    /// What to ask for so that the first waiter gets `want`: where permits come easily, permits for the
    /// waiters behind it as well.
    pub(super) fn in_one_go(&self, want: Mode) -> Mode {
        let Mode::Permits { take, of } = want else { return want };
        if !self.is_waited_for() || self.run <= 1 {
            return want;
        }
        let here: u64 =
            self.seats.iter().filter_map(Seat::leased).map(|leased| leased.permits(of)).sum();
        let room = u64::from(of).saturating_sub(here);
        let mut sum = 0;
        for next in self.queue.wants().take(self.run as usize) {
            match next {
                Mode::Permits { take, of: known }
                    if known == of && u64::from(sum) + u64::from(take) <= room =>
                {
                    sum += take;
                }
                _ => break,
            }
        }
        Mode::Permits { take: sum.max(take), of }
    }

    /// How many fencing tokens to reserve: twice the demand, so that a rising one is met, and no
    /// more, because every reserved token moves the counter.
    pub(super) fn reserve(&self) -> NonZeroU32 {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let demand = waiting.max(self.used_last).saturating_mul(2);
        NonZeroU32::MIN.saturating_add(demand.clamp(RESERVE.0, RESERVE.1))
    }

    /// The store answered to a request.
    pub(in super::super) fn attempt_done(
        &mut self,
        asked: &Claim,
        result: Result<Attempt, Error>,
        pass: &mut Pass<W>,
    ) {
        let theirs = |seat: &Seat| matches!(seat, Seat::Asking(asking) if asking.claim == *asked && asking.sent.is_some());
        if let Some(seat) = self.seats.iter().position(theirs) {
            self.answered(seat, result, pass);
        } else if matches!(result, Ok(Attempt::Granted(_) | Attempt::Queued { .. })) {
            // No waiter wants it any more.
            self.forget_stranger(asked.clone(), pass);
        }
        self.settle(pass);
    }

    pub(super) fn answered(
        &mut self,
        seat: usize,
        result: Result<Attempt, Error>,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let Seat::Asking(mut asking) = std::mem::replace(&mut self.seats[seat], Seat::Free) else {
            return;
        };
        let Some(sent) = asking.sent.take() else { return };
        match result {
            Ok(Attempt::Granted(grant)) => {
                let grant = if sent.wanted { grant.in_demand(Demand::Wanted) } else { grant };
                self.granted(seat, asking.claim, grant, pass);
                if sent.again {
                    // What was heard meanwhile may concern this very grant.
                    self.doubt(now);
                }
            }
            Ok(refusal @ (Attempt::Busy { .. } | Attempt::Queued { .. })) => {
                self.refused(seat, asking, &sent, &refusal, pass);
            }
            other => {
                let unreadable = "an outcome this version cannot read";
                let error =
                    other.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, unreadable));
                self.failed(seat, asking, error, pass);
            }
        }
    }

    /// A request for this claim has failed and is repeated: the store may have carried it out.
    pub(in super::super) fn attempt_repeated(&mut self, asked: &Claim) {
        for seat in &mut self.seats {
            if let Seat::Asking(asking) = seat
                && asking.claim == *asked
            {
                asking.placed = true;
            }
        }
    }

    /// The claim of this process is held.
    pub(super) fn granted(&mut self, seat: usize, claim: Claim, grant: Grant, pass: &mut Pass<W>) {
        let now = pass.now;
        if claim.mode.counts() {
            let wanted = grant.demand == Demand::Wanted;
            self.run = if wanted { 1 } else { (self.run * 2).min(LONGEST_RUN) };
        }
        self.polls = 0;
        if !matches!(self.watch, Watching::On { .. }) {
            self.alone_since.get_or_insert(now);
        }
        if grant.valid_until <= now {
            // It came too late to be of use.
            pass.ops.push(Op::Forget(claim));
            self.seats[seat] = Seat::Free;
        } else {
            let (memory, ttl) = (self.memory.take(), self.policy.ttl);
            let leased = Leased::new(memory, self.clock, claim, grant, ttl, now);
            self.seats[seat] = Seat::Leased(leased);
        }
    }

    fn refused(
        &mut self,
        seat: usize,
        mut asking: Asking,
        sent: &Sent,
        refusal: &Attempt,
        pass: &mut Pass<W>,
    ) {
        let now = pass.now;
        let mode = asking.claim.mode;
        asking.placed |= matches!(refusal, Attempt::Queued { .. });
        asking.outage = None;
        let pause = self.pause(now, &asking, refusal);
        self.run = 1;
        self.alone_since = None;
        asking.until = sent.ask_by.min(now + pause);
        // After a shorter pause a lease may have ended: then it asks on time.
        let third = pause >= self.policy.ttl.duration() / 3;
        let keeps = matches!(refusal, Attempt::Queued { .. }) && third;
        asking.relaxed = keeps && sent.ask_by > now + pause;
        asking.hinted = sent.again;
        self.seats[seat] = Seat::Asking(asking);
        if self.is_no_less_than(mode) {
            self.deny_tries(&Denial::WouldBlock, pass);
        }
    }

    /// How long a claim waits after a refusal if it hears nothing.
    fn pause(&mut self, now: Instant, asking: &Asking, refusal: &Attempt) -> Duration {
        let pause = self.pause_after(&asking.claim, refusal);
        if !asking.placed && self.has_all(asking.claim.mode, now) {
            // There may be more by now than were declared.
            return pause.min(INSIST_AFTER);
        }
        pause
    }

    /// The same, whatever the claim is for. A claim without a place that no hint reaches asks again soon:
    /// the lock may be free long before the present lease ends.
    pub(super) fn pause_after(&mut self, claim: &Claim, refusal: &Attempt) -> Duration {
        let (Attempt::Busy { retry_after } | Attempt::Queued { retry_after }) = refusal else {
            return RECHECK_ENDLESS;
        };
        let pause = retry_after.map_or(RECHECK_ENDLESS, |after| after + jitter(claim));
        let hears = matches!(self.watch, Watching::On { .. });
        if hears || matches!(refusal, Attempt::Queued { .. }) {
            return pause;
        }
        let poll = self::pause(POLL, self.polls, claim);
        self.polls = self.polls.saturating_add(1);
        pause.min(poll)
    }

    fn failed(&mut self, seat: usize, mut asking: Asking, error: Error, pass: &mut Pass<W>) {
        let now = pass.now;
        let outage = Outage::continued(asking.outage.take(), now, error.clone());
        let lasting = now >= outage.since + self.policy.ttl.duration();
        let curable = error.is_retryable();
        let mode = asking.claim.mode;
        asking.placed |= asking.queued;
        asking.until = now + pause(BACKOFF, outage.tries, &asking.claim);
        asking.relaxed = false;
        asking.outage = Some(outage);
        self.run = 1;
        self.seats[seat] = Seat::Asking(asking);
        if curable {
            self.deny_tries(&Denial::Failed(error.clone()), pass);
        }
        if !curable || lasting {
            // Waiters that set a limit are ready to wait for the store as well, if that can help.
            self.deny_where(&Denial::Failed(error), pass, |patience, want| {
                !(curable && matches!(patience, Patience::Until(_))) && asks_the_same(mode, want)
            });
        }
    }

    // ---- Letting others go first ----

    /// Whether this process has had the lock for so long, without hearing of others, that they get a chance.
    pub(super) fn was_alone(&self, now: Instant) -> bool {
        let limit = (self.policy.ttl.duration() / 6).clamp(ALONE.0, ALONE.1);
        self.alone_since.is_some_and(|since| now >= since + limit)
    }

    /// Notes for how long other processes go first after a release, if some may wait. The first time
    /// counts if a hint says that the lock is free, and the second in any case. A process that has not
    /// tried to hear of others yet does that first.
    pub(super) fn be_courteous(&mut self, now: Instant, contended: bool, stayed: bool) {
        if self.queue.is_empty() {
            self.alone_since = None;
        }
        // A try lets the store say who goes first: what was so when it answered may be over.
        let waits = self.is_waited_for();
        let alone = waits && self.was_alone(now);
        let hears_soon = match self.watch {
            Watching::Off => true,
            Watching::Starting { .. } => !self.was_alone(now - HEARS_WITHIN),
            Watching::On { .. } | Watching::Failed { .. } => false,
        };
        let times = match (contended, stayed) {
            _ if !waits || alone && hears_soon => None,
            _ if alone => Some((LONGEST_POLL, LONGEST_POLL)),
            // No message may have told the others.
            (_, true) => Some((YIELD.1, YIELD.1)),
            (true, _) => Some(YIELD),
            _ => None,
        };
        if times.is_some() {
            self.alone_since = None;
        }
        self.courtesy = times.map(|(hinted, most)| (now + hinted, now + most));
    }

    /// Whether the first waiter wants as much as this, or more: the same answer holds for both then.
    fn is_no_less_than(&self, mode: Mode) -> bool {
        match (mode, self.queue.first_want()) {
            (Mode::Permits { take, .. }, Some(Mode::Permits { take: first, .. })) => take <= first,
            _ => true,
        }
    }

    // ---- Sending waiters home ----

    /// Denies the waiters at the head of the line that do not wait.
    pub(super) fn deny_tries(&mut self, denial: &Denial, pass: &mut Pass<W>) {
        while let Some((id, Patience::Try)) = self.queue.first() {
            pass.wake(self.queue.settle(id, Err(denial.clone())));
        }
    }

    pub(super) fn deny_all(&mut self, denial: &Denial, pass: &mut Pass<W>) {
        if let Some(upgrade) = &self.upgrade {
            let id = upgrade.id;
            self.deny(id, denial.clone(), pass);
        }
        self.deny_where(denial, pass, |_, _| true);
    }

    fn deny_where(
        &mut self,
        denial: &Denial,
        pass: &mut Pass<W>,
        denied: impl Fn(Patience, Mode) -> bool,
    ) {
        for id in self.queue.waiting() {
            let (patience, want) = (self.queue.patience(id), self.queue.want(id));
            if patience.zip(want).is_some_and(|(patience, want)| denied(patience, want)) {
                pass.wake(self.queue.settle(id, Err(denial.clone())));
            }
        }
    }
}

/// Whether the store refuses `want` for good if it refuses `mode` for good.
fn asks_the_same(mode: Mode, want: Mode) -> bool {
    match (mode, want) {
        (Mode::Permits { of: ours, .. }, Mode::Permits { of, .. }) => ours == of,
        (Mode::Permits { .. }, _) | (_, Mode::Permits { .. }) => false,
        _ => true,
    }
}
