//! The way from an upgradable hold to an exclusive one.

use std::task::{Context, Poll, ready};

use lock_core::Mode;

use super::observed::Begun;
use super::queue::WaiterId;
use super::{Asks, Denial, Hold, Ticket, Wait};

/// A wait for an upgrade. It can be dropped at any point, and then its hold is dropped too.
pub(crate) struct Upgrading {
    /// The hold to upgrade; `None` once the upgrade has an outcome.
    hold: Option<Hold>,
    wait: Wait,
    /// The waiter beside the line, from the first poll until the outcome.
    waiter: Option<WaiterId>,
    /// From the first poll until the outcome, if there are observers.
    begun: Option<Begun>,
}

impl Upgrading {
    pub(crate) fn new(hold: Hold, wait: Wait) -> Self {
        Self { hold: Some(hold), wait, waiter: None, begun: None }
    }

    /// The exclusive hold, or the unchanged upgradable hold with the reason of the denial.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Hold, (Hold, Denial)>> {
        self.begin();
        let polled = self.poll_plainly(context);
        self.tell(&polled);
        let outcome = ready!(polled);
        let Some(mut hold) = self.hold.take() else { return Poll::Pending };
        Poll::Ready(match outcome {
            Ok(ticket) => {
                hold.become_exclusive(ticket);
                Ok(hold)
            }
            Err(denial) => Err((hold, denial)),
        })
    }

    /// Tells the observers of the first poll.
    fn begin(&mut self) {
        if let (Some(hold), None, None) = (&self.hold, self.waiter, &self.begun)
            && let Some(observed) = &hold.entry().observed
        {
            self.begun = Begun::new(observed, Mode::Exclusive);
        }
    }

    /// Tells the observers what has become of a poll.
    fn tell(&mut self, polled: &Poll<Result<Ticket, Denial>>) {
        let Some(mut begun) = self.begun.take() else { return };
        let observed = self.hold.as_ref().and_then(|hold| hold.entry().observed.as_deref());
        let Some(observed) = observed else { return };
        match polled {
            Poll::Pending => {
                begun.waits(observed);
                self.begun = Some(begun);
            }
            Poll::Ready(Ok(ticket)) => begun.upgraded(observed, ticket),
            Poll::Ready(Err(denial)) => begun.denied(observed, denial),
        }
    }

    /// The outcome of the waiter, without the observers.
    fn poll_plainly(&mut self, context: &mut Context<'_>) -> Poll<Result<Ticket, Denial>> {
        let Some(hold) = &self.hold else {
            panic!("an upgrade was polled after it had completed");
        };
        let entry = hold.entry();
        let waiter = match self.waiter {
            Some(waiter) => waiter,
            None => match begin(hold, self.wait) {
                Ok(waiter) => *self.waiter.insert(waiter),
                Err(denial) => return Poll::Ready(Err(denial)),
            },
        };
        let outcome = ready!(entry.poll(waiter, context));
        self.waiter = None;
        Poll::Ready(outcome)
    }
}

fn begin(hold: &Hold, wait: Wait) -> Result<WaiterId, Denial> {
    let entry = hold.entry();
    let patience = entry.shared.begin(wait)?;
    entry.event(|machine| machine.begin_upgrade(hold.id(), patience))
}

impl Drop for Upgrading {
    fn drop(&mut self) {
        if let (Some(hold), Some(waiter)) = (&self.hold, self.waiter) {
            hold.entry().cancel(waiter, hold.entry().shared.manner);
        }
        if let (Some(hold), Some(begun)) = (&self.hold, self.begun.take())
            && let Some(observed) = &hold.entry().observed
        {
            begun.abandoned(observed);
        }
    }
}
