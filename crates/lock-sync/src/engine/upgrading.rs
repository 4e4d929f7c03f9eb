//! From an upgradable hold to an exclusive one.

use std::task::{Context, Poll, ready};

use super::queue::WaiterId;
use super::{Denial, Hold, Wait};

/// A wait for an upgrade that can be dropped at any point, which lets go of the lock.
pub(crate) struct Upgrading {
    /// Until it is done.
    hold: Option<Hold>,
    wait: Wait,
    /// Its place at the head of the line, once it has begun and until it is done.
    waiter: Option<WaiterId>,
}

impl Upgrading {
    pub(crate) fn new(hold: Hold, wait: Wait) -> Self {
        Self { hold: Some(hold), wait, waiter: None }
    }

    /// The exclusive hold; or the upgradable one that there was, and why.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, (Hold, Denial)>> {
        let Some(hold) = &self.hold else {
            panic!("an upgrade was polled after it had completed");
        };
        let entry = hold.entry();
        let waiter = match self.waiter {
            Some(waiter) => waiter,
            None => match begin(hold, self.wait) {
                Ok(waiter) => *self.waiter.insert(waiter),
                Err(denial) => {
                    let Some(hold) = self.hold.take() else { return Poll::Pending };
                    return Poll::Ready(Err((hold, denial)));
                }
            },
        };
        let outcome = ready!(entry.poll(waiter, context));
        self.waiter = None;
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

fn begin(hold: &Hold, wait: Wait) -> Result<WaiterId, Denial> {
    let entry = hold.entry();
    let patience = wait.begin(entry)?;
    entry.begin_upgrade(hold.id(), patience)
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        if let (Some(hold), Some(waiter)) = (&self.hold, self.waiter) {
            hold.entry().abandon_upgrade(waiter);
        }
    }
}
