//! How a hold becomes stronger or weaker.

use lock_core::Mode;

use super::store::Reply;
use super::{Sent, Upgrading, World};
use crate::engine::machine::Denial;
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
                let clear = self.is_clear();
                self.upgrading = Some(Upgrading { id, ticket, limit, clear });
                self.upgrade_woken = true;
            }
            Err(denial) => {
                self.check_denial(&denial, limit);
                self.holding.push((ticket, Mode::Upgradable));
            }
        }
    }

    /// Whether only earlier leases of this process could be in the way of an upgrade.
    fn is_clear(&self) -> bool {
        let asks = |sent: &Sent| {
            matches!(
                sent,
                Sent::Attempt(_) | Sent::Answered(Reply::Attempt(..)) | Sent::Withdraw(..)
            )
        };
        self.holding.is_empty()
            && self.readers.is_empty()
            && self.waiters.is_empty()
            && self.rivals.iter().all(|rival| rival.claim.is_none())
            && !self.sent.iter().any(asks)
            && !self.failed
    }

    /// Something may be in the way of the upgrade from now on.
    pub(super) fn trouble_upgrade(&mut self) {
        if let Some(upgrading) = &mut self.upgrading {
            upgrading.clear = false;
        }
    }

    pub(super) fn abandon_upgrade(&mut self) {
        if let Some(Upgrading { id, ticket, .. }) = self.upgrading.take() {
            self.machine.cancel(id, self.manner);
            self.machine.release(ticket.hold, self.manner);
        }
    }

    /// Polls the upgrade if it was woken.
    pub(super) fn poll_upgrade(&mut self) {
        if std::mem::take(&mut self.upgrade_woken)
            && let Some(upgrading) = self.upgrading.take()
        {
            let Upgrading { id, ticket, limit, clear } = upgrading;
            match self.machine.poll(id, &mut Some(UPGRADE)) {
                None => self.upgrading = Some(Upgrading { id, ticket, limit, clear }),
                Some(Ok(stronger)) => {
                    if stronger.lease.is_valid(self.now()) {
                        assert!(stronger.token.get() > ticket.token.get(), "an old token");
                    }
                    self.holding.push((stronger, Mode::Exclusive));
                }
                Some(Err(denial)) => {
                    let refused = matches!(denial, Denial::WouldBlock);
                    assert!(!refused || !clear, "nothing was in the way");
                    self.check_denial(&denial, limit);
                    self.holding.push((ticket, Mode::Upgradable));
                }
            }
        }
    }
}
