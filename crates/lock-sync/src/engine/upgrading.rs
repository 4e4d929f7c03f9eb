//! From an upgradable hold to an exclusive one.

use std::task::{Context, Poll, ready};

use super::{Denial, Hold, Patience, Wait};

/// A wait for an upgrade that can be dropped at any point, which lets go of the lock.
pub(crate) struct Upgrading {
    /// Until it is done.
    hold: Option<Hold>,
    wait: Wait,
    begun: bool,
}

impl Upgrading {
    pub(crate) fn new(hold: Hold, wait: Wait) -> Self {
        Self { hold: Some(hold), wait, begun: false }
    }

    /// The exclusive hold; or the upgradable one that there was, and why.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, (Hold, Denial)>> {
        let Some(hold) = &self.hold else {
            panic!("an upgrade was polled after it had completed");
        };
        let entry = hold.entry();
        if !std::mem::replace(&mut self.begun, true) {
            let patience = match self.wait {
                Wait::Try => Patience::Try,
                Wait::AtMost(limit) => Patience::Until(entry.shared.clock.now() + limit),
                Wait::Forever => Patience::Forever,
            };
            if let Err(denial) = entry.begin_upgrade(hold.id(), patience) {
                let Some(hold) = self.hold.take() else { return Poll::Pending };
                return Poll::Ready(Err((hold, denial)));
            }
        }
        let outcome = ready!(entry.poll_upgrade(hold.id(), context));
        let Some(mut hold) = self.hold.take() else { return Poll::Pending };
        Poll::Ready(match outcome {
            Ok(ticket) => {
                hold.become_exclusive(ticket);
                Ok(hold)
            }
            Err(denial) => Err((hold, denial)),
        })
    }
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        if let (Some(hold), true) = (&self.hold, self.begun) {
            hold.entry().abandon_upgrade(hold.id());
        }
    }
}
