//! What this process has given up, and the store does not know yet.

use lock_core::OwnerToken;

use super::leased::{Leased, Stage};
use super::seat::Seat;
use super::{Machine, Pass};

/// A lease on its way back to the store, or a part of one.
#[derive(Debug)]
pub(crate) struct Return {
    owner: OwnerToken,
    /// A part is back when the lease has changed so often.
    conversions: u64,
}

impl<W> Machine<W> {
    /// The store is about to be asked what is free: gives back what only lingers here. Returns what the store has
    /// to hear of first.
    ///
    /// What a waiter of this process needs stays, and so does a lease that is cached on purpose.
    pub(in super::super) fn give_back_all(&mut self, pass: &mut Pass<W>) -> Vec<Return> {
        let now = pass.now;
        // A conversion under way was sent before the last permits came back: one more follows it.
        let returns = self.seats.iter().filter_map(|seat| self.to_return(seat)).collect();
        if self.queue.is_empty() {
            let cached = self.manner.cache.is_some();
            for leased in self.seats.iter_mut().filter_map(Seat::live_mut) {
                if leased.is_idle() && !cached {
                    leased.idle_until = now;
                } else if leased.has_idle_permits() {
                    leased.hurry(now);
                }
            }
        }
        self.settle(pass);
        returns
    }

    fn to_return(&self, seat: &Seat) -> Option<Return> {
        let leased = match seat {
            Seat::Free => return None,
            // A task has left that asked for it.
            Seat::Asking(asking) => {
                let owner = asking.claim.owner;
                return asking.sent.is_some().then_some(Return { owner, conversions: 0 });
            }
            Seat::Leased(leased) => leased,
        };
        let goes = match &leased.stage {
            Stage::Going(_) => true,
            Stage::Live if leased.is_idle() => self.manner.cache.is_none(),
            Stage::Live => self.is_shrinking(leased),
            Stage::Lost(_) => false,
        };
        let conversions =
            if leased.is_held() { leased.next_conversion() } else { leased.conversions };
        goes.then_some(Return { owner: leased.claim.owner, conversions })
    }

    /// Whether the store has this back, or a holder of this process uses it again, or the store does not answer.
    pub(in super::super) fn is_returned(&self, part: &Return) -> bool {
        self.seats.iter().all(|seat| match seat {
            Seat::Asking(asking) if asking.claim.owner == part.owner => {
                let wanted = self.queue.first_want() == Some(asking.claim.mode);
                asking.sent.is_none() || asking.outage.is_some() || wanted
            }
            Seat::Leased(leased) if leased.claim.owner == part.owner => match &leased.stage {
                Stage::Live if !leased.holds.is_empty() => {
                    let failed = leased.change.as_ref().is_some_and(|change| !change.sent);
                    failed || leased.conversions >= part.conversions || !self.is_shrinking(leased)
                }
                Stage::Going(going) => going.outage.is_some(),
                Stage::Live | Stage::Lost(_) => true,
            },
            _ => true,
        })
    }

    /// Whether the store has more of this lease than the holders use, and no waiter of this process needs the rest.
    fn is_shrinking(&self, leased: &Leased) -> bool {
        leased.weakening().is_some() || self.queue.is_empty() && leased.has_idle_permits()
    }
}
