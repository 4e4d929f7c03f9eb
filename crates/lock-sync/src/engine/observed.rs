//! What observers hear of the acquisitions, the holds and the leases of one entry.
//!
//! Observers are foreign code: see [`foreign`](crate::foreign). So nothing here runs under the lock of an entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, HoldBegun, HoldEnd,
    HoldEnded, Loss, Observers, RenewalLate,
};
use lock_core::{Clock, FencingToken, Instant, Key, Mode, observer};

use super::gate::Way;
use super::holdings::HoldId;
use super::machine::{Denial, Fact, Ticket};
use super::right::Right;
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

    /// A caller of whom observers have not heard had a hold at this instant.
    #[inline]
    pub(super) fn has_missed(&self, now: Instant) {
        self.sample.note_missed(now);
    }

    /// A caller of whom observers have not heard has got no hold.
    pub(super) fn has_missed_now(&self) {
        if self.sample.is_sparse() {
            self.sample.note_missed(now(self.clock));
        }
    }

    fn named(&self, hold: HoldId) -> observer::HoldId {
        observer::HoldId::new(self.number, hold.serial())
    }

    /// An acquisition has led to a hold by this way. `None` if observers have not heard of the acquisition.
    pub(super) fn grants(&self, begun: Option<Begun>, way: &Way) -> Option<Told> {
        // No reader comes through the gate if there are observers.
        let Way::Ticket(ticket) = way else { return None };
        if begun.is_none() {
            self.has_missed(ticket.since);
        }
        begun.map(|begun| begun.granted(self, ticket))
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

/// What observers have heard of an acquisition and its hold.
#[derive(Clone, Copy, Debug)]
struct Story {
    id: AcquisitionId,
    /// The mode in which the caller wants to hold the lock; then the mode in which the hold began.
    mode: Mode,
    /// When the acquisition began; then when the hold began.
    begun: Instant,
    waits: bool,
    stands_for: u32,
    /// The hold was split off the hold to which the acquisition has led.
    is_part: bool,
}

/// An acquisition of which observers have heard. In a box, so that futures stay small.
pub(super) struct Begun(Box<Story>);

impl Begun {
    /// A caller wants the lock. `None` if observers do not hear of that.
    #[inline]
    pub(super) fn new(observed: &Observed, mode: Mode) -> Option<Self> {
        let id = AcquisitionId::draw();
        let stands_for = observed.sample.draw(id)?;
        Some(Self::heard(observed, id, mode, stands_for))
    }

    // Apart from the way of the callers of which observers do not hear, as are all events.
    #[cold]
    fn heard(observed: &Observed, id: AcquisitionId, mode: Mode, stands_for: u32) -> Self {
        let event = AcquireBegun { id, key: &observed.key, mode, stands_for };
        observed.observers.tell(|observer| observer.acquire_begun(&event));
        let begun = now(observed.clock);
        observed.sample.note(stands_for, begun);
        let story = Story { id, mode, begun, waits: false, stands_for, is_part: false };
        Self(Box::new(story))
    }

    /// The caller stands in line.
    #[cold]
    pub(super) fn waits(&mut self, observed: &Observed) {
        let Story { id, mode, stands_for, .. } = *self.0;
        if !std::mem::replace(&mut self.0.waits, true) {
            let event = AcquireWaits { id, key: &observed.key, mode, stands_for };
            observed.observers.tell(|observer| observer.acquire_waits(&event));
        }
    }

    /// The caller has a hold.
    #[cold]
    fn granted(mut self, observed: &Observed, ticket: &Ticket) -> Told {
        let ended = self.ended(observed, observed.grant(ticket), ticket.since);
        observed.observers.tell(|observer| observer.acquire_ended(&ended));
        self.0.begun = ticket.since;
        let told = Told(*self.0);
        told.begins(observed, ticket.hold, ticket.token);
        told
    }

    /// The holder has its lock in the stronger mode.
    pub(super) fn upgraded(self, observed: &Observed, ticket: &Ticket) {
        self.ends(observed, observed.grant(ticket));
    }

    pub(super) fn denied(self, observed: &Observed, denial: &Denial) {
        let outcome = match denial {
            Denial::WouldBlock => AcquireEnd::Busy,
            Denial::Timeout(error) => AcquireEnd::Timeout(error.as_ref()),
            Denial::Closed => AcquireEnd::Closed,
            Denial::Failed(error) => AcquireEnd::Failed(error),
            Denial::Lost(lost) => AcquireEnd::Lost(lost.reason()),
        };
        self.ends(observed, outcome);
    }

    /// The caller has gone.
    pub(super) fn abandoned(self, observed: &Observed) {
        self.ends(observed, AcquireEnd::Abandoned);
    }

    fn ends(self, observed: &Observed, outcome: AcquireEnd<'_>) {
        let event = self.ended(observed, outcome, now(observed.clock));
        observed.observers.tell(|observer| observer.acquire_ended(&event));
    }

    fn ended<'a>(
        &self,
        observed: &'a Observed,
        outcome: AcquireEnd<'a>,
        now: Instant,
    ) -> AcquireEnded<'a> {
        let Story { id, mode, begun, stands_for, .. } = *self.0;
        let (key, waited) = (&observed.key, now.saturating_duration_since(begun));
        AcquireEnded { id, key, mode, outcome, waited, stands_for }
    }
}

/// A hold of which observers have heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told(Story);

impl Told {
    /// A hold with this right that was split off another one.
    pub(super) fn split(&self, observed: &Observed, right: &Right, part: u32) -> Self {
        let mode = match self.0.mode {
            Mode::Permits { of, .. } => Mode::Permits { take: part, of },
            other => other,
        };
        let begun = now(observed.clock);
        let told = Self(Story { mode, begun, is_part: true, ..self.0 });
        told.begins(observed, right.hold, right.token);
        told
    }

    fn acquisition(&self) -> Option<AcquisitionId> {
        (!self.0.is_part).then_some(self.0.id)
    }

    fn begins(&self, observed: &Observed, hold: HoldId, token: FencingToken) {
        let (acquisition, Story { mode, stands_for, .. }) = (self.acquisition(), self.0);
        let (id, key) = (observed.named(hold), &observed.key);
        let event = HoldBegun { id, acquisition, key, mode, token, stands_for };
        observed.observers.tell(|observer| observer.hold_begun(&event));
    }

    /// The guard has gone at this instant.
    #[cold]
    pub(super) fn ended(&self, observed: &Observed, hold: HoldId, how: HoldEnd, now: Instant) {
        let (acquisition, Story { mode, begun, stands_for, .. }) = (self.acquisition(), self.0);
        let (id, key, ttl) = (observed.named(hold), &observed.key, observed.ttl);
        let held = now.saturating_duration_since(begun);
        let event = HoldEnded { id, acquisition, key, mode, how, held, ttl, stands_for };
        observed.observers.tell(|observer| observer.hold_ended(&event));
    }
}
