//! What observers hear of the acquisitions, the holds and the leases of one entry.
//!
//! Observers are foreign code: see [`foreign`](crate::foreign). So nothing here runs under the lock of an entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, HoldBegun, HoldEnd,
    HoldEnded, Loss, Observers, RenewalLate,
};
use lock_core::{Clock, Instant, Key, Mode, observer};

use super::holds::HoldId;
use super::machine::{Denial, Fact, Ticket};
use super::sample::Sample;
use super::shared::{Keyed, Shared};
use crate::sync::now;

/// The observers of one entry, and what they have to know of it.
pub(super) struct Observed {
    observers: Observers,
    /// The acquisitions of which they hear. They hear of all other facts.
    sample: Sample,
    key: Key,
    clock: Clock,
    ttl: Duration,
    /// Tells the holds of this entry from those of other entries.
    number: u64,
}

impl Observed {
    /// `None` without observers.
    pub(super) fn new<E: Keyed>(shared: &Shared<E>, key: &Key, ttl: Duration) -> Option<Box<Self>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let (observers, clock) = (&shared.observers, shared.clock);
        (!observers.is_empty()).then(|| {
            let (observers, key) = (observers.clone(), key.clone());
            let sample = Sample::new(shared.sampling);
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            Box::new(Self { observers, sample, key, clock, ttl, number })
        })
    }

    fn named(&self, hold: HoldId) -> observer::HoldId {
        observer::HoldId::new(self.number, hold.serial())
    }

    fn grant(&self, ticket: &Ticket) -> AcquireEnd<'static> {
        AcquireEnd::Granted { hold: self.named(ticket.hold), entered: ticket.entered }
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
                let event =
                    Loss { key: &self.key, reason: loss.reason(), holds: &holds, left, since };
                self.observers.tell(|observer| observer.lease_lost(&event));
            }
            Fact::Late { late, left } => {
                let event = RenewalLate { key: &self.key, late: *late, left: *left };
                self.observers.tell(|observer| observer.renewal_late(&event));
            }
        }
    }
}

/// An acquisition of which observers have heard.
pub(super) struct Begun {
    id: AcquisitionId,
    at: Instant,
    waits: bool,
    stands_for: u32,
}

impl Begun {
    /// A caller wants the lock. `None` if observers do not hear of that.
    pub(super) fn new(observed: &Observed, mode: Mode) -> Option<Self> {
        let (id, key) = (AcquisitionId::draw(), &observed.key);
        let stands_for = observed.sample.draw(id)?;
        let event = AcquireBegun { id, key, mode, stands_for };
        observed.observers.tell(|observer| observer.acquire_begun(&event));
        let at = now(observed.clock);
        observed.sample.begins(stands_for, at);
        Some(Self { id, at, waits: false, stands_for })
    }

    /// The caller stands in line.
    pub(super) fn waits(&mut self, observed: &Observed, mode: Mode) {
        if !std::mem::replace(&mut self.waits, true) {
            let Self { id, stands_for, .. } = *self;
            let event = AcquireWaits { id, key: &observed.key, mode, stands_for };
            observed.observers.tell(|observer| observer.acquire_waits(&event));
        }
    }

    /// The caller has a hold.
    pub(super) fn granted(self, observed: &Observed, mode: Mode, ticket: &Ticket) -> Told {
        let told = Told::new(Some(self.id), mode, self.stands_for);
        let ended = self.ended(observed, mode, observed.grant(ticket), ticket.since);
        let begun = told.begun(observed, ticket);
        observed.observers.tell(|observer| observer.acquire_ended(&ended));
        observed.observers.tell(|observer| observer.hold_begun(&begun));
        told
    }

    /// The holder has its lock in this stronger mode.
    pub(super) fn upgraded(self, observed: &Observed, mode: Mode, ticket: &Ticket) {
        // The ticket says since when the hold exists, which is older than the upgrade.
        let event = self.ended(observed, mode, observed.grant(ticket), now(observed.clock));
        observed.observers.tell(|observer| observer.acquire_ended(&event));
    }

    pub(super) fn denied(self, observed: &Observed, mode: Mode, denial: &Denial) {
        let outcome = match denial {
            Denial::WouldBlock => AcquireEnd::Busy,
            Denial::Timeout(error) => AcquireEnd::Timeout(error.as_ref()),
            Denial::Closed => AcquireEnd::Closed,
            Denial::Failed(error) => AcquireEnd::Failed(error),
            Denial::Lost(lost) => AcquireEnd::Lost(lost.reason()),
        };
        self.fails(observed, mode, outcome);
    }

    /// The caller has gone.
    pub(super) fn abandoned(self, observed: &Observed, mode: Mode) {
        self.fails(observed, mode, AcquireEnd::Abandoned);
    }

    fn fails(self, observed: &Observed, mode: Mode, outcome: AcquireEnd<'_>) {
        let event = self.ended(observed, mode, outcome, now(observed.clock));
        observed.observers.tell(|observer| observer.acquire_ended(&event));
    }

    fn ended<'a>(
        &self,
        observed: &'a Observed,
        mode: Mode,
        outcome: AcquireEnd<'a>,
        now: Instant,
    ) -> AcquireEnded<'a> {
        let (waited, stands_for) = (now.saturating_duration_since(self.at), self.stands_for);
        AcquireEnded { id: self.id, key: &observed.key, mode, outcome, waited, stands_for }
    }
}

/// A hold of which observers have heard. The ticket of the hold knows the rest.
pub(super) enum Told {
    /// The most frequent hold, without an allocation: its acquisition, and how many it stands for.
    Exclusive(AcquisitionId, u32),
    /// In a box: without observers a hold stays small.
    Other(Box<Other>),
}

/// A hold that may be shared, counted, joint or split off.
pub(super) struct Other {
    acquisition: Option<AcquisitionId>,
    /// The mode in which the hold began.
    mode: Mode,
    stands_for: u32,
}

impl Told {
    fn new(acquisition: Option<AcquisitionId>, mode: Mode, stands_for: u32) -> Self {
        match (acquisition, mode) {
            (Some(id), Mode::Exclusive) => Self::Exclusive(id, stands_for),
            _ => Self::Other(Box::new(Other { acquisition, mode, stands_for })),
        }
    }

    /// The acquisition that led to the hold, the mode in which the hold began, and how many holds it stands for.
    fn beginning(&self) -> (Option<AcquisitionId>, Mode, u32) {
        match self {
            Self::Exclusive(id, stands_for) => (Some(*id), Mode::Exclusive, *stands_for),
            Self::Other(other) => (other.acquisition, other.mode, other.stands_for),
        }
    }

    /// A hold with this ticket that was split off another one.
    pub(super) fn split(&self, observed: &Observed, ticket: &mut Ticket, part: u32) -> Self {
        let (_, mode, stands_for) = self.beginning();
        let mode = match mode {
            Mode::Permits { of, .. } => Mode::Permits { take: part, of },
            other => other,
        };
        ticket.since = now(observed.clock);
        let told = Self::new(None, mode, stands_for);
        let event = told.begun(observed, ticket);
        observed.observers.tell(|observer| observer.hold_begun(&event));
        told
    }

    fn begun<'a>(&self, observed: &'a Observed, ticket: &Ticket) -> HoldBegun<'a> {
        let (acquisition, mode, stands_for) = self.beginning();
        let (id, token) = (observed.named(ticket.hold), ticket.token);
        HoldBegun { id, acquisition, key: &observed.key, mode, token, stands_for }
    }

    /// The guard has gone at this instant.
    pub(super) fn ended(&self, observed: &Observed, ticket: &Ticket, how: HoldEnd, now: Instant) {
        let (acquisition, mode, stands_for) = self.beginning();
        let (id, key, ttl) = (observed.named(ticket.hold), &observed.key, observed.ttl);
        let held = now.saturating_duration_since(ticket.since);
        let event = HoldEnded { id, acquisition, key, mode, how, held, ttl, stands_for };
        observed.observers.tell(|observer| observer.hold_ended(&event));
    }
}
