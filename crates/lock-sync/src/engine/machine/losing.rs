//! Losing a lease.

use std::sync::Arc;

use lock_core::Mode;

use super::leased::Stage;
use super::seat::Seat;
use super::{Denial, Machine, Op, Pass};
use crate::engine::holds::{HoldId, State};
use crate::error::{LeaseLost, LossReason};

impl<W> Machine<W> {
    /// The lease on this seat is over, for all of its holders.
    pub(super) fn lose(&mut self, seat: usize, reason: LossReason, pass: &mut Pass<W>) {
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        if !leased.is_live() {
            // What was given up is still to be released, but cannot be taken back.
            leased.spent = true;
            return;
        }
        let loss = LeaseLost::new(reason);
        // After a revocation the store has only what an unanswered conversion may have left.
        let revoked = reason == LossReason::Revoked;
        if let Some(change) = leased.change.take()
            && (change.strengthens() || !revoked)
        {
            pass.ops.push(Op::Forget(leased.claim.clone().in_mode(change.to)));
        }
        if !revoked {
            // The store may still have it for a moment; there is no reason to make others wait.
            pass.ops.push(Op::Forget(leased.claim.clone()));
        }
        let lost = leased.holds.end_all();
        if !lost.is_empty() {
            leased.lease.end(lost, reason);
            pass.lose(Arc::clone(&leased.lease), loss);
        }
        self.used_last = leased.used;
        let mode = leased.claim.mode;
        // Permits guard no data of this process that another holder might reach.
        if leased.holds.has_dead() && !mode.counts() {
            leased.stage = Stage::Lost(loss);
        } else {
            self.seats[seat] = Seat::Free;
        }
        self.lose_waiters(seat, mode, loss, pass);
    }

    /// Denies the waiters that waited for more of the lease that was lost.
    fn lose_waiters(&mut self, seat: usize, mode: Mode, loss: LeaseLost, pass: &mut Pass<W>) {
        if let Some(upgrade) = self.upgrade.take_if(|upgrade| upgrade.hold.seat() == seat) {
            pass.wake(self.queue.settle(upgrade.id, Err(Denial::Lost(loss))));
        }
        if mode.is_joint() {
            // They are one owner, and would wait for themselves.
            while let Some((id, _)) = self.queue.first() {
                pass.wake(self.queue.settle(id, Err(Denial::Lost(loss))));
            }
        }
    }

    /// One holder has held for too long.
    pub(super) fn lose_hold(&mut self, hold: HoldId, pass: &mut Pass<W>) {
        let now = pass.now;
        let reason = LossReason::HeldTooLong;
        let Some(leased) = self.seats[hold.seat()].live() else { return };
        if leased.holds.live() <= 1 {
            return self.lose(hold.seat(), reason, pass);
        }
        let loss = LeaseLost::new(reason);
        if self.upgrade.as_ref().is_some_and(|upgrade| upgrade.hold == hold) {
            self.deny_upgrade(Denial::Lost(loss), pass);
        }
        let Some(leased) = self.seats[hold.seat()].live_mut() else { return };
        leased.holds.change(hold, |holding| holding.state = State::Dead);
        leased.consider_weaker(now);
        leased.lease.end_for([hold.serial()], reason);
        pass.lose(Arc::clone(&leased.lease), loss);
    }
}
