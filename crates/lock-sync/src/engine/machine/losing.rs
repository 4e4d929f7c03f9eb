//! Losing a lease.

use lock_core::{Instant, Mode};

use super::holds::HoldId;
use super::{Denial, Effects, Machine, Op, Phase};
use crate::error::{LeaseLost, LossReason};

impl<W> Machine<W> {
    /// All who hold the lease on this seat have lost it.
    pub(super) fn lose(
        &mut self,
        seat: usize,
        now: Instant,
        reason: LossReason,
        effects: &mut Effects<W>,
    ) {
        if !matches!(self.seats[seat], Phase::Held(_)) {
            return;
        }
        let loss = LeaseLost::new(reason);
        let upgrading = self.lose_upgrade(seat, loss, effects);
        let Phase::Held(mut held) = std::mem::replace(&mut self.seats[seat], Phase::Idle) else {
            return;
        };
        if upgrading {
            effects.ops.push(Op::Forget(held.claim.clone().in_mode(Mode::Exclusive)));
        }
        held.lease.end(held.holds.end_all(), reason);
        effects.lose(held.lease, loss);
        self.used_last = held.used;
        let mode = held.claim.mode;
        if reason != LossReason::Revoked {
            // The store may still have it for a moment; there is no reason to make others wait.
            if let Some(other) = held.converting {
                effects.ops.push(Op::Forget(held.claim.clone().in_mode(other)));
            }
            effects.ops.push(Op::Forget(held.claim));
        }
        self.rest_watch(now);
        // Permits guard no data of this process that somebody else might reach.
        if held.holds.has_dead() && !matches!(mode, Mode::Permits { .. }) {
            self.seats[seat] = Phase::Lost { mode, holds: held.holds, loss };
        }
        if matches!(mode, Mode::Joint { .. }) {
            // They would wait for themselves.
            self.deny_joint(mode, &Denial::Lost(loss), effects);
        }
        if !self.queue.is_empty() {
            self.next_attempt(now, effects);
        }
    }

    /// One who holds a lease has held it for too long.
    pub(super) fn lose_hold(&mut self, hold: HoldId, now: Instant, effects: &mut Effects<W>) {
        let Phase::Held(held) = &mut self.seats[hold.seat()] else { return };
        let reason = LossReason::HeldTooLong;
        if held.holds.live() <= 1 {
            return self.lose(hold.seat(), now, reason, effects);
        }
        if let Some(upgrade) = &self.upgrade
            && upgrade.hold() == hold
        {
            self.deny_upgrade(now, Denial::Lost(LeaseLost::new(reason)), effects);
        }
        let Phase::Held(held) = &mut self.seats[hold.seat()] else { return };
        held.holds.change(hold, |holding| holding.state = super::holds::State::Dead);
        held.lease.end_for([hold.serial()], reason);
        effects.lose(std::sync::Arc::clone(&held.lease), LeaseLost::new(reason));
        self.thin_out(hold.seat(), now, effects);
    }

    /// A lease that nobody held is over.
    pub(super) fn drop_kept(
        &mut self,
        seat: usize,
        now: Instant,
        reason: LossReason,
        effects: &mut Effects<W>,
    ) {
        match std::mem::replace(&mut self.seats[seat], Phase::Idle) {
            Phase::Kept { held, .. } => {
                if reason != LossReason::Revoked {
                    effects.ops.push(Op::Forget(held.claim));
                }
                self.next_attempt(now, effects);
            }
            other => self.seats[seat] = other,
        }
    }
}
