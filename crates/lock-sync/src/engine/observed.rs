//! What observers hear of the acquisitions, the holds and the leases of one entry.
//!
//! Observers are foreign code: see [`foreign`](crate::foreign). So nothing here runs under the lock of an entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, Entered, HandOver,
    HandedOver, HoldBegun, HoldEnd, HoldEnded, Loss, Observers, RenewalLate,
};
use lock_core::{Clock, Instant, Key, Mode, observer};

use super::holds::HoldId;
use super::machine::{Denial, Fact, Ticket};

/// The observers of one entry, and what they have to know of it.
pub(super) struct Observed {
    observers: Observers,
    key: Key,
    clock: Clock,
    ttl: Duration,
    /// Tells the holds of this entry from those of other entries.
    number: u64,
}

impl Observed {
    /// `None` without observers.
    pub(super) fn new(
        observers: &Observers,
        key: &Key,
        clock: Clock,
        ttl: Duration,
    ) -> Option<Box<Self>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        (!observers.is_empty()).then(|| {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            Box::new(Self { observers: observers.clone(), key: key.clone(), clock, ttl, number })
        })
    }

    fn named(&self, hold: HoldId) -> observer::HoldId {
        observer::HoldId::new(self.number, hold.serial())
    }

    /// Tells of what the machine has found out at this instant.
    pub(super) fn tell(&self, fact: &Fact, now: Instant) {
        match fact {
            Fact::Lost { lease, loss, holds } => {
                let name = |serial: &u64| observer::HoldId::new(self.number, *serial);
                let holds: Vec<_> = holds.iter().map(name).collect();
                let end = lease.deadline();
                let left = end.saturating_duration_since(now);
                let since = now.saturating_duration_since(end);
                let event = Loss::new(&self.key, loss.reason(), &holds, left, since);
                self.observers.tell(|observer| observer.lease_lost(&event));
            }
            Fact::Late { late, left } => {
                let event = RenewalLate::new(&self.key, *late, *left);
                self.observers.tell(|observer| observer.renewal_late(&event));
            }
        }
    }
}

/// An acquisition of which observers have heard.
pub(super) struct Begun {
    id: AcquisitionId,
    at: Instant,
    mode: Mode,
    waits: bool,
}

impl Begun {
    /// A caller wants the lock.
    pub(super) fn new(observed: &Observed, mode: Mode) -> Self {
        let (id, at) = (AcquisitionId::draw(), observed.clock.now());
        let event = AcquireBegun::new(id, &observed.key, mode);
        observed.observers.tell(|observer| observer.acquire_begun(&event));
        Self { id, at, mode, waits: false }
    }

    /// The caller stands in line.
    pub(super) fn waits(&mut self, observed: &Observed) {
        if !std::mem::replace(&mut self.waits, true) {
            let event = AcquireWaits::new(self.id, &observed.key, self.mode);
            observed.observers.tell(|observer| observer.acquire_waits(&event));
        }
    }

    /// The caller has a hold.
    pub(super) fn granted(self, observed: &Observed, ticket: &Ticket) -> Told {
        let (since, hold) = (ticket.since, observed.named(ticket.hold));
        let told = Told { acquisition: Some(self.id), since, mode: self.mode };
        self.ends_with(observed, ticket, since);
        told.begins(observed, hold, ticket);
        told
    }

    /// The holder has its lock in a stronger mode.
    pub(super) fn upgraded(self, observed: &Observed, ticket: &Ticket) {
        self.ends_with(observed, ticket, ticket.since);
    }

    fn ends_with(self, observed: &Observed, ticket: &Ticket, now: Instant) {
        let (hold, entered) = (observed.named(ticket.hold), ticket.entered);
        self.ends(observed, AcquireEnd::Granted { hold, entered }, now);
        let kind = match entered {
            Entered::HandOff => HandOver::Local,
            Entered::Granted => HandOver::Received,
            _ => return,
        };
        let event = HandedOver::new(&observed.key, kind);
        observed.observers.tell(|observer| observer.handed_over(&event));
    }

    pub(super) fn denied(self, observed: &Observed, denial: &Denial) {
        let outcome = match denial {
            Denial::WouldBlock => AcquireEnd::Busy,
            Denial::Timeout(error) => AcquireEnd::Timeout(error.as_ref()),
            Denial::Closed => AcquireEnd::Closed,
            Denial::Failed(error) => AcquireEnd::Failed(error),
            Denial::Lost(lost) => AcquireEnd::Lost(lost.reason()),
        };
        self.ends(observed, outcome, observed.clock.now());
    }

    /// The caller has gone.
    pub(super) fn abandoned(self, observed: &Observed) {
        self.ends(observed, AcquireEnd::Abandoned, observed.clock.now());
    }

    fn ends(self, observed: &Observed, outcome: AcquireEnd<'_>, now: Instant) {
        let waited = now.saturating_duration_since(self.at);
        let event = AcquireEnded::new(self.id, &observed.key, self.mode, outcome, waited);
        observed.observers.tell(|observer| observer.acquire_ended(&event));
    }
}

/// A hold of which observers have heard.
pub(super) struct Told {
    acquisition: Option<AcquisitionId>,
    since: Instant,
    /// The mode in which the hold began.
    mode: Mode,
}

impl Told {
    /// A hold with this ticket, for a part of the permits of this one.
    pub(super) fn split(&self, observed: &Observed, ticket: &Ticket, part: u32) -> Self {
        let mode = match self.mode {
            Mode::Permits { of, .. } => Mode::Permits { take: part, of },
            other => other,
        };
        let told = Self { acquisition: None, since: observed.clock.now(), mode };
        told.begins(observed, observed.named(ticket.hold), ticket);
        told
    }

    fn begins(&self, observed: &Observed, hold: observer::HoldId, ticket: &Ticket) {
        let token = ticket.token;
        let event = HoldBegun::new(hold, self.acquisition, &observed.key, self.mode, token);
        observed.observers.tell(|observer| observer.hold_begun(&event));
    }

    /// The guard has gone at this instant.
    pub(super) fn ended(self, observed: &Observed, hold: HoldId, how: HoldEnd, now: Instant) {
        let held = now.saturating_duration_since(self.since);
        let (id, key) = (observed.named(hold), &observed.key);
        let (acquisition, ttl) = (self.acquisition, observed.ttl);
        let event = HoldEnded::new(id, acquisition, key, self.mode, how, held, ttl);
        observed.observers.tell(|observer| observer.hold_ended(&event));
    }
}
