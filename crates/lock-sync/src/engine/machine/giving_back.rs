//! Leases and permits that this process has given up and the store does not have back yet.

use lock_core::{Error, OwnerToken};

use super::Machine;
use super::facts::Watching;
use super::leased::{Leased, Stage};
use super::seat::Seat;
use crate::engine::holdings::HoldId;

/// A lease, or a part of one, that is going back to the store.
#[derive(Debug)]
pub(crate) struct Return {
    owner: OwnerToken,
    /// A part is back when the lease has been converted this many times.
    conversions: u64,
}

impl<W> Machine<W> {
    /// Gives back the leases and permits that no holder uses, before a query asks the store what is free. Returns
    /// those that the store must have back first.
    ///
    /// Leases and permits stay if a waiter of this process may need them. So does a lease that the user caches.
    pub(in super::super) fn give_back_all(&mut self) -> Vec<Return> {
        // Computed first: permits that were freed after a conversion was sent need one more conversion.
        let returns = self.seats.iter().filter_map(|seat| self.to_return(seat)).collect();
        if self.queue.is_empty() {
            let cached = self.manner.cache().is_some();
            for leased in self.seats.iter_mut().filter_map(Seat::live_mut) {
                if leased.is_idle() && !cached {
                    leased.idle_until = self.pass.now;
                } else if leased.has_idle_permits() {
                    leased.hurry(self.pass.now);
                }
            }
        }
        returns
    }

    /// No handle of this process is left, and nothing listens. The leases that no holder uses go back. If new handles
    /// find this machine (`is_found`), it keeps these claims until the store has the leases back. Otherwise it drops them
    /// at once.
    pub(in super::super) fn part(&mut self, is_found: bool) {
        self.watch_ended(None);
        (self.watch, self.watch_failures) = (Watching::Off, 0);
        for seat in 0..self.seats.len() {
            match self.seats[seat].leased().filter(|leased| leased.is_idle()) {
                Some(_) if is_found => self.give_up(seat),
                Some(leased) => {
                    self.pass.ops.push(leased.withdraw());
                    self.seats[seat] = Seat::Free;
                }
                None => {}
            }
        }
    }

    /// A hold on a part of a lease of permits is over: gives unused permits back at once. `None` if the other holders
    /// use all permits of the lease, or the lease has no holder.
    pub(super) fn give_back(&mut self, hold: HoldId) -> Option<Return> {
        let now = self.pass.now;
        let leased = self.live_mut(hold).filter(|it| it.is_held() && it.has_idle_permits())?;
        let conversions = leased.next_conversion();
        leased.hurry(now);
        Some(Return { owner: leased.claim.owner, conversions })
    }

    fn to_return(&self, seat: &Seat) -> Option<Return> {
        let owner = seat.claim().filter(|_| self.goes_back(seat))?.owner;
        let part = seat.live().filter(|leased| leased.is_held());
        Some(Return { owner, conversions: part.map_or(0, Leased::next_conversion) })
    }

    /// Whether the claim on this seat, or a part of the claim, is going back to the store.
    fn goes_back(&self, seat: &Seat) -> bool {
        match seat {
            Seat::Free => false,
            // The task that asked for this claim may have left.
            Seat::Asking(asking) => {
                asking.request.sent && self.queue.first_want() != Some(asking.claim.mode)
            }
            Seat::Leased(leased) => match &leased.stage {
                Stage::Going(_) => true,
                Stage::Live if leased.is_idle() => self.manner.cache().is_none(),
                // The lease is stronger than its holders need.
                Stage::Live => leased.weakening().is_some() || leased.has_idle_permits(),
                Stage::Lost(_) => false,
            },
        }
    }

    /// `None` while the caller has to wait for one of these. Fails if all that are still to come back wait for a store
    /// that does not answer. A part also counts as back if a holder of this process uses it, or with the whole lease.
    pub(in super::super) fn returned(&self, parts: &[Return]) -> Option<Result<(), Error>> {
        let coming = parts.iter().filter_map(|part| {
            let seat = &self.seats[self.seat_of(part.owner)?];
            let comes = seat.live().is_none_or(|it| it.conversions < part.conversions);
            (comes && self.goes_back(seat)).then(|| seat.outage())
        });
        let outages: Option<Vec<_>> = coming.collect();
        let outage = outages?.first().copied();
        Some(outage.map_or(Ok(()), |outage| Err(Error::clone(&outage.error))))
    }
}
