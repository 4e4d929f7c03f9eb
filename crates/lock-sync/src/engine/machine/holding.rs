//! Holding a lease: passing it on, keeping it, renewing it, losing it, giving it back.

use lock_core::{Acquire, Attempt, Claim, Demand, Error, Instant, Released, Renew, Renewal};

use super::held::{Fate, Held};
use super::timing::backoff;
use super::watching::Watching;
use super::{Denial, Effects, Machine, Manner, Next, Op, Outage, Phase, Policy, Stage, Ticket};
use crate::engine::queue::Patience;
use crate::error::{LeaseLost, LossReason};
use crate::handoff::Handoff;

/// How long to wait at least before a renewal that failed is tried again.
const SOON: std::time::Duration = std::time::Duration::from_millis(1);
/// When a lease that stays here has fewer tokens than this, it gets more.
const LOW_TOKENS: u32 = 1024;
/// How many it asks for then.
const STOCK: u32 = 8192;

impl<W> Machine<W> {
    /// A holder is done. Returns `false` if the hold was over before.
    pub(in super::super) fn release(
        &mut self,
        now: Instant,
        hold: u64,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> bool {
        let (valid, fate) = match &self.phase {
            // A deadline that has passed unnoticed: the holder must hear of it.
            Phase::Held(held) if held.hold == hold => (
                held.lease.is_valid(now) && now < held.hold_until,
                held.fate(now, manner, &self.policy),
            ),
            _ => (false, Fate::GiveUp),
        };
        if valid && fate == Fate::HandOver && self.hand_over(now, effects) {
            return true;
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Held(held) if held.hold == hold => {
                self.pass_on(now, held, manner, effects);
                valid
            }
            Phase::Lost { hold: lost } if lost == hold => {
                self.next_attempt(now, effects);
                false
            }
            other => {
                self.phase = other;
                false
            }
        }
    }

    /// Gives the current lease to the first in line, if there is one, without moving it.
    fn hand_over(&mut self, now: Instant, effects: &mut Effects<W>) -> bool {
        let (Phase::Held(held), Some((id, _))) = (&mut self.phase, self.queue.first()) else {
            return false;
        };
        let Some(ticket) = Self::ticket(&mut self.holds, &self.policy, now, held) else {
            return false;
        };
        let waker = self.queue.settle(id, Ok(ticket));
        effects.wake(waker);
        if self.queue.is_empty() {
            self.rest_watch(now);
        } else {
            self.settle_in(now, effects);
        }
        true
    }

    /// Gives a lease without a holder to the first in line, keeps it, or gives it back.
    pub(super) fn pass_on(
        &mut self,
        now: Instant,
        held: Held,
        manner: Manner,
        effects: &mut Effects<W>,
    ) {
        if self.queue.is_empty() {
            self.rest_watch(now);
            return match manner.cache {
                Some(idle) if manner.handoff != Handoff::Never && self.may_keep(now, &held) => {
                    let until = now + idle;
                    self.keep(now, held, manner, until, effects);
                }
                _ => self.give_up(held, effects),
            };
        }
        match held.fate(now, manner, &self.policy) {
            Fate::HandOver => {
                self.phase = Phase::Held(held);
                self.hand_over(now, effects);
            }
            Fate::AwaitTokens => self.keep(now, held, manner, now, effects),
            Fate::GiveUp => self.give_up(held, effects),
        }
    }

    /// The lease is used by several here: learns whether others wait, and keeps tokens in stock.
    fn settle_in(&mut self, now: Instant, effects: &mut Effects<W>) {
        let Phase::Held(held) = &self.phase else { return };
        match held.demand() {
            Demand::Unknown => self.watch_again(now, effects),
            // Not for the first: others may be on their way to the queue, in whose turn it ends.
            Demand::Quiet if held.used > 2 && held.tokens_left() < LOW_TOKENS => {
                self.renew_current(now, effects);
            }
            _ => {}
        }
    }

    /// Keeps a lease that nobody holds.
    fn keep(
        &mut self,
        now: Instant,
        mut held: Held,
        manner: Manner,
        until: Instant,
        effects: &mut Effects<W>,
    ) {
        held.hold_until = Instant::FAR_FUTURE;
        self.watch_again(now, effects);
        let unknown = held.demand() == Demand::Unknown;
        let known_soon = matches!(self.watch, Watching::Starting { .. });
        if held.tokens_left() < LOW_TOKENS || unknown && !known_soon {
            self.renew(now, &mut held, true, effects);
        }
        self.phase = Phase::Kept { held, manner, until };
    }

    /// Whether a lease may stay without a holder: only if others who want it can make themselves
    /// heard.
    fn may_keep(&self, now: Instant, held: &Held) -> bool {
        self.policy.renew
            && !self.closed
            && !held.spent
            && held.lease.is_valid(now)
            && held.demand() != Demand::Wanted
            && !held.was_kept(now, self.policy.ttl)
            && !matches!(self.watch, Watching::Failed { .. })
    }

    pub(super) fn give_up(&mut self, held: Held, effects: &mut Effects<W>) {
        effects.ops.push(Op::Release { urgent: held.demand() == Demand::Wanted });
        self.phase = Phase::Releasing { held, stage: Stage::Queued, next: None, outage: None };
    }

    /// Takes a lease that was kept, or was given up but not yet released.
    pub(super) fn take_back(
        &mut self,
        now: Instant,
        manner: Manner,
        effects: &mut Effects<W>,
    ) -> Option<Ticket> {
        let (fate, kept) = match &self.phase {
            Phase::Kept { held, until, .. } => (held.fate(now, manner, &self.policy), Some(*until)),
            Phase::Releasing { held, stage: Stage::Queued, .. } => {
                (held.fate(now, manner, &self.policy), None)
            }
            _ => return None,
        };
        if fate == Fate::GiveUp && kept.is_none() {
            return None;
        }
        let mut held = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Kept { held, .. } | Phase::Releasing { held, .. } => held,
            other => {
                self.phase = other;
                return None;
            }
        };
        match fate {
            Fate::HandOver => {
                let ticket = Self::ticket(&mut self.holds, &self.policy, now, &mut held);
                if kept.is_some() && held.tokens_left() < LOW_TOKENS {
                    self.renew(now, &mut held, true, effects);
                }
                self.phase = Phase::Held(held);
                return ticket;
            }
            Fate::AwaitTokens => self.keep(now, held, manner, kept.unwrap_or(now), effects),
            Fate::GiveUp => self.give_up(held, effects),
        }
        None
    }

    fn ticket(holds: &mut u64, policy: &Policy, now: Instant, held: &mut Held) -> Option<Ticket> {
        let until = policy.max_hold.map_or(Instant::FAR_FUTURE, |max_hold| now + max_hold);
        let ticket = held.ticket(*holds + 1, until)?;
        *holds += 1;
        Some(ticket)
    }

    // ---- Releasing ----

    /// Takes the claim that is to be released, if it still is, and the request for a place in the
    /// queue behind those who wait elsewhere, if somebody waits here as well.
    pub(in super::super) fn begin_release(&mut self) -> Option<(Claim, Option<Acquire>)> {
        let again = self.request_again();
        match &mut self.phase {
            Phase::Releasing { held, stage: stage @ Stage::Queued, next, .. } => {
                *stage = Stage::Sent(held.lease.deadline());
                // Whatever is heard of it: the store may have carried it out.
                held.spent = true;
                *next =
                    again.as_ref().map(|again| Next { claim: again.claim.clone(), again: false });
                Some((held.claim.clone(), again))
            }
            _ => None,
        }
    }

    /// The request that may travel together with a release.
    fn request_again(&self) -> Option<Acquire> {
        let Phase::Releasing { held, stage: Stage::Queued, .. } = &self.phase else { return None };
        let waits = self.queue.first().is_some_and(|(_, patience)| patience != Patience::Try);
        if !waits || held.demand() != Demand::Wanted || !matches!(self.watch, Watching::On { .. }) {
            return None;
        }
        let claim = Claim::exclusive(self.key.clone(), (self.owners)().ok()?);
        Some(Acquire::new(claim, self.policy.ttl).reserving(self.reserve()).queued())
    }

    /// The store answered to a release.
    pub(in super::super) fn release_done(
        &mut self,
        now: Instant,
        result: Result<(Released, Option<Attempt>), Error>,
        effects: &mut Effects<W>,
    ) {
        let Phase::Releasing { held, stage: Stage::Sent(_), next, .. } = &mut self.phase else {
            return;
        };
        let next = next.take();
        if let (Some(next), Ok((_, Some(attempt)))) = (&next, &result) {
            self.used_last = held.used;
            self.phase = Phase::Attempting {
                claim: next.claim.clone(),
                fresh: true,
                queued: true,
                placed: false,
                outage: None,
                again: next.again,
                wanted: false,
            };
            return self.attempt_done(now, Ok(attempt.clone()), effects);
        }
        let contended = match result {
            Ok((Released::Freed { contended }, _)) => contended,
            other => {
                // An earlier try, of which nothing was heard, may have put it into the queue.
                effects.ops.extend(next.map(|next| Op::Forget(next.claim)));
                match other {
                    Ok(_) => false,
                    Err(error) => return self.release_failed(now, error, effects),
                }
            }
        };
        self.used_last = held.used;
        let stayed = held.has_stayed(now);
        self.phase = Phase::Idle;
        if (contended || stayed) && !self.queue.is_empty() {
            self.yield_to_others(now, stayed, effects);
        } else {
            self.next_attempt(now, effects);
        }
    }

    fn release_failed(&mut self, now: Instant, error: Error, effects: &mut Effects<W>) {
        let Phase::Releasing { held, stage, outage, .. } = &mut self.phase else { return };
        match error {
            // The lease ends by itself at its deadline; until then it is worth trying again.
            error if error.is_retryable() && now < held.lease.deadline() => {
                let trouble = Outage::continued(outage.take(), now, error.clone());
                *stage = Stage::Failed(now + backoff(trouble.tries, &held.claim));
                *outage = Some(trouble);
                self.deny_tries(&Denial::Failed(error), effects);
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
                self.phase = Phase::Idle;
                self.next_attempt_after(now, trouble, effects);
            }
        }
    }

    /// A claim turned out to be held that may have been given up before.
    pub(in super::super) fn forget_unless_known(&mut self, claim: Claim, effects: &mut Effects<W>) {
        let known = match &self.phase {
            Phase::Attempting { claim, .. } | Phase::Waiting { claim, .. } => Some(claim),
            Phase::Held(held)
            | Phase::Kept { held, .. }
            | Phase::Releasing { held, stage: Stage::Queued, .. } => Some(&held.claim),
            // Its release may have been served before.
            Phase::Idle | Phase::Releasing { .. } | Phase::Lost { .. } => None,
        };
        if known.is_none_or(|known| known.owner != claim.owner) {
            effects.ops.push(Op::Forget(claim));
        }
    }

    // ---- Renewing ----

    /// Renews, unless that is under way. If more holders are to be expected and few tokens are left,
    /// it asks for some.
    pub(super) fn renew(
        &self,
        now: Instant,
        held: &mut Held,
        more: bool,
        effects: &mut Effects<W>,
    ) {
        if !self.policy.renew || std::mem::replace(&mut held.renewing, true) {
            return;
        }
        held.check_at = None;
        held.stocking = more && held.tokens_left() < LOW_TOKENS;
        let tokens = if held.stocking { STOCK } else { 0 };
        let renew = Renew::new(held.claim.clone(), self.policy.ttl).reserving(tokens);
        // One that stalls leaves time for others.
        let left = held.lease.deadline().saturating_duration_since(now);
        let limit = (self.policy.ttl.duration() / 6).min(left / 3).max(SOON);
        effects.ops.push(Op::Renew(renew, limit));
    }

    /// The store answered to a renewal of this claim.
    pub(in super::super) fn renew_done(
        &mut self,
        now: Instant,
        claim: &Claim,
        sent: Instant,
        renewal: Renewal,
        effects: &mut Effects<W>,
    ) {
        let ttl = self.policy.ttl.duration();
        let held = match &mut self.phase {
            // Given up meanwhile, but somebody may take it back.
            Phase::Held(held) | Phase::Kept { held, .. } | Phase::Releasing { held, .. } => held,
            _ => return,
        };
        if held.claim.owner != claim.owner {
            return;
        }
        held.renewing = false;
        let stocked = std::mem::take(&mut held.stocking);
        let mut answered = true;
        let loss = match renewal {
            // Once its deadline has passed a lease is lost for good: a guard that has reported so must
            // not become valid again.
            _ if !held.lease.is_valid(now) => Some(LossReason::Expired),
            Renewal::Lost => Some(LossReason::Revoked),
            Renewal::Renewed { valid_until, tokens, demand } => {
                held.lease.extend(valid_until);
                held.renew_at = sent + ttl / 3;
                held.relaxed = true;
                held.answered(demand, now);
                if let Some(tokens) = tokens {
                    held.refill(tokens);
                }
                None
            }
            // The deadline stands. Ask again while there is time.
            _ => {
                let left = held.lease.deadline().saturating_duration_since(now);
                held.renew_at = now + (ttl / 10).min(left / 4).max(SOON);
                answered = false;
                None
            }
        };
        match (loss, &mut self.phase) {
            (Some(loss), Phase::Held(_)) => self.lose(now, loss, effects),
            (Some(loss), Phase::Kept { .. }) => self.drop_kept(now, loss, effects),
            (Some(_), Phase::Releasing { held, .. }) => held.spent = true,
            (None, Phase::Kept { .. }) => self.review_kept(now, answered, stocked, effects),
            _ => {}
        }
    }

    /// News about a lease that nobody here holds.
    ///
    /// `answered`: the store has said something. `stocked`: it was asked for tokens.
    pub(super) fn review_kept(
        &mut self,
        now: Instant,
        answered: bool,
        stocked: bool,
        effects: &mut Effects<W>,
    ) {
        let (held, manner, until) = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Kept { held, manner, until } => (held, manner, until),
            other => {
                self.phase = other;
                return;
            }
        };
        let waited_for = !self.queue.is_empty();
        // A lease kept for somebody who waits here and still has no token is of no use.
        let useless = waited_for && stocked && held.tokens_left() == 0;
        let quiet = held.demand() == Demand::Quiet
            || held.demand() == Demand::Unknown && (!answered || held.check_at.is_some());
        let learning =
            held.demand() == Demand::Unknown && matches!(self.watch, Watching::Starting { .. });
        if useless || !waited_for && (now >= until || !(quiet || learning)) {
            self.give_up(held, effects);
        } else if waited_for && !held.renewing {
            self.pass_on(now, held, manner, effects);
        } else {
            self.phase = Phase::Kept { held, manner, until };
        }
    }

    // ---- Losing ----

    pub(super) fn lose(&mut self, now: Instant, reason: LossReason, effects: &mut Effects<W>) {
        let held = match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Held(held) => held,
            other => {
                self.phase = other;
                return;
            }
        };
        held.lease.end(held.hold, reason);
        effects.lose(held.lease, LeaseLost::new(reason));
        self.used_last = held.used;
        if reason != LossReason::Revoked {
            // The store may still have it for a moment; there is no reason to make others wait.
            effects.ops.push(Op::Forget(held.claim));
        }
        self.rest_watch(now);
        self.phase = Phase::Lost { hold: held.hold };
    }

    /// A lease that nobody held is over.
    pub(super) fn drop_kept(&mut self, now: Instant, reason: LossReason, effects: &mut Effects<W>) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Kept { held, .. } => {
                if reason != LossReason::Revoked {
                    effects.ops.push(Op::Forget(held.claim));
                }
                self.next_attempt(now, effects);
            }
            other => self.phase = other,
        }
    }
}
