//! Holding a lease: passing it on, keeping it, giving it back.

use lock_core::{Acquire, Attempt, Claim, Demand, Error, Instant, Mode, Released};

use super::held::{Fate, Held, counts};
use super::holds::{HoldId, State};
use super::renewing::LOW_TOKENS;
use super::timing::backoff;
use super::watching::Watching;
use super::{Denial, Effects, Heard, Machine, Manner, Next, Op, Outage, Phase, Stage, Ticket};
use crate::engine::queue::{Patience, WaiterId};
use crate::error::LossReason;
use crate::handoff::Handoff;

/// What is to be sent to end a lease.
#[derive(Debug)]
pub(in super::super) struct Ending {
    pub(in super::super) claim: Claim,
    /// The request for a place in the queue behind those who wait elsewhere, if somebody waits here as
    /// well.
    pub(in super::super) next: Option<Acquire>,
    /// Its permits shall not come back.
    pub(in super::super) forget: bool,
}

impl<W> Machine<W> {
    /// A holder is done. Returns `false` if the hold was over before.
    pub(in super::super) fn release(
        &mut self,
        now: Instant,
        hold: HoldId,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> bool {
        self.let_go(now, hold, manner, true, effects)
    }

    /// The same, for a holder that waits until the store knows: what nobody here wants does not linger.
    pub(in super::super) fn release_promptly(
        &mut self,
        now: Instant,
        hold: HoldId,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> bool {
        self.let_go(now, hold, manner, false, effects)
    }

    fn let_go(
        &mut self,
        now: Instant,
        hold: HoldId,
        manner: Manner,
        may_linger: bool,
        effects: &mut Effects<W>,
    ) -> bool {
        self.abandon_upgrade(now, hold, effects);
        let seat = hold.seat();
        match self.seats.get_mut(seat) {
            Some(Phase::Held(held)) => {
                let Some(holding) = held.holds.remove(hold) else { return false };
                // A deadline that has passed unnoticed: the holder must hear of it.
                let valid =
                    holding.state == State::Live && held.lease.is_valid(now) && now < holding.until;
                held.manner = manner;
                held.retaken &= may_linger;
                if held.holds.is_empty() {
                    self.freshen(seat);
                    let fate = self.fate(seat, now, manner, self.queue.first_arrival());
                    if valid && fate == Fate::HandOver && self.hand_over(seat, now, effects) {
                        return true;
                    }
                    if let Phase::Held(held) = std::mem::replace(&mut self.seats[seat], Phase::Idle)
                    {
                        self.pass_on(seat, now, held, manner, effects);
                    }
                    self.advance_upgrade(now, effects);
                } else {
                    self.thin_out(seat, now, effects);
                }
                valid
            }
            Some(Phase::Lost { holds, .. }) => {
                holds.remove(hold);
                if holds.is_empty() {
                    self.seats[seat] = Phase::Idle;
                    self.next_attempt(now, effects);
                }
                self.advance_upgrade(now, effects);
                false
            }
            _ => false,
        }
    }

    /// One of several who hold a lease has gone.
    pub(super) fn thin_out(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let Phase::Held(held) = &mut self.seats[seat] else { return };
        if held.holds.live() == 0 && held.holds.has_dead() {
            // Those who are left have lost it each for themselves, and nobody is there to hold it.
            return self.lose(seat, now, LossReason::HeldTooLong, effects);
        }
        held.consider_weaker(now);
        if !self.retire(seat, effects) {
            self.hand_over(seat, now, effects);
            self.weaken(seat, now, effects);
            self.advance_upgrade(now, effects);
        }
    }

    /// Gives up a lease if all that is left of it is to be forgotten.
    pub(super) fn retire(&mut self, seat: usize, effects: &mut Effects<W>) -> bool {
        let over = matches!(&self.seats[seat], Phase::Held(held)
            if held.holds.live() == 0
                && held.holds.has_forgotten()
                && held.converting.is_none()
                && held.claim.mode == held.holds.need(held.claim.mode));
        if over && let Phase::Held(held) = std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            self.give_up(seat, held, effects);
        }
        over
    }

    /// Lets those who are first in line enter the leases that are here, as far as there is room.
    pub(super) fn serve_here(&mut self, now: Instant, effects: &mut Effects<W>) {
        for seat in 0..self.seats.len() {
            if matches!(self.seats[seat], Phase::Held(_)) {
                self.hand_over(seat, now, effects);
            }
        }
    }

    /// Gives a lease to those first in line for whom there is room, without moving it. Returns whether
    /// there was anybody.
    pub(super) fn hand_over(
        &mut self,
        seat: usize,
        now: Instant,
        effects: &mut Effects<W>,
    ) -> bool {
        let mut served = false;
        // Whoever was in line when a lease was granted is let in with it.
        let fresh = matches!(&self.seats[seat], Phase::Held(held) if held.used == 0);
        while let Some((id, want)) = self.next_for(seat, now, fresh) {
            let Phase::Held(held) = &self.seats[seat] else { break };
            let manner = held.manner;
            let Some(ticket) = self.ticket(seat, now, want, manner) else { break };
            let waker = self.queue.settle(id, Ok(ticket));
            effects.wake(waker);
            served = true;
            if want == Mode::Exclusive {
                break;
            }
        }
        if served {
            self.after_serving(seat, now, effects);
        }
        served
    }

    fn after_serving(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        if self.queue.is_empty() {
            self.rest_watch(now);
            if self.seats.len() > 1 {
                self.line_changed(now, effects);
            }
        } else {
            self.settle_in(seat, now, effects);
            if self.seats.len() > 1 || !matches!(self.queue.first_want(), Some(Mode::Exclusive)) {
                self.line_changed(now, effects);
            }
        }
    }

    /// Whether no guard of another lease is in the way of one more on this seat. One may be whose lease is
    /// over, be it known already or not.
    pub(super) fn is_tolerated(&self, seat: usize, want: Mode) -> bool {
        self.seats.iter().enumerate().all(|(other, phase)| match phase {
            _ if other == seat => true,
            Phase::Held(held) => held.holds.tolerate(held.claim.mode, want),
            Phase::Lost { mode, holds, .. } => holds.tolerate(*mode, want),
            _ => true,
        })
    }

    /// Who is next to enter the lease on this seat, if there is room.
    fn next_for(&self, seat: usize, now: Instant, fresh: bool) -> Option<(WaiterId, Mode)> {
        let Phase::Held(held) = &self.seats[seat] else { return None };
        let (id, want) = match held.claim.mode {
            mode @ Mode::Joint { .. } => (self.queue.find(mode)?, mode),
            _ => {
                let (id, _) = self.queue.first()?;
                (id, self.queue.want(id)?)
            }
        };
        let arrival = self.queue.first_arrival();
        let room = held.has_room(want)
            && !self.is_upgrading(seat)
            && if fresh {
                self.is_in_order(held, now, arrival) && held.lease.is_valid(now)
            } else {
                self.admits(seat, now, held.manner, arrival)
            };
        room.then_some((id, want))
    }

    /// Gives a lease without a holder to the first in line, keeps it, or gives it back.
    pub(super) fn pass_on(
        &mut self,
        seat: usize,
        now: Instant,
        held: Box<Held>,
        manner: Manner,
        effects: &mut Effects<W>,
    ) {
        let wanted = match held.claim.mode {
            mode @ Mode::Joint { .. } => self.queue.find(mode).is_some(),
            _ => self
                .queue
                .first_want()
                .is_some_and(|want| held.has_room(want) && self.is_tolerated(seat, want)),
        };
        if self.queue.is_empty() {
            self.rest_watch(now);
            let joint = matches!(held.claim.mode, Mode::Joint { .. });
            return match held.idles(manner) {
                Some(idle)
                    if !joint && manner.handoff != Handoff::Never && self.may_keep(now, &held) =>
                {
                    let until = now + idle;
                    self.keep(seat, now, held, manner, until, effects);
                }
                _ => self.give_up(seat, held, effects),
            };
        }
        if !wanted {
            return self.give_up(seat, held, effects);
        }
        self.seats[seat] = Phase::Held(held);
        self.freshen(seat);
        let fate = self.fate(seat, now, manner, self.queue.first_arrival());
        let Phase::Held(held) = std::mem::replace(&mut self.seats[seat], Phase::Idle) else {
            return;
        };
        match fate {
            Fate::HandOver => {
                self.seats[seat] = Phase::Held(held);
                if !self.hand_over(seat, now, effects)
                    && let Phase::Held(held) = std::mem::replace(&mut self.seats[seat], Phase::Idle)
                {
                    self.give_up(seat, held, effects);
                }
            }
            Fate::AwaitTokens if held.converting.is_none() && held.leaving.is_none() => {
                self.keep(seat, now, held, manner, now, effects);
            }
            _ => self.give_up(seat, held, effects),
        }
    }

    /// Gives up the tokens of a lease of permits that are below one given to another holder.
    fn freshen(&mut self, seat: usize) {
        if let Some(last) = self.last_token
            && let Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } =
                &mut self.seats[seat]
            && counts(held.claim.mode)
        {
            held.skip_to(last);
        }
    }

    /// What may be done with the lease on this seat for the sake of who comes next.
    pub(super) fn fate(
        &self,
        seat: usize,
        now: Instant,
        manner: Manner,
        arrival: Option<u64>,
    ) -> Fate {
        match &self.seats[seat] {
            Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } => {
                if !self.is_in_order(held, now, arrival) {
                    let waits = held.may_await_tokens(now, manner, &self.policy);
                    return if waits { Fate::AwaitTokens } else { Fate::GiveUp };
                }
                held.fate(now, manner, &self.policy)
            }
            _ => Fate::GiveUp,
        }
    }

    /// Whether one more may hold the lease on this seat, beside those who do if there are any.
    pub(super) fn admits(
        &self,
        seat: usize,
        now: Instant,
        manner: Manner,
        arrival: Option<u64>,
    ) -> bool {
        match &self.seats[seat] {
            Phase::Held(held) if !self.is_in_order(held, now, arrival) => false,
            Phase::Held(held) if held.used == 0 => true,
            // `fate` has been asked before.
            Phase::Held(held) if held.holds.is_empty() => true,
            // They are one holder.
            Phase::Held(held) if matches!(held.claim.mode, Mode::Joint { .. }) => {
                held.lease.is_valid(now)
            }
            Phase::Held(held) => {
                held.demand() != Demand::Wanted && held.may_go_on(now, manner, &self.policy)
            }
            _ => false,
        }
    }

    /// Whether the tokens of this lease are in order for who joined the line with so many others, or did
    /// not: nobody may have been granted a permit with a higher one before.
    fn is_in_order(&self, held: &Held, now: Instant, arrival: Option<u64>) -> bool {
        self.has_order(held, now) || arrival.is_some_and(|arrival| held.is_for(arrival))
    }

    /// Whether the tokens of this lease are in order for everybody: those of permits only if all that
    /// there are are here.
    pub(super) fn has_order(&self, held: &Held, now: Instant) -> bool {
        !counts(held.claim.mode) || self.has_all(held.claim.mode, now)
    }

    /// Where permits are that somebody who wants this could have as soon as there are tokens.
    pub(super) fn to_restock(&self, now: Instant, want: Mode) -> Option<usize> {
        if !counts(want) {
            return None;
        }
        self.seats.iter().position(|phase| {
            let (held, manner) = match phase {
                Phase::Held(held) => (held, held.manner),
                Phase::Kept { held, manner, .. } => (held, *manner),
                _ => return false,
            };
            held.has_room(want) && held.may_await_tokens(now, manner, &self.policy)
        })
    }

    /// Asks for tokens for those in line who could have permits that are here.
    pub(super) fn restock(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let mut phase = std::mem::replace(&mut self.seats[seat], Phase::Idle);
        // What is under way already may be for them as well; its answer shows.
        if let Phase::Held(held) | Phase::Kept { held, .. } = &mut phase
            && !held.renewing
        {
            held.drop_tokens();
            self.renew(now, held, true, effects);
        }
        self.seats[seat] = phase;
        self.watch_again(now, effects);
    }

    /// The lease is used by several here: learns whether others wait, and keeps tokens in stock.
    pub(super) fn settle_in(&mut self, seat: usize, now: Instant, effects: &mut Effects<W>) {
        let Phase::Held(held) = &self.seats[seat] else { return };
        match held.demand() {
            Demand::Unknown => self.watch_again(now, effects),
            // Not for the first: others may be on their way to the queue, in whose turn it ends.
            Demand::Quiet if held.used > 2 && held.tokens_left() < LOW_TOKENS => {
                self.renew_seat(seat, now, effects);
            }
            _ => {}
        }
    }

    /// Keeps a lease that nobody holds.
    fn keep(
        &mut self,
        seat: usize,
        now: Instant,
        mut held: Box<Held>,
        manner: Manner,
        until: Instant,
        effects: &mut Effects<W>,
    ) {
        self.watch_again(now, effects);
        if !self.queue.is_empty() && !self.is_in_order(&held, now, self.queue.first_arrival()) {
            held.drop_tokens();
        }
        let unknown = held.demand() == Demand::Unknown;
        let known_soon = matches!(self.watch, Watching::Starting { .. });
        // A second holder is no sign of a third. But whoever takes it back without a token waits for one.
        let goes_on = held.used > 2 || manner.cache.is_some() || !self.queue.is_empty();
        let low = held.tokens_left() < if goes_on { LOW_TOKENS } else { 1 };
        if low || unknown && !known_soon {
            self.renew(now, &mut held, true, effects);
        }
        self.seats[seat] = Phase::Kept { held, manner, until };
    }

    /// Whether a lease may stay without a holder: only if others who want it can make themselves
    /// heard.
    pub(super) fn may_keep(&self, now: Instant, held: &Held) -> bool {
        self.policy.renew
            && !self.closed
            && !held.spent
            && held.converting.is_none()
            && held.leaving.is_none()
            && held.lease.is_valid(now)
            && held.demand() != Demand::Wanted
            && !held.was_kept(now, self.policy.ttl)
            && !matches!(self.watch, Watching::Failed { .. })
    }

    pub(super) fn give_up(&mut self, seat: usize, mut held: Box<Held>, effects: &mut Effects<W>) {
        // If an answer is to come, it says what there is to be released. If it was lost, it is either.
        if let Some(other) = held.converting.take_if(|_| !held.renewing) {
            effects.ops.push(Op::Forget(held.claim.clone().in_mode(other)));
            held.spent = true;
        }
        if held.leaving.take().is_some() {
            effects.ops.push(Op::Forget(held.claim.clone().in_mode(Mode::Exclusive)));
            // It may be that which the lease is now.
            held.spent = true;
        }
        effects.ops.push(Op::Release { urgent: held.demand() == Demand::Wanted });
        self.seats[seat] =
            Phase::Releasing { held, stage: Stage::Queued, next: None, outage: None };
    }

    /// Takes a lease that was kept, or was given up but not yet released.
    pub(super) fn take_back(
        &mut self,
        seat: usize,
        now: Instant,
        want: Mode,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> Option<Ticket> {
        self.freshen(seat);
        let (fate, kept) = match &self.seats[seat] {
            Phase::Kept { held, .. } | Phase::Releasing { held, .. } if !held.has_room(want) => {
                return None;
            }
            Phase::Kept { until, .. } => (self.fate(seat, now, manner, None), Some(*until)),
            Phase::Releasing { stage: Stage::Queued, .. } => {
                (self.fate(seat, now, manner, None), None)
            }
            _ => return None,
        };
        if fate == Fate::GiveUp && kept.is_none() {
            return None;
        }
        let mut held = match std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            Phase::Kept { held, .. } | Phase::Releasing { held, .. } => held,
            other => {
                self.seats[seat] = other;
                return None;
            }
        };
        held.retaken |= kept.is_none();
        match fate {
            Fate::HandOver => {
                self.seats[seat] = Phase::Held(held);
                let ticket = self.ticket(seat, now, want, manner);
                if kept.is_some()
                    && let Phase::Held(held) = &self.seats[seat]
                    && held.tokens_left() < LOW_TOKENS
                {
                    self.renew_seat(seat, now, effects);
                }
                return ticket;
            }
            // Whoever takes it back asks for them, once in line.
            Fate::AwaitTokens if counts(want) => {
                self.seats[seat] = Phase::Kept { held, manner, until: kept.unwrap_or(now) };
            }
            Fate::AwaitTokens if held.converting.is_none() && held.leaving.is_none() => {
                self.keep(seat, now, held, manner, kept.unwrap_or(now), effects);
            }
            _ => self.give_up(seat, held, effects),
        }
        None
    }

    /// Gives the lease on this seat to one more holder.
    pub(super) fn ticket(
        &mut self,
        seat: usize,
        now: Instant,
        want: Mode,
        manner: Manner,
    ) -> Option<Ticket> {
        self.freshen(seat);
        let Phase::Held(held) = &mut self.seats[seat] else { return None };
        let counts = counts(want);
        let limit = self.policy.max_hold;
        let until = limit.map_or(Instant::FAR_FUTURE, |max_hold| now + max_hold);
        let ticket = held.ticket((seat, self.holds + 1), want, until, now)?;
        held.manner = manner;
        self.holds += 1;
        if counts {
            self.last_token = self.last_token.max(Some(ticket.token));
        }
        Some(ticket)
    }

    // ---- Parts of a hold ----

    /// Takes so many permits out of a hold into one of their own.
    pub(in super::super) fn split(&mut self, hold: HoldId, part: u32) -> Option<HoldId> {
        let Some(Phase::Held(held)) = self.seats.get_mut(hold.seat()) else { return None };
        let holding = *held.holds.get(hold)?;
        let Mode::Permits { take, of } = holding.mode else { return None };
        let rest = take.checked_sub(part).filter(|rest| *rest > 0 && part > 0)?;
        held.holds.change(hold, |holding| holding.mode = Mode::Permits { take: rest, of });
        self.holds += 1;
        let mode = Mode::Permits { take: part, of };
        Some(held.holds.add(hold.seat(), self.holds, mode, holding.token, holding.until))
    }

    /// Ends a hold whose permits shall not come back.
    pub(in super::super) fn forget(
        &mut self,
        now: Instant,
        hold: HoldId,
        manner: Manner,
        effects: &mut Effects<W>,
    ) {
        match self.seats.get_mut(hold.seat()) {
            Some(Phase::Held(held))
                if held.holds.get(hold).is_some_and(|holding| holding.state == State::Live) =>
            {
                held.holds.change(hold, |holding| holding.state = State::Forgotten);
                self.thin_out(hold.seat(), now, effects);
            }
            _ => drop(self.release(now, hold, manner, effects)),
        }
    }

    // ---- Releasing ----

    /// Takes a claim that is to be released, if there still is one.
    pub(in super::super) fn begin_release(&mut self) -> Option<Ending> {
        (0..self.seats.len()).find_map(|seat| self.begin_release_at(seat))
    }

    /// The same, of the lease that this hold was on.
    pub(in super::super) fn begin_release_of(&mut self, hold: HoldId) -> Option<Ending> {
        self.begin_release_at(hold.seat())
    }

    fn begin_release_at(&mut self, seat: usize) -> Option<Ending> {
        let next = self.request_again(seat);
        let line = self.queue.arrivals();
        match &mut self.seats[seat] {
            // The answer says what there is to be released.
            Phase::Releasing { held, .. } if held.converting.is_some() => None,
            Phase::Releasing { held, stage: stage @ Stage::Queued, next: again, .. } => {
                *stage = Stage::Sent(held.lease.deadline());
                // Whatever is heard of it: the store may have carried it out.
                held.spent = true;
                *again = next.as_ref().map(|next| Next {
                    claim: next.claim.clone(),
                    line,
                    heard: Heard::NOTHING,
                });
                let forget = held.holds.has_forgotten();
                Some(Ending { claim: held.claim.clone(), next, forget })
            }
            _ => None,
        }
    }

    /// The request that may travel together with a release.
    fn request_again(&self, seat: usize) -> Option<Acquire> {
        let Phase::Releasing { held, stage: Stage::Queued, .. } = &self.seats[seat] else {
            return None;
        };
        let (id, patience) = self.queue.first()?;
        let want = self.queue.want(id)?;
        if patience == Patience::Try
            || held.demand() != Demand::Wanted
            || held.holds.has_forgotten()
            || !matches!(self.watch, Watching::On { .. })
            || self.seats.iter().filter(|phase| !matches!(phase, Phase::Idle)).count() > 1
        {
            return None;
        }
        let claim = Claim::exclusive(self.key.clone(), (self.owners)().ok()?).in_mode(want);
        Some(Acquire::new(claim, self.policy.ttl).reserving(self.reserve()).queued())
    }

    /// The store answered to the release of this claim.
    pub(in super::super) fn release_done(
        &mut self,
        now: Instant,
        claim: &Claim,
        result: Result<(Released, Option<Attempt>), Error>,
        effects: &mut Effects<W>,
    ) {
        let sent = |phase: &Phase| {
            matches!(phase, Phase::Releasing { held, stage: Stage::Sent(_), .. }
                if held.claim == *claim)
        };
        let Some(seat) = self.seats.iter().position(sent) else { return };
        let Phase::Releasing { held, next, .. } = &mut self.seats[seat] else { return };
        let next = next.take();
        let contended = match (result, next) {
            (Ok((_, Some(attempt))), Some(next)) => {
                self.used_last = held.used;
                return self.exchanged(seat, now, next, attempt, effects);
            }
            (Ok((Released::Freed { contended }, _)), _) => contended,
            (other, next) => {
                // An earlier try, of which nothing was heard, may have put it into the queue.
                effects.ops.extend(next.map(|next| Op::Forget(next.claim)));
                match other {
                    Ok(_) => false,
                    Err(error) => return self.release_failed(seat, now, error, effects),
                }
            }
        };
        self.used_last = held.used;
        let stayed = held.has_stayed(now);
        self.seats[seat] = Phase::Idle;
        match self.courtesy(now, contended, stayed, effects) {
            Some(times) => self.yield_to_others(now, times, effects),
            None => self.next_attempt(now, effects),
        }
    }

    /// The store has released a lease and answered to the request that came with it.
    fn exchanged(
        &mut self,
        seat: usize,
        now: Instant,
        Next { claim, line, heard }: Next,
        attempt: Attempt,
        effects: &mut Effects<W>,
    ) {
        self.seats[seat] = Phase::Attempting {
            claim: claim.clone(),
            line,
            fresh: true,
            queued: true,
            placed: false,
            outage: None,
            heard,
            wanted: false,
        };
        self.attempt_done(now, &claim, Ok(attempt), effects);
    }

    fn release_failed(
        &mut self,
        seat: usize,
        now: Instant,
        error: Error,
        effects: &mut Effects<W>,
    ) {
        let Phase::Releasing { held, stage, outage, .. } = &mut self.seats[seat] else { return };
        match error {
            // The lease ends by itself at its deadline; until then it is worth trying again.
            error if error.is_retryable() && now < held.lease.deadline() => {
                let trouble = Outage::continued(outage.take(), now, error.clone());
                *stage = Stage::Failed(now + backoff(trouble.tries, &held.claim));
                *outage = Some(trouble);
                let mode = held.claim.mode;
                self.deny_tries(mode, &Denial::Failed(error), effects);
            }
            error => {
                if error.is_retryable() {
                    // A renewal of which nothing was heard may have given the lease more time.
                    effects.ops.push(Op::Forget(held.claim.clone()));
                }
                // Whoever waits has waited for the store since then.
                let trouble =
                    error.is_retryable().then(|| Outage::continued(outage.take(), now, error));
                self.used_last = held.used;
                self.seats[seat] = Phase::Idle;
                self.next_attempt_after(now, trouble, effects);
            }
        }
    }

    /// A claim turned out to be held that may have been given up before.
    pub(in super::super) fn forget_unless_known(&mut self, claim: Claim, effects: &mut Effects<W>) {
        let known = self.seats.iter().any(|phase| match phase {
            Phase::Attempting { claim: known, .. } | Phase::Waiting { claim: known, .. } => {
                *known == claim
            }
            Phase::Held(held)
            | Phase::Kept { held, .. }
            | Phase::Releasing { held, stage: Stage::Queued, .. } => {
                held.claim == claim
                    || held.claim.owner == claim.owner && held.converting == Some(claim.mode)
            }
            // Its release may have been served before.
            Phase::Idle | Phase::Releasing { .. } | Phase::Lost { .. } => false,
        });
        if !known && !self.upgrade_asks_for(&claim) {
            effects.ops.push(Op::Forget(claim));
        }
    }
}
