//! Asking the store for the lock.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{Acquire, Attempt, Claim, Demand, Error, ErrorKind, Grant, Instant};

use super::held::Held;
use super::timing::{backoff, jitter};
use super::watching::Watching;
use super::{Denial, Effects, Machine, Manner, Op, Outage, Phase};
use crate::engine::queue::Patience;
use crate::handoff::Handoff;

/// When a holder without an end is asked about again, should no hint come.
const RECHECK_ENDLESS: Duration = Duration::from_secs(5);
/// After a release for which others waited outside any queue, a process with waiters of its own asks
/// again only after the first if a hint says that it may, and after the second in any case. The hint
/// may be the echo of its own release, so the first leaves the others time to come.
const YIELD: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(5));
/// Tokens reserved when nothing is known about the demand, and at most.
const RESERVE: (u32, u32) = (8, 8192);

impl<W> Machine<W> {
    /// The store answered to a request.
    pub(in super::super) fn attempt_done(
        &mut self,
        now: Instant,
        result: Result<Attempt, Error>,
        effects: &mut Effects<W>,
    ) {
        let (claim, queued, was_placed, outage, again, wanted) =
            match std::mem::replace(&mut self.phase, Phase::Idle) {
                Phase::Attempting { claim, queued, placed, outage, again, wanted, .. } => {
                    (claim, queued, placed, outage, again, wanted)
                }
                other => {
                    debug_assert!(false, "an answer without a request: {other:?}");
                    self.phase = other;
                    return;
                }
            };
        match result {
            Ok(Attempt::Granted(grant)) => {
                let grant = if wanted { grant.in_demand(Demand::Wanted) } else { grant };
                self.granted(now, claim, grant, effects);
                if again {
                    // What was heard meanwhile may concern this very grant.
                    self.doubt(now);
                }
            }
            Ok(Attempt::Busy { retry_after }) => {
                // It had no wish to be queued, but those who wait behind it have, and can be by now.
                let place = !queued && matches!(self.watch, Watching::On { .. });
                self.refused(now, claim, was_placed, again || place, retry_after, effects);
            }
            Ok(Attempt::Queued { retry_after }) => {
                self.refused(now, claim, true, again, retry_after, effects);
            }
            Ok(_) => {
                let error = Error::new(ErrorKind::Protocol, "an outcome this version cannot read");
                self.failed(now, claim, was_placed, outage, error, effects);
            }
            Err(error) => self.failed(now, claim, was_placed || queued, outage, error, effects),
        }
    }

    /// Draws an owner and asks for the lock.
    pub(super) fn begin_attempt(&mut self, outage: Option<Outage>) -> Result<Acquire, Error> {
        let claim = Claim::exclusive(self.key.clone(), (self.owners)()?);
        Ok(self.request(claim, true, false, outage))
    }

    fn request(
        &mut self,
        claim: Claim,
        fresh: bool,
        placed: bool,
        outage: Option<Outage>,
    ) -> Acquire {
        // Who does not wait needs no place in the store's queue.
        let queued = !matches!(self.queue.first(), Some((_, Patience::Try)));
        let request = Acquire::new(claim.clone(), self.policy.ttl).reserving(self.reserve());
        self.phase =
            Phase::Attempting { claim, fresh, queued, placed, outage, again: false, wanted: false };
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

    pub(super) fn next_attempt_after(
        &mut self,
        now: Instant,
        outage: Option<Outage>,
        effects: &mut Effects<W>,
    ) {
        if self.queue.is_empty() {
            return self.rest_watch(now);
        }
        match self.begin_attempt(outage) {
            Ok(request) => effects.ops.push(Op::Attempt(request)),
            Err(error) => self.cannot_ask(now, error, effects),
        }
    }

    /// Asks again with the same claim: if it is held after all, the store says so.
    pub(super) fn ask_again(&mut self, now: Instant, effects: &mut Effects<W>) {
        if let Phase::Waiting { claim, outage, placed, .. } =
            std::mem::replace(&mut self.phase, Phase::Idle)
        {
            let request = self.request(claim, outage.is_some(), placed, outage);
            effects.ops.push(Op::Attempt(request));
            self.watch_again(now, effects);
        }
    }

    /// The claim of this process is held.
    pub(super) fn granted(
        &mut self,
        now: Instant,
        claim: Claim,
        grant: Grant,
        effects: &mut Effects<W>,
    ) {
        if grant.valid_until <= now {
            // It came too late to be of use.
            effects.ops.push(Op::Forget(claim));
            return self.next_attempt(now, effects);
        }
        let held = Held::new(self.clock, claim, grant, self.policy.ttl, now);
        // Whoever is first gets it; if nobody is left here, it goes back.
        let manner = Manner { handoff: Handoff::Fair, cache: None };
        self.pass_on(now, held, manner, effects);
    }

    fn refused(
        &mut self,
        now: Instant,
        claim: Claim,
        placed: bool,
        again: bool,
        retry_after: Option<Duration>,
        effects: &mut Effects<W>,
    ) {
        self.phase = Phase::Waiting {
            until: now + retry_after.map_or(RECHECK_ENDLESS, |after| after + jitter(&claim)),
            claim,
            outage: None,
            placed,
            yielding: None,
        };
        self.deny_tries(&Denial::WouldBlock, effects);
        if self.queue.is_empty() {
            self.settle_empty(now, effects);
        } else if again {
            self.ask_again(now, effects);
        } else {
            self.watch_again(now, effects);
        }
    }

    fn failed(
        &mut self,
        now: Instant,
        claim: Claim,
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
        self.phase = Phase::Waiting { claim, outage, placed, yielding: None, until };
        if curable {
            self.deny_tries(&Denial::Failed(error.clone()), effects);
        }
        if !curable || lasting {
            // Those who set a limit are ready to wait for the store as well, if that can help.
            self.deny_unless(&Denial::Failed(error), effects, |patience| {
                curable && matches!(patience, Patience::Until(_))
            });
        }
        self.settle_empty(now, effects);
    }

    /// Lets other processes go first, then asks for the lock.
    ///
    /// It comes soon after they were told of it, or as late as it may where nobody may have been.
    pub(super) fn yield_to_others(&mut self, now: Instant, untold: bool, effects: &mut Effects<W>) {
        match (self.owners)() {
            Ok(owner) => {
                let claim = Claim::exclusive(self.key.clone(), owner);
                let until = now + YIELD.1 + jitter(&claim);
                self.phase = Phase::Waiting {
                    claim,
                    outage: None,
                    placed: false,
                    yielding: Some(now + if untold { YIELD.1 } else { YIELD.0 }),
                    until,
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
}
