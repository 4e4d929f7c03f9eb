//! The acts of the callers and of the driver.

use std::time::Duration;

use lock_core::{Acquire, Mode};

use super::World;
use super::common::{Limit, TTL};
use crate::engine::holdings::HoldId;
use crate::engine::machine::{Denial, Ending, Entrance, Op};
use crate::engine::queue::Patience;

impl World {
    pub(super) fn enter(&mut self, limit: Limit) {
        let patience = limit.patience(self.now);
        self.arrivals += 1;
        let arrival = self.arrivals;
        if matches!(limit, Limit::Try) && self.releasing.is_some() && self.waiters.is_empty() {
            self.tries.insert(arrival, self.refusals);
        }
        let joined = match patience {
            Patience::Forever => self.machine.join(Mode::Exclusive, &mut Some(arrival)),
            _ => None,
        };
        if let Some(id) = joined {
            self.waiters.insert(arrival, (id, limit));
            return;
        }
        self.begin();
        let entered = self.machine.enter(Mode::Exclusive, patience, self.manner);
        self.carry_out();
        self.entered(arrival, limit, entered);
    }

    fn entered(&mut self, arrival: u32, limit: Limit, entered: Entrance) {
        match entered {
            Entrance::Done(Ok(ticket)) => self.served(arrival, ticket),
            Entrance::Done(Err(Denial::WouldBlock)) => self.check_busy(arrival, limit),
            Entrance::Done(Err(Denial::Closed)) => assert!(self.closed),
            Entrance::Done(Err(denial)) => panic!("{denial:?} at once"),
            Entrance::Queued(id) => {
                self.waiters.insert(arrival, (id, limit));
                self.woken.insert(arrival);
            }
            Entrance::Attempt(id, request) => {
                self.waiters.insert(arrival, (id, limit));
                self.woken.insert(arrival);
                self.ask(request);
            }
        }
    }

    pub(super) fn cancel(&mut self, nth: usize) {
        let chosen = self.waiters.iter().nth(nth % self.waiters.len().max(1));
        if let Some((&arrival, &(id, _))) = chosen {
            self.waiters.remove(&arrival);
            self.woken.remove(&arrival);
            self.machine.cancel(id, self.manner);
        }
    }

    pub(super) fn release(&mut self) {
        if let Some(ticket) = self.holding.take() {
            let before = (self.machine.owner(), self.machine.contention());
            match self.pass_on(ticket.hold) {
                Some(waker) => self.woken.extend(waker),
                None => {
                    self.begin();
                    self.machine.release(ticket.hold, self.manner);
                    self.machine.settle();
                }
            }
            self.check_budget(before);
        }
    }

    /// The lease was over before the task began its hold.
    fn enter_again(&mut self, limit: Limit, hold: HoldId) {
        self.begin();
        self.arrivals += 1;
        let (arrival, patience) = (self.arrivals, limit.patience(self.now));
        self.machine.release(hold, self.manner);
        self.machine.settle();
        let entered = self.machine.enter(Mode::Exclusive, patience, self.manner);
        self.carry_out();
        self.entered(arrival, limit, entered);
    }

    fn pass_on(&mut self, hold: HoldId) -> Option<Option<u32>> {
        let open = self.machine.may_pass_on(hold, self.now, self.manner);
        let passed = self.machine.pass_on(hold, &mut None, || self.now, self.manner);
        assert!(open || passed.is_none(), "passed on although the short way is closed");
        passed
    }

    /// The driver sleeps until the machine's deadline, and no longer.
    pub(super) fn advance(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        self.begin();
        self.machine.tick();
    }

    pub(super) fn take_release(&mut self) {
        if std::mem::take(&mut self.release_asked)
            && let Some(Ending { claim, next, forget: false, .. }) = self.machine.begin_release()
        {
            let other = self.releasing.replace((claim, next.map(|next| *next)));
            assert!(other.is_none(), "two releases under way");
            self.released_at = self.now;
        }
    }

    /// An answer is late once the length of a lease has passed since the release was sent.
    fn give_up_release(&mut self) {
        if self.now >= self.released_at + TTL {
            self.late.extend(self.releasing.take());
        }
    }

    pub(super) fn ask(&mut self, request: Acquire) {
        assert!(self.attempt.replace(request).is_none(), "two requests under way");
        assert!(self.releasing.is_none(), "a request beside a release");
        // From here on the answer counts.
        self.next = None;
    }

    pub(super) fn carry_out(&mut self) {
        self.machine.settle();
        self.give_up_release();
        let mut pass = self.machine.end();
        for op in pass.requests() {
            match op {
                Op::Attempt(request) => self.ask(request),
                Op::Renew(request, _) => self.renewals.push((request, self.now)),
                Op::Convert(..) => panic!("there is nothing weaker"),
                Op::Withdraw(claim, _) => {
                    let releasing = self.releasing.as_ref().map(|(releasing, _)| releasing);
                    assert_ne!(
                        releasing,
                        Some(&claim),
                        "two releases of one claim could overtake each other"
                    );
                    self.withdrawing.push(claim);
                }
                Op::Watch => self.watching = true,
                Op::Unwatch => {
                    self.watching = false;
                    self.unsubscribe();
                }
            }
        }
        self.release_asked |= self.machine.due_release().is_some();
        let woken = std::cell::RefCell::new(Vec::new());
        pass.wake_all(|waker| woken.borrow_mut().push(waker), |_, _| {});
        self.woken.extend(woken.into_inner());
    }

    /// Polls only the waiters that were woken. A lost wake-up therefore leaves a waiter behind for ever.
    pub(super) fn poll_woken(&mut self) {
        for arrival in std::mem::take(&mut self.woken) {
            let Some(&(id, limit)) = self.waiters.get(&arrival) else { continue };
            let Some(outcome) = self.machine.poll(id, &mut Some(arrival)) else { continue };
            self.waiters.remove(&arrival);
            match outcome {
                // The task slept past the end of the lease, or the driver was late.
                Ok(ticket) if !ticket.lease.is_valid(self.now) => {
                    self.last_served = arrival;
                    self.enter_again(limit, ticket.hold);
                }
                Ok(ticket) => self.served(arrival, ticket),
                Err(Denial::WouldBlock) => self.check_busy(arrival, limit),
                Err(Denial::Timeout(_)) => assert!(matches!(limit, Limit::Millis(_))),
                Err(Denial::Closed) => assert!(self.closed),
                Err(Denial::Failed(_)) => {}
                Err(Denial::Lost(_)) => panic!("nothing is shared"),
            }
        }
    }
}
