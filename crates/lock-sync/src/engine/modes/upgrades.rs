//! How a hold becomes stronger or weaker.

use lock_core::Mode;

use super::World;
use crate::engine::tests::common::Limit;

/// The waker of the upgrade. The waker of every other waiter is the number of its arrival.
pub(super) const UPGRADE: u32 = u32::MAX;

impl World {
    pub(super) fn downgrade(&mut self, nth: usize, far: bool) {
        if self.holding.is_empty() {
            return;
        }
        let nth = nth % self.holding.len();
        let (ticket, mode) = &mut self.holding[nth];
        let to = match *mode {
            Mode::Exclusive if far || !self.converts => Mode::Shared,
            Mode::Exclusive => Mode::Upgradable,
            Mode::Upgradable => Mode::Shared,
            other => other,
        };
        // Only if this key has readers at all.
        if self.wants.contains(&to) && to != *mode {
            *mode = to;
            self.machine.downgrade(ticket.hold, to);
        }
    }

    pub(super) fn upgrade(&mut self, nth: usize, limit: Limit) {
        let able: Vec<_> = (0..self.holding.len())
            .filter(|nth| self.holding[*nth].1 == Mode::Upgradable)
            .collect();
        if self.upgrading.is_some() || able.is_empty() {
            return;
        }
        let (ticket, _) = self.holding.swap_remove(able[nth % able.len()]);
        let patience = limit.patience(self.now());
        match self.machine.begin_upgrade(ticket.hold, patience) {
            Ok(id) => {
                self.upgrading = Some((id, ticket, limit));
                self.upgrade_woken = true;
            }
            Err(denial) => {
                self.check_denial(&denial, limit);
                self.holding.push((ticket, Mode::Upgradable));
            }
        }
    }

    pub(super) fn abandon_upgrade(&mut self) {
        if let Some((id, ticket, _)) = self.upgrading.take() {
            self.machine.cancel(id, self.manner);
            self.machine.release(ticket.hold, self.manner);
        }
    }

    /// Polls the upgrade if it was woken.
    pub(super) fn poll_upgrade(&mut self) {
        if std::mem::take(&mut self.upgrade_woken)
            && let Some((id, ticket, limit)) = self.upgrading.take()
        {
            match self.machine.poll(id, &mut Some(UPGRADE)) {
                None => self.upgrading = Some((id, ticket, limit)),
                Some(Ok(stronger)) => {
                    if stronger.lease.is_valid(self.now()) {
                        assert!(stronger.token.get() > ticket.token.get(), "an old token");
                    }
                    self.holding.push((stronger, Mode::Exclusive));
                }
                Some(Err(denial)) => {
                    self.check_denial(&denial, limit);
                    self.holding.push((ticket, Mode::Upgradable));
                }
            }
        }
    }
}
