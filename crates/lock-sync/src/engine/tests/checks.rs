//! The conditions that must hold after every event.

use lock_core::{AcquireOutcome, Contention, OwnerToken};

use super::common::Limit;
use super::{JITTER, POLL, World};
use crate::engine::machine::Ticket;

impl World {
    pub(super) fn served(&mut self, arrival: u32, ticket: Ticket) {
        assert!(self.holding.is_none(), "a second holder, even if the first is lost");
        assert!(arrival > self.last_served, "{arrival} was served after {}", self.last_served);
        self.last_served = arrival;
        assert!(ticket.token.get() > self.last_token, "tokens must increase");
        self.last_token = ticket.token.get();
        assert!(self.now < ticket.lease.deadline(), "a lease that is over was handed out");
        assert!(!self.revoked.contains(&self.machine.owner()), "a lease that the store has ended");
        self.holding = Some(ticket);
    }

    pub(super) fn note_refusal(&mut self, attempt: Option<&AcquireOutcome>) {
        self.refusals +=
            u32::from(attempt.is_some_and(|it| !matches!(it, AcquireOutcome::Granted(_))));
    }

    /// Only a try is denied because the lock is taken. A try that came while this process gave the lock up may be
    /// denied only by a refusal of the store after that release. No request is under way beside a release, so every
    /// refusal that comes later is such a refusal.
    pub(super) fn check_busy(&self, arrival: u32, limit: Limit) {
        assert!(matches!(limit, Limit::Try));
        let before = self.tries.get(&arrival);
        assert!(
            before.is_none_or(|before| self.refusals > *before),
            "denied by an answer from before the release"
        );
    }

    /// A hold has ended. It counts against the budget if other processes were known to wait.
    pub(super) fn check_budget(
        &mut self,
        (owner, contention): (Option<OwnerToken>, Option<Contention>),
    ) {
        let stays = self.machine.is_held() && self.machine.owner() == owner;
        self.turn = match self.turn {
            (last, served)
                if last == owner && stays && contention == Some(Contention::Contended) =>
            {
                (owner, served + 1)
            }
            _ => (owner, u32::from(stays && contention == Some(Contention::Contended))),
        };
        assert!(!(stays && self.manner.is_never()), "a guard that is not the store's own");
        assert!(self.turn.1 <= self.manner.handoffs(), "others wait, and the budget is used up");
    }

    pub(super) fn check(&self) {
        if let Some(ticket) = &self.holding
            && ticket.lease.loss(ticket.hold.serial()).is_none()
            && self.now < ticket.lease.deadline()
        {
            assert!(self.machine.is_held(), "a valid holder that the machine does not know");
            let stored = self.stored.as_ref().map(|(owner, ..)| *owner);
            assert_eq!(stored, self.machine.owner(), "a valid holder that the store does not know");
        }
        if let (Some(until), false) = (self.machine.asks_at(), self.subscribed) {
            let pause = until.saturating_duration_since(self.now);
            assert!(pause <= POLL + JITTER, "it hears nothing, and waits {pause:?}");
        }
        if let (Some((next, ask_by)), Some(until)) = (self.next, self.machine.asks_at())
            && self.machine.owner() == Some(next)
        {
            assert!(until <= ask_by, "it asks {:?} late", until.saturating_duration_since(ask_by));
        }
        if self.machine.is_renewing() {
            let under_way =
                self.renewals.iter().any(|(r, _)| Some(r.claim.owner) == self.machine.owner());
            assert!(under_way, "a renewal that will never be answered");
        }
    }
}
