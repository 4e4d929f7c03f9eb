//! A pass: the time of one event, and the work that the event asks of the shell.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Claim, Convert, Error, Instant, Mode, Renew};

use super::super::validity::Validity;
use crate::error::LeaseLost;

/// A request to the store. The shell reports the answer of each, except of `Withdraw` and `Unwatch`.
#[derive(Clone, Debug)]
pub(in super::super) enum Op {
    /// Ask for a lease.
    Attempt(Acquire),
    /// Renew a lease, with a limit for the answer.
    Renew(Renew, Duration),
    /// Convert a lease to another mode, with a limit for the answer.
    Convert(Convert, Duration),
    /// Release a claim that no longer matters to the machine, and that may have the other mode.
    Withdraw(Claim, Option<Mode>),
    Watch,
    Unwatch,
}

/// Something that the machine has found out, and that asks for nothing.
#[derive(Debug)]
pub(in super::super) enum Fact {
    /// These holds have lost the lease.
    Lost { lease: Arc<Validity>, loss: LeaseLost, holds: Vec<u64> },
    /// A renewal leaves late, for a lease that lasts for this long.
    Late { late: Duration, left: Duration },
}

/// When a machine has something to do, if no event comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    pub(crate) at: Instant,
    /// The deadline is for a renewal, or for a request that only keeps a place in the store's queue. Both may come
    /// earlier, by the [window](crate::engine::timing::renewal_window).
    pub(crate) flexible: bool,
}

/// The time of an event, and the work that the event asks for. The shell does the work after it has unlocked the
/// machine.
///
/// Wakers and errors that the machine no longer needs come out here as well: their drop is foreign code, which may want
/// the lock.
#[derive(Debug)]
pub(in super::super) struct Pass<W> {
    pub(in super::super) now: Instant,
    /// The waker to be woken last. Most passes wake no other, and so allocate nothing.
    wake: Option<W>,
    more: Vec<W>,
    /// The wakers to be dropped: their waiters have left.
    pub(in super::super) dropped: Vec<W>,
    /// The errors to be dropped.
    pub(in super::super) errors: Vec<Arc<Error>>,
    pub(super) facts: Vec<Fact>,
    /// The request for a lease, which the caller may send itself. Most passes ask for nothing else, and so allocate
    /// nothing.
    pub(super) attempt: Option<Acquire>,
    pub(super) ops: Vec<Op>,
}

impl<W> Pass<W> {
    pub(in super::super) fn at(now: Instant) -> Self {
        let (more, dropped, errors) = (Vec::new(), Vec::new(), Vec::new());
        let (facts, ops) = (Vec::new(), Vec::new());
        Self { now, wake: None, more, dropped, errors, facts, attempt: None, ops }
    }

    pub(in super::super) fn wake(&mut self, waker: Option<W>) {
        if waker.is_some() {
            self.more.extend(std::mem::replace(&mut self.wake, waker));
        }
    }

    /// Asks for a lease.
    pub(super) fn attempt(&mut self, request: Acquire) {
        self.ops.extend(self.attempt.replace(request).map(Op::Attempt));
    }

    /// Takes all requests.
    pub(in super::super) fn requests(&mut self) -> impl Iterator<Item = Op> {
        self.attempt.take().map(Op::Attempt).into_iter().chain(std::mem::take(&mut self.ops))
    }

    /// Announces losses and reports facts, then wakes waiters.
    pub(in super::super) fn wake_all(&mut self, wake: impl Fn(W), report: impl Fn(&Fact, Instant)) {
        for fact in self.facts.drain(..) {
            if let Fact::Lost { lease, .. } = &fact {
                lease.announce();
            }
            report(&fact, self.now);
        }
        self.more.drain(..).chain(self.wake.take()).for_each(wake);
    }
}
