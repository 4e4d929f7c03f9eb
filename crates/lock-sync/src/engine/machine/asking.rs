//! Asking the store for the lock.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    Acquire, Attempt, Claim, Demand, Error, ErrorKind, FencingToken, Grant, Instant, Mode,
};

use super::held::{Fate, Held, counts};
use super::timing::{POLL, backoff, jitter};
use super::watching::Watching;
use super::{Denial, Effects, Heard, Machine, Op, Outage, Phase, Stage, beside};
use crate::engine::queue::Patience;

/// When a holder without an end is asked about again, should no hint come.
const RECHECK_ENDLESS: Duration = Duration::from_secs(5);
/// After a release for which others waited outside any queue, a process with waiters of its own asks
/// again only after the first if a hint says that it may, and after the second in any case. The hint
/// may be the echo of its own release, so the first leaves the others time to come.
const YIELD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// A process that hears no hints does not know whether others ask by the clock, as it does itself. Its
/// tasks may take the lock turn after turn for a sixth of a lease, within these bounds. Then the process
/// leaves the lock to others for so long that each of them asks at least once.
const ALONE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// When a place in the store's queue is asked for although all permits that were declared are here.
const INSIST_AFTER: Duration = Duration::from_secs(1);
/// Permits are asked for on behalf of at most so many at once.
const LONGEST_RUN: u32 = 1024;
/// Tokens reserved when nothing is known about the demand, and at most.
const RESERVE: (u32, u32) = (8, 8192);

impl<W> Machine<W> {
    /// Whether the store is to be asked for a lease in this mode now, on behalf of who wants it: if no
    /// lease is here that it could not be granted beside, and no other request stands in line.
    pub(super) fn may_ask(&self, want: Mode) -> bool {
        // Whoever comes after an upgrade waits for it.
        self.upgrade.is_none()
            && self.seats.iter().all(|phase| match phase {
                Phase::Idle => true,
                // Groups do not wait for one another, nor for anybody else.
                Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => {
                    matches!(want, Mode::Joint { .. }) && claim.mode != want
                }
                // What is not used here goes back before more is asked for.
                Phase::Held(held) => beside(held.claim.mode, want) && !held.has_idle_permits(),
                Phase::Lost { mode, holds, .. } => holds.tolerate(*mode, want),
                // What is given up must be back before somebody asks whether it is free.
                Phase::Kept { .. } | Phase::Releasing { .. } => false,
            })
    }

    /// The same. If only permits that nobody here uses are in the way, they are given back.
    pub(super) fn may_ask_after_flush(
        &mut self,
        now: Instant,
        want: Mode,
        effects: &mut Effects<W>,
    ) -> bool {
        for seat in 0..self.seats.len() {
            if let Phase::Held(held) = &mut self.seats[seat]
                && held.has_idle_permits()
                && held.converting.is_none()
            {
                held.hurry(now);
                self.weaken(seat, now, effects);
            }
        }
        self.may_ask(want)
    }

    /// What to ask for so that the first in line gets this: where permits come easily, those for others
    /// behind it as well.
    fn in_one_go(&self, want: Mode) -> Mode {
        let (Mode::Permits { take, of }, Some((_, patience))) = (want, self.queue.first()) else {
            return want;
        };
        if patience == Patience::Try || self.run <= 1 {
            return want;
        }
        let room = u64::from(of).saturating_sub(self.permits_here(of));
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

    /// A seat that nobody has.
    fn free_seat(&mut self) -> usize {
        let free = self.seats.iter().position(|phase| matches!(phase, Phase::Idle));
        free.unwrap_or_else(|| {
            self.seats.push(Phase::Idle);
            self.seats.len() - 1
        })
    }

    /// Whether all permits that there are by this declaration are here. Then no other process keeps
    /// them back, and a place in the store's queue would only make it seem that one wants them.
    pub(super) fn has_all(&self, want: Mode, now: Instant) -> bool {
        let Mode::Permits { of, .. } = want else { return false };
        let valid = |held: &Held| !held.spent && held.lease.is_valid(now);
        of > 0 && self.permits_of(of, valid) >= u64::from(of)
    }

    /// Whether a claim to this has use for a place in the store's queue, and can hear of its turn.
    fn may_be_queued(&self, want: Mode, now: Instant) -> bool {
        matches!(self.watch, Watching::On { .. }) && !self.has_all(want, now)
    }

    /// How many permits are here of those by this declaration.
    fn permits_here(&self, of: u32) -> u64 {
        self.permits_of(of, |_| true)
    }

    fn permits_of(&self, of: u32, counted: impl Fn(&Held) -> bool) -> u64 {
        let here = self.seats.iter().map(|phase| match phase {
            Phase::Held(held)
            | Phase::Kept { held, .. }
            | Phase::Releasing { held, stage: Stage::Queued, .. }
                if counted(held) =>
            {
                // Those that are being given back are others' already, for all that is known.
                match held.converting.unwrap_or(held.claim.mode) {
                    Mode::Permits { take, of: known } if known == of => u64::from(take),
                    _ => 0,
                }
            }
            _ => 0,
        });
        here.sum()
    }

    /// The store answered to a request.
    pub(in super::super) fn attempt_done(
        &mut self,
        now: Instant,
        asked: &Claim,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) {
        let asking =
            |phase: &Phase| matches!(phase, Phase::Attempting { claim, .. } if claim == asked);
        let Some(seat) = self.seats.iter().position(asking) else {
            return self.upgrade_answered(now, asked, result, effects);
        };
        let Phase::Attempting { claim, line, queued, placed, outage, mut heard, wanted, .. } =
            std::mem::replace(&mut self.seats[seat], Phase::Idle)
        else {
            return;
        };
        match result {
            Ok(Attempt::Granted(grant)) => {
                let grant = if wanted { grant.in_demand(Demand::Wanted) } else { grant };
                self.granted(seat, now, claim, line, grant, effects);
                if heard.again {
                    // What was heard meanwhile may concern this very grant.
                    self.doubt(now);
                }
            }
            Ok(refusal @ (Attempt::Busy { .. } | Attempt::Queued { .. })) => {
                // It had no wish to be queued, but those behind it have, and the store can queue them now.
                heard.again |= !queued && self.may_be_queued(claim.mode, now);
                self.refused(seat, now, (claim, line), placed, heard, &refusal, effects);
            }
            other => {
                let unreadable = "an outcome this version cannot read";
                let error =
                    other.err().unwrap_or_else(|| Error::new(ErrorKind::Protocol, unreadable));
                self.failed(seat, now, (claim, line), placed || queued, outage, error, effects);
            }
        }
    }

    /// A request for this claim has failed and is repeated: the store may have carried it out.
    pub(in super::super) fn attempt_repeated(&mut self, asked: &Claim) {
        for phase in &mut self.seats {
            if let Phase::Attempting { claim, placed, .. } = phase
                && claim == asked
            {
                *placed = true;
            }
        }
    }

    /// Draws an owner and asks for a lease in this mode; `waits`, if somebody is ready to wait for it.
    pub(super) fn begin_attempt(
        &mut self,
        now: Instant,
        want: Mode,
        waits: bool,
        outage: Option<Outage>,
    ) -> Result<Acquire, Error> {
        let mode = self.in_one_go(want);
        let claim = Claim::exclusive(self.key.clone(), (self.owners)()?).in_mode(mode);
        let seat = self.free_seat();
        let line = self.queue.arrivals();
        // Who does not wait needs no place in the store's queue; nor does who asks for more than it needs.
        let queued = waits && mode == want && !self.has_all(want, now);
        Ok(self.request(seat, (claim, line), queued, true, false, outage))
    }

    fn request(
        &mut self,
        seat: usize,
        (claim, line): (Claim, u64),
        queued: bool,
        fresh: bool,
        placed: bool,
        outage: Option<Outage>,
    ) -> Acquire {
        let request = Acquire::new(claim.clone(), self.policy.ttl).reserving(self.reserve());
        self.seats[seat] = Phase::Attempting {
            claim,
            line,
            fresh,
            queued,
            placed,
            outage,
            heard: Heard::NOTHING,
            wanted: false,
        };
        if queued { request.queued() } else { request }
    }

    /// How many fencing tokens to reserve: twice the demand, so that a rising one is met, and no
    /// more, because every reserved token moves the counter.
    pub(super) fn reserve(&self) -> NonZeroU32 {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let demand = waiting.max(self.used_last).saturating_mul(2);
        NonZeroU32::MIN.saturating_add(demand.clamp(RESERVE.0, RESERVE.1))
    }

    pub(super) fn next_attempt(&mut self, now: Instant, effects: &mut Effects<W>) {
        self.next_attempt_after(now, None, effects);
    }

    /// Asks for what those in line need, as far as that is of use now.
    pub(super) fn next_attempt_after(
        &mut self,
        now: Instant,
        outage: Option<Outage>,
        effects: &mut Effects<W>,
    ) {
        let Some(first) = self.queue.first_want() else { return self.rest_watch(now) };
        self.ask_for(now, first, outage, effects);
        if self.queue.has_joint() {
            for want in self.queue.joint_wants() {
                self.ask_for(now, want, None, effects);
            }
        }
    }

    fn ask_for(
        &mut self,
        now: Instant,
        want: Mode,
        outage: Option<Outage>,
        effects: &mut Effects<W>,
    ) {
        self.clear_kept(now, want, effects);
        if let Some(seat) = self.to_restock(now, want) {
            return self.restock(seat, now, effects);
        }
        if !self.may_ask_after_flush(now, want, effects) {
            return self.queue_up(now, want, effects);
        }
        match self.begin_attempt(now, want, self.is_waited_for(want), outage) {
            Ok(request) => {
                effects.ops.push(Op::Attempt(request));
                if matches!(self.watch, Watching::Off) && beside_others(&self.seats) {
                    // Who holds one lease and waits for another is contended for certain.
                    self.watch_again(now, effects);
                }
            }
            Err(error) => self.cannot_ask(now, error, effects),
        }
    }

    /// Asks for a place in the store's queue after all, if there was no need for one before.
    fn queue_up(&mut self, now: Instant, want: Mode, effects: &mut Effects<W>) {
        if !matches!(want, Mode::Permits { .. }) || !self.may_be_queued(want, now) {
            return;
        }
        let idle = |phase: &Phase| {
            matches!(phase, Phase::Waiting { claim, placed: false, outage: None, yielding: None, .. }
                if claim.mode == want)
        };
        if let Some(seat) = self.seats.iter().position(idle)
            && self.is_waited_for(want)
        {
            self.ask_again(seat, now, effects);
        }
    }

    /// Gives back leases that are kept for nobody in particular and are in the way of this one, or were kept for
    /// too long to be passed on.
    pub(super) fn clear_kept(&mut self, now: Instant, want: Mode, effects: &mut Effects<W>) {
        let arrival = self.queue.first_arrival();
        for seat in 0..self.seats.len() {
            let goes = match &self.seats[seat] {
                Phase::Kept { held, manner, .. } if !held.renewing => {
                    !super::covers(held.claim.mode, want)
                        || self.fate(seat, now, *manner, arrival) == Fate::GiveUp
                }
                _ => false,
            };
            if goes
                && let Phase::Kept { held, .. } =
                    std::mem::replace(&mut self.seats[seat], Phase::Idle)
            {
                self.give_up(seat, held, effects);
            }
        }
    }

    /// Whether somebody who wants this came to wait for it.
    fn is_waited_for(&self, want: Mode) -> bool {
        let id = match want {
            Mode::Joint { .. } => self.queue.find(want),
            _ => self.queue.first().map(|(id, _)| id),
        };
        id.and_then(|id| self.queue.patience(id)) != Some(Patience::Try)
    }

    /// Asks again with the same claim: if it is held after all, the store says so.
    pub(super) fn ask_again(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        self.ask_once_more(seat, now, false, effects);
    }

    /// The same; `insists`, if it has waited for so long that it wants a place in any case.
    pub(super) fn ask_once_more(
        &mut self,
        seat: usize,
        now: Instant,
        insists: bool,
        effects: &mut Effects<W>,
    ) {
        if let Phase::Waiting { claim, line, outage, placed, .. } =
            std::mem::replace(&mut self.seats[seat], Phase::Idle)
        {
            let (waits, fresh) = (self.is_waited_for(claim.mode), outage.is_some());
            let queued = waits && (insists || !self.has_all(claim.mode, now));
            let request = self.request(seat, (claim, line), queued, fresh, placed, outage);
            effects.ops.push(Op::Attempt(request));
            self.watch_again(now, effects);
        }
    }

    /// The claim of this process is held.
    pub(super) fn granted(
        &mut self,
        seat: usize,
        now: Instant,
        claim: Claim,
        line: u64,
        grant: Grant,
        effects: &mut Effects<W>,
    ) {
        if counts(claim.mode) {
            let wanted = grant.demand == Demand::Wanted;
            self.run = if wanted { 1 } else { (self.run * 2).min(LONGEST_RUN) };
            // Whoever was granted one elsewhere before has no higher token than this.
            let before = FencingToken::new(grant.tokens.first().get().saturating_sub(1));
            self.last_token = self.last_token.max(Some(before));
        }
        self.polls = 0;
        if !matches!(self.watch, Watching::On { .. }) {
            self.alone_since.get_or_insert(now);
        }
        if grant.valid_until <= now {
            // It came too late to be of use.
            effects.ops.push(Op::Forget(claim));
            return self.next_attempt(now, effects);
        }
        let held = Held::new(self.clock, claim, grant, self.policy.ttl, line, now);
        // Whoever is first gets it; if nobody is left here, it goes back.
        let manner = held.manner;
        self.pass_on(seat, now, held, manner, effects);
        self.next_attempt(now, effects);
    }

    #[allow(clippy::too_many_arguments, reason = "what was asked, and what came of it")]
    fn refused(
        &mut self,
        seat: usize,
        now: Instant,
        (claim, line): (Claim, u64),
        placed: bool,
        heard: Heard,
        refusal: &Attempt,
        effects: &mut Effects<W>,
    ) {
        let mode = claim.mode;
        let placed = placed || matches!(refusal, Attempt::Queued { .. });
        let pause = self.pause(now, &claim, placed, refusal);
        self.run = 1;
        self.alone_since = None;
        // After a shorter pause a lease may have ended: then it asks on time.
        let keeps = matches!(refusal, Attempt::Queued { .. }) && self.is_third(pause);
        self.seats[seat] = Phase::Waiting {
            until: heard.ask_by.min(now + pause),
            relaxed: keeps && heard.ask_by > now + pause,
            claim,
            line,
            outage: None,
            placed,
            yielding: None,
        };
        if self.is_no_less_than(mode) {
            self.deny_tries(mode, &Denial::WouldBlock, effects);
        }
        if !self.is_wanted(mode) {
            self.line_changed(now, effects);
        } else if heard.again {
            self.ask_again(seat, now, effects);
        } else {
            self.watch_again(now, effects);
        }
    }

    /// How long a claim waits after a refusal if it hears nothing.
    fn pause(&mut self, now: Instant, claim: &Claim, placed: bool, refusal: &Attempt) -> Duration {
        let (Attempt::Busy { retry_after } | Attempt::Queued { retry_after }) = refusal else {
            return RECHECK_ENDLESS;
        };
        let mut pause = retry_after.map_or(RECHECK_ENDLESS, |after| after + jitter(claim));
        if matches!(refusal, Attempt::Busy { .. }) {
            pause = self.pause_outside(claim, pause);
        }
        if !placed && self.has_all(claim.mode, now) {
            // There may be more by now than were declared.
            pause = pause.min(INSIST_AFTER);
        }
        pause
    }

    #[allow(clippy::too_many_arguments, reason = "what was asked, and what came of it")]
    fn failed(
        &mut self,
        seat: usize,
        now: Instant,
        (claim, line): (Claim, u64),
        placed: bool,
        outage: Option<Outage>,
        error: Error,
        effects: &mut Effects<W>,
    ) {
        let outage = Outage::continued(outage, now, error.clone());
        let lasting = now >= outage.since + self.policy.ttl.duration();
        let curable = error.is_retryable();
        let until = now + backoff(outage.tries, &claim);
        let outage = Some(outage);
        let mode = claim.mode;
        self.run = 1;
        self.seats[seat] =
            Phase::Waiting { claim, line, outage, placed, yielding: None, until, relaxed: false };
        if curable {
            self.deny_tries(mode, &Denial::Failed(error.clone()), effects);
        }
        if !curable || lasting {
            // Those who set a limit are ready to wait for the store as well, if that can help.
            self.deny_unless(&Denial::Failed(error), effects, |patience, want| {
                curable && matches!(patience, Patience::Until(_)) || !asks_the_same(mode, want)
            });
        }
        self.line_changed(now, effects);
    }

    /// Whether this process has had the lock for so long, without hearing of others, that they get a chance.
    fn was_alone(&self, now: Instant) -> bool {
        let limit = (self.policy.ttl.duration() / 6).clamp(ALONE.0, ALONE.1);
        self.alone_since.is_some_and(|since| now >= since + limit)
    }

    /// For how long other processes go first after a release, if some may wait. The first time counts if
    /// a hint says that the lock is free, and the second in any case. A process that has not tried to
    /// hear of others yet does that first.
    pub(super) fn courtesy(
        &mut self,
        now: Instant,
        contended: bool,
        stayed: bool,
        effects: &mut Effects<W>,
    ) -> Option<(Duration, Duration)> {
        if self.queue.is_empty() {
            self.alone_since = None;
        }
        // A try lets the store say who goes first: what was so when it answered may be over.
        let waits = self.queue.first().is_some_and(|(_, patience)| patience != Patience::Try);
        let alone = waits && self.was_alone(now);
        if alone && matches!(self.watch, Watching::Off) {
            self.watch_again(now, effects);
            return None;
        }
        match (contended, stayed) {
            _ if !waits => None,
            _ if alone => Some((POLL.1, POLL.1)),
            // No message may have told the others.
            (_, true) => Some((YIELD.1, YIELD.1)),
            (true, _) => Some(YIELD),
            _ => None,
        }
    }

    /// Lets other processes go first, then asks for the lock.
    pub(super) fn yield_to_others(
        &mut self,
        now: Instant,
        (hinted, most): (Duration, Duration),
        effects: &mut Effects<W>,
    ) {
        self.alone_since = None;
        let Some(want) = self.queue.first_want() else { return self.rest_watch(now) };
        if !self.may_ask(want) {
            return;
        }
        match (self.owners)() {
            Ok(owner) => {
                let claim = Claim::exclusive(self.key.clone(), owner).in_mode(want);
                let until = now + most + jitter(&claim);
                let seat = self.free_seat();
                self.seats[seat] = Phase::Waiting {
                    claim,
                    line: self.queue.arrivals(),
                    outage: None,
                    placed: false,
                    yielding: Some(now + hinted),
                    until,
                    relaxed: false,
                };
                self.watch_again(now, effects);
            }
            Err(error) => self.cannot_ask(now, error, effects),
        }
    }

    /// There is no owner to ask for.
    fn cannot_ask(&mut self, now: Instant, error: Error, effects: &mut Effects<W>) {
        self.deny_all(&Denial::Failed(error), effects);
        self.rest_watch(now);
    }

    /// Whether the first in line wants as much as this, or more: what is true of this is true of that then.
    fn is_no_less_than(&self, mode: Mode) -> bool {
        match (mode, self.queue.first_want()) {
            (Mode::Permits { take, .. }, Some(Mode::Permits { take: first, .. })) => take <= first,
            _ => true,
        }
    }

    // ---- Sending waiters home ----

    /// Sends away whoever is first in line, did not come to wait, and has nothing left to wait for but
    /// somebody else. To be called after every event.
    pub(in super::super) fn turn_tries_away(&mut self, now: Instant, effects: &mut Effects<W>) {
        while let Some((id, Patience::Try)) = self.queue.first()
            && !self.is_in_motion()
        {
            let waker = self.queue.settle(id, Err(Denial::WouldBlock));
            effects.wake(waker);
            self.line_changed(now, effects);
        }
    }

    /// Denies those who asked for this and did not come to wait.
    pub(super) fn deny_tries(&mut self, mode: Mode, denial: &Denial, effects: &mut Effects<W>) {
        if matches!(mode, Mode::Joint { .. }) {
            return self.deny_unless(denial, effects, |patience, want| {
                patience != Patience::Try || want != mode
            });
        }
        while let Some((id, Patience::Try)) = self.queue.first()
            && !matches!(self.queue.want(id), Some(Mode::Joint { .. }))
        {
            let waker = self.queue.settle(id, Err(denial.clone()));
            effects.wake(waker);
        }
    }

    pub(super) fn deny_joint(&mut self, mode: Mode, denial: &Denial, effects: &mut Effects<W>) {
        self.deny_unless(denial, effects, |_, want| want != mode);
    }

    pub(super) fn deny_all(&mut self, denial: &Denial, effects: &mut Effects<W>) {
        self.deny_unless(denial, effects, |_, _| false);
    }

    fn deny_unless(
        &mut self,
        denial: &Denial,
        effects: &mut Effects<W>,
        spare: impl Fn(Patience, Mode) -> bool,
    ) {
        for id in self.queue.waiting() {
            let (patience, want) = (self.queue.patience(id), self.queue.want(id));
            if patience.zip(want).is_some_and(|(patience, want)| !spare(patience, want)) {
                let waker = self.queue.settle(id, Err(denial.clone()));
                effects.wake(waker);
            }
        }
    }
}

/// Whether what the store will never grant to the one it will not grant to the other either.
fn asks_the_same(mode: Mode, want: Mode) -> bool {
    match (mode, want) {
        (Mode::Permits { of: ours, .. }, Mode::Permits { of, .. }) => ours == of,
        (Mode::Permits { .. }, _) | (_, Mode::Permits { .. }) => false,
        _ => true,
    }
}

/// Whether more than one lease is in play.
fn beside_others(seats: &[Phase]) -> bool {
    seats.iter().filter(|phase| !matches!(phase, Phase::Idle)).count() > 1
}
