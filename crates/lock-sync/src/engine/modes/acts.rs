//! The acts of the callers and of the driver.

use std::time::Duration;

use lock_core::{Claim, Mode, Ttl};

use super::upgrades::UPGRADE;
use super::{OF, Sent, Waiter, World};
use crate::engine::holdings::HoldId;
use crate::engine::machine::{Entrance, Op, Ticket};
use crate::engine::queue::Patience;
use crate::engine::tests::common::{Limit, TTL};

impl World {
    pub(super) fn enter(&mut self, want: Mode, limit: Limit) {
        let now = self.now();
        let patience = limit.patience(now);
        self.arrivals += 1;
        self.trouble_upgrade();
        let (arrival, began) = (self.arrivals, self.events);
        if self.open_gate(want) {
            return;
        }
        if let Some(ticket) = self.machine.share(want, now, self.manner) {
            return self.served(arrival, began, ticket, want);
        }
        let waits = match patience {
            Patience::Forever => self.machine.join(want, &mut Some(arrival)),
            _ => None,
        };
        let joined = waits.is_some();
        let entered = match waits {
            Some(id) => Entrance::Queued(id),
            None => {
                self.begin();
                self.machine.enter(want, patience, self.manner)
            }
        };
        let woken = !joined && !matches!(entered, Entrance::Done(_));
        self.woken.extend(woken.then_some(arrival));
        self.entered(arrival, (began, limit, want), entered);
    }

    fn entered(&mut self, arrival: u32, caller: (u64, Limit, Mode), entered: Entrance) {
        let (began, limit, want) = caller;
        match entered {
            Entrance::Done(Ok(ticket)) => self.served(arrival, began, ticket, want),
            Entrance::Done(Err(denial)) => self.check_denial(&denial, limit),
            Entrance::Queued(id) => {
                self.waiters.insert(arrival, Waiter { id, began, limit, want });
            }
            Entrance::Attempt(id, request) => {
                self.waiters.insert(arrival, Waiter { id, began, limit, want });
                self.note(&request.claim);
                self.sent.push(Sent::Attempt(request));
            }
        }
    }

    /// The lease was over before the task began its hold.
    fn enter_again(&mut self, (limit, want): (Limit, Mode), hold: HoldId) {
        self.begin();
        self.trouble_upgrade();
        self.arrivals += 1;
        let (arrival, patience) = (self.arrivals, limit.patience(self.now()));
        self.machine.release(hold, self.manner);
        self.machine.settle();
        let entered = self.machine.enter(want, patience, self.manner);
        self.woken.extend((!matches!(entered, Entrance::Done(_))).then_some(arrival));
        self.entered(arrival, (self.events, limit, want), entered);
    }

    pub(super) fn cancel(&mut self, nth: usize) {
        let chosen = self.waiters.keys().nth(nth % self.waiters.len().max(1)).copied();
        if let Some(arrival) = chosen {
            let waiter = self.waiters.remove(&arrival).unwrap();
            self.machine.cancel(waiter.id, self.manner);
        }
    }

    pub(super) fn release(&mut self, nth: usize) {
        if self.leaves_by_gate(nth) {
            self.leave_closed_gate(nth);
        } else if !self.holding.is_empty() {
            let (ticket, _) = self.holding.swap_remove(nth % self.holding.len());
            self.leave(ticket.hold);
        }
    }

    pub(super) fn leave(&mut self, hold: HoldId) {
        if !self.leave_shortly(hold) {
            self.begin();
            self.machine.release(hold, self.manner);
        }
    }

    /// The short ways out.
    fn leave_shortly(&mut self, hold: HoldId) -> bool {
        let (armed, now) = (self.armed(), self.now());
        if self.machine.unshare(hold, self.manner, armed) {
            return true;
        }
        let open = self.machine.may_pass_on(hold, now, self.manner);
        let passed = self.machine.pass_on(hold, &mut None, || now, self.manner);
        assert!(open || passed.is_none(), "passed on although the short way is closed");
        passed.map(|waker| self.woken.extend(waker)).is_some()
    }

    pub(super) fn split(&mut self, nth: usize) {
        if self.holding.is_empty() {
            return;
        }
        let nth = nth % self.holding.len();
        let (ticket, mode) = &mut self.holding[nth];
        if let Mode::Permits { take, of } = *mode
            && let Some(hold) = self.machine.split(ticket.hold, 1)
        {
            *mode = Mode::Permits { take: take - 1, of };
            let part = Ticket { hold, lease: ticket.lease.clone(), ..*ticket };
            self.holding.push((part, Mode::Permits { take: 1, of }));
        }
    }

    pub(super) fn extend(&mut self, nth: usize, millis: u64) {
        let ttl = Ttl::new(Duration::from_millis(millis)).unwrap();
        match nth.checked_rem(self.holding.len()) {
            Some(nth) => drop(self.machine.extend(self.holding[nth].0.hold, ttl)),
            None => self.extend_reader(ttl),
        }
    }

    pub(super) fn forget(&mut self, nth: usize) {
        if self.holding.is_empty() {
            return;
        }
        let nth = nth % self.holding.len();
        if let (_, Mode::Permits { take, .. }) = self.holding[nth]
            && self.forgotten + take < OF
        {
            let (ticket, _) = self.holding.swap_remove(nth);
            self.forgotten += take;
            self.machine.forget(ticket.hold, self.manner);
        }
    }

    pub(super) fn take_release(&mut self) {
        if std::mem::take(&mut self.release_asked) {
            while let Some(ending) = self.machine.begin_release() {
                let owner = ending.claim.owner;
                self.end_of(owner);
                ending.next.iter().for_each(|next| self.note(&next.claim));
                self.history.releases.push((owner, self.now() + TTL));
                self.sent.push(Sent::Release(ending));
            }
        }
    }

    pub(super) fn carry_out(&mut self) {
        self.machine.settle();
        let mut pass = self.machine.end();
        for op in pass.requests() {
            match op {
                Op::Attempt(request) => {
                    self.note(&request.claim);
                    self.sent.push(Sent::Attempt(request));
                }
                Op::Convert(request, _) => self.sent.push(Sent::Convert(request)),
                Op::Renew(request, _) => {
                    let sent = self.now();
                    self.sent.push(Sent::Renew(request, sent));
                }
                Op::Withdraw(claim, other) => self.sent.push(Sent::Withdraw(claim, other)),
                Op::Watch => self.watch_asked = true,
                Op::Unwatch => {
                    self.watch_asked = false;
                    self.watch = None;
                    self.messages.clear();
                }
            }
        }
        self.release_asked |= self.machine.due_release().is_some();
        let woken = std::cell::RefCell::new(Vec::new());
        pass.wake_all(|waker| woken.borrow_mut().push(waker), |_, _| {});
        for arrival in woken.into_inner() {
            if arrival == UPGRADE {
                self.upgrade_woken = true;
            } else {
                self.woken.insert(arrival);
            }
        }
    }

    /// Polls only the waiters that were woken. A lost wake-up therefore leaves a waiter behind for ever.
    pub(super) fn poll_woken(&mut self) {
        for arrival in std::mem::take(&mut self.woken) {
            let Some(waiter) = self.waiters.get(&arrival) else { continue };
            let Some(outcome) = self.machine.poll(waiter.id, &mut Some(arrival)) else { continue };
            let Some(Waiter { began, limit, want, .. }) = self.waiters.remove(&arrival) else {
                continue;
            };
            match outcome {
                // The task slept past the end of the lease, or the driver was late.
                Ok(ticket) if !ticket.lease.is_valid(self.now()) => {
                    self.enter_again((limit, want), ticket.hold);
                }
                Ok(ticket) => self.served(arrival, began, ticket, want),
                Err(denial) => self.check_denial(&denial, limit),
            }
        }
        self.poll_upgrade();
    }

    /// Notes that the store is asked for a lease of this owner.
    fn note(&mut self, claim: &Claim) {
        if !self.history.asked.iter().any(|(owner, _)| *owner == claim.owner) {
            self.history.asked.push((claim.owner, self.events));
        }
    }
}
