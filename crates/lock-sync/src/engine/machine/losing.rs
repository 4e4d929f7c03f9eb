//! Losing a lease.

use std::sync::Arc;

use super::leased::Stage;
use super::seat::Seat;
use super::{Fact, Machine, Op};
use crate::engine::holdings::{HoldId, State};
use crate::error::{LeaseLost, LossReason};

impl<W> Machine<W> {
    /// The store has told this holder that it does not know the lease.
    pub(in super::super) fn disown(&mut self, hold: HoldId) {
        if self.held_mut(hold).is_some() {
            self.lose(hold.seat(), LossReason::Revoked);
        }
    }

    /// The lease on this seat is over, for all of its holders.
    pub(super) fn lose(&mut self, seat: usize, reason: LossReason) {
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        if !leased.is_live() {
            // The release of a going lease must still be sent, but the lease cannot be taken back.
            leased.spent = true;
            return;
        }
        let loss = LeaseLost::new(reason);
        // The store may still have the lease. Releasing it spares other clients the wait for its end. After a revocation
        // the store has no lease of this claim, except one that an unanswered upgrade may bring.
        if reason != LossReason::Revoked {
            self.pass.ops.push(leased.withdraw());
        } else if let Some(change) = leased.change.as_ref().filter(|change| change.strengthens()) {
            self.pass.ops.push(Op::Withdraw(leased.claim.clone().in_mode(change.to), None));
        }
        leased.change = None;
        let lost = leased.holds.end_all();
        if !lost.is_empty() {
            leased.lease.end(lost.iter().copied(), reason);
            let lease = Arc::clone(&leased.lease);
            self.pass.facts.push(Fact::Lost { lease, loss, holds: lost });
        }
        self.used_last = leased.used;
        // A guard of a lost lease keeps other holders out, because it still gives access to the data. Permits guard
        // no data.
        if leased.holds.has_dead() && !leased.claim.mode.counts() {
            leased.stage = Stage::Lost(loss);
        } else {
            self.seats[seat] = Seat::Free;
        }
    }

    /// A hold has reached its limit.
    pub(super) fn end_overdue_hold(&mut self, seat: usize) {
        let reason = LossReason::HeldTooLong;
        let Some(leased) = self.seats[seat].live_mut() else { return };
        let Some(hold) = leased.holds.overdue(seat, self.pass.now) else { return };
        if leased.holds.live() <= 1 {
            return self.lose(seat, reason);
        }
        leased.holds.change(hold, |holding| holding.state = State::Dead);
        leased.lease.end_for([hold.serial()], reason);
        let (lease, loss) = (Arc::clone(&leased.lease), LeaseLost::new(reason));
        self.pass.facts.push(Fact::Lost { lease, loss, holds: vec![hold.serial()] });
    }
}
