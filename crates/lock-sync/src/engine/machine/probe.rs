//! What only tests ask of the machine.

use std::time::Duration;

use lock_core::{Contention, Instant, OwnerToken};

use super::leased::{Leased, Stage};
use super::seat::Seat;
use super::{Machine, Manner};
use crate::engine::holdings::HoldId;

impl<W> Machine<W> {
    /// Whether nothing is held, wanted or under way.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.seats.iter().all(Seat::is_free) && self.queue.is_empty()
    }

    /// Whether the present event asks for a lease.
    pub(in super::super) fn asks(&self) -> bool {
        self.pass.attempt.is_some()
    }

    /// The owner of the claim on the first seat.
    pub(in super::super) fn owner(&self) -> Option<OwnerToken> {
        let lost = |leased: &Leased| matches!(leased.stage, Stage::Lost(_));
        let seat = self.seats.first().filter(|seat| !seat.leased().is_some_and(lost))?;
        seat.claim().map(|claim| claim.owner)
    }

    /// The owners of the leases whose renewal or conversion is under way.
    pub(in super::super) fn renewing(&self) -> Vec<OwnerToken> {
        let live = self.seats.iter().filter_map(Seat::live);
        live.filter(|leased| leased.is_busy()).map(|leased| leased.claim.owner).collect()
    }

    /// Whether a renewal of the first lease is under way.
    pub(in super::super) fn is_renewing(&self) -> bool {
        self.seats[0].live().is_some_and(|leased| leased.renewal.sent)
    }

    /// Whether the first claim was refused, and waits.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.seats[0].waiting().is_some()
    }

    /// When the first claim is asked for again, if it was refused and the store answers.
    pub(in super::super) fn asks_at(&self) -> Option<Instant> {
        let waiting = self.seats[0].waiting().filter(|asking| asking.request.outage.is_none());
        waiting.map(|asking| asking.request.at)
    }

    /// Whether the holder may pass the lease on by the short way, by a look at all facts. If a tick is late, the holder
    /// may do what it could do before.
    pub(in super::super) fn may_pass_on(&self, hold: HoldId, now: Instant, manner: Manner) -> bool {
        let on_time = self.next.map_or(now, |next| now.min(next.at - Duration::from_nanos(1)));
        let want = self.queue.first_want();
        want.is_some_and(|want| self.express_until(hold, want, on_time, manner).is_some())
    }

    /// The contention of other processes for the first lease.
    pub(in super::super) fn contention(&self) -> Option<Contention> {
        self.seats[0].live().map(|leased| leased.turn.contention())
    }
}
