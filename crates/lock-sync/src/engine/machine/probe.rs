//! What tests look at.

use lock_core::{Demand, Instant, OwnerToken};

use super::Machine;
use super::leased::Leased;
use super::seat::Seat;

impl<W> Machine<W> {
    /// Whether nothing is held, wanted or under way.
    pub(in super::super) fn is_idle(&self) -> bool {
        self.seats.iter().all(Seat::is_free) && self.queue.is_empty()
    }

    /// The owner whose claim is held, wanted or given up, on the first seat.
    pub(in super::super) fn owner(&self) -> Option<OwnerToken> {
        match &self.seats[0] {
            Seat::Free => None,
            Seat::Asking(asking) => Some(asking.claim.owner),
            Seat::Leased(leased) => {
                (leased.is_live() || leased.lease_goes()).then_some(leased.claim.owner)
            }
        }
    }

    /// The owners of the leases whose renewal or conversion is under way.
    pub(in super::super) fn renewing(&self) -> Vec<OwnerToken> {
        let busy = |leased: &&Leased| {
            leased.renewal.is_some() || leased.change.as_ref().is_some_and(|change| change.sent)
        };
        let live = self.seats.iter().filter_map(Seat::live);
        live.filter(busy).map(|leased| leased.claim.owner).collect()
    }

    /// Whether a renewal of the first lease is under way.
    pub(in super::super) fn is_renewing(&self) -> bool {
        self.seats[0].live().is_some_and(|leased| leased.renewal.is_some())
    }

    /// Whether the first claim was refused, and waits.
    pub(in super::super) fn is_waiting(&self) -> bool {
        self.seats[0].waiting().is_some()
    }

    /// When the first claim is asked for again, if it was refused and the store answers.
    pub(in super::super) fn asks_at(&self) -> Option<Instant> {
        let waiting = self.seats[0].waiting().filter(|asking| asking.outage.is_none());
        waiting.map(|asking| asking.until)
    }

    /// What is known of other processes that wait for the first lease.
    pub(in super::super) fn demand(&self) -> Option<Demand> {
        self.seats[0].live().map(Leased::demand)
    }
}

impl Leased {
    fn lease_goes(&self) -> bool {
        matches!(self.stage, super::leased::Stage::Going(_))
    }
}
