//! How a hold becomes stronger or weaker.

use lock_core::Mode;

use super::World;
use crate::engine::machine::Pass;
use crate::engine::tests::common::Limit;

/// The waker of the upgrade. Those of the waiters are the numbers of their arrivals.
pub(super) const UPGRADE: u32 = u32::MAX;

impl World {
    pub(super) fn downgrade(&mut self, nth: usize, far: bool, pass: &mut Pass<u32>) {
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
        // Only where this key knows readers at all.
        if self.wants.contains(&to) && to != *mode {
            *mode = to;
            self.machine.downgrade(ticket.hold, to, pass);
        }
    }

    pub(super) fn upgrade(&mut self, nth: usize, limit: Limit, pass: &mut Pass<u32>) {
        let able: Vec<_> = (0..self.holding.len())
            .filter(|nth| self.holding[*nth].1 == Mode::Upgradable)
            .collect();
        if self.upgrading.is_some() || able.is_empty() {
            return;
        }
        let (ticket, _) = self.holding.swap_remove(able[nth % able.len()]);
        let patience = limit.patience(pass.now);
        match self.machine.begin_upgrade(ticket.hold, patience, pass) {
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

    pub(super) fn abandon_upgrade(&mut self, pass: &mut Pass<u32>) {
        if let Some((id, ticket, _)) = self.upgrading.take() {
            self.machine.abandon_upgrade(id, pass);
            self.machine.release(ticket.hold, self.manner, pass);
        }
    }

    /// Looks at the upgrade if it was woken.
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
