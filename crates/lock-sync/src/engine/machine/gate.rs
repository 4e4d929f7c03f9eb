//! The gate: readers that come and go while there is nothing to decide.
//!
//! The machine says when the gate may open. While it is open, readers come and go without the machine. Every call that
//! reaches the machine closes the gate before, and says how many readers are inside. So the machine sees no reader come
//! or go during an event.

use std::sync::Arc;

use lock_core::{FencingToken, Instant, Mode};

use super::leased::Leased;
use super::{Machine, Manner};
use crate::engine::holdings::HoldId;
use crate::engine::tokens::LOW_TOKENS;

/// An open gate: what the readers that come through the gate have to know.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Opening {
    /// The common name of the readers.
    pub(in super::super) hold: HoldId,
    pub(in super::super) token: FencingToken,
    /// How many readers are inside.
    pub(in super::super) inside: u32,
    /// From this instant on, readers do not come through the gate.
    pub(in super::super) until: Instant,
    /// Whether the machine needs no news when the last reader leaves: a later call looks after the lease.
    pub(in super::super) kept: bool,
    /// When this reader came.
    pub(in super::super) now: Instant,
}

impl<W> Machine<W> {
    /// One more reader comes, and the gate opens for the readers after it, if other readers or no holders use the only
    /// lease of this process and there is nothing else to decide. `armed` is the instant of the next tick.
    pub(in super::super) fn open(
        &mut self,
        now: Instant,
        manner: Manner,
        armed: Instant,
    ) -> Option<Opening> {
        let seat = self.only_seat()?;
        self.show_at_gate(seat, now);
        let leased = self.seats[seat].leased()?;
        let token = leased.group.filter(|_| self.may_open(leased, now, manner))?;
        let known = leased.holds.readers().filter(|(_, known)| *known == token);
        if known.is_none() && leased.holds.inside() > 0 {
            return None;
        }
        let closes = leased.passes_on_until(&self.policy);
        let (kept, until) = if leased.holds.live() > leased.holds.inside() {
            // The holders that did not come through the gate look after the lease when they leave.
            (true, closes)
        } else if self.lingers(leased, now, manner, armed).is_some() {
            (true, closes.min(leased.idles_until(self.policy.ttl)))
        } else {
            (false, closes)
        };
        (self.shared_at, self.manner) = (now, manner);
        self.holds += u64::from(known.is_none());
        let serial = known.map_or(self.holds, |(serial, _)| serial);
        let leased = self.seats[seat].live_mut()?;
        if known.is_none() {
            leased.holds.admit_readers(serial, token);
        }
        leased.holds.set_readers(leased.holds.inside() + 1);
        leased.serve();
        let (hold, inside) = (HoldId::of_gate(seat, serial), leased.holds.inside());
        Some(Opening { hold, token, inside, until, kept, now })
    }

    /// Makes the lease on the only seat use the validity that the gate shows, if that validity was in use when the
    /// lease was granted, and no holder refers to that validity or to the lease now.
    fn show_at_gate(&mut self, seat: usize, now: Instant) {
        let free = self.lease_is_free();
        let Some(leased) = self.seats[seat].leased_mut() else { return };
        if free && leased.is_idle() && leased.is_usable(now) {
            self.lease.restart(leased.lease.deadline());
            leased.lease = Arc::clone(&self.lease);
        }
    }

    /// Whether the validity that the gate shows is free: no holder refers to it, and no present lease uses it. Then
    /// only the gate and the machine refer to it.
    pub(super) fn lease_is_free(&self) -> bool {
        Arc::strong_count(&self.lease) == 2
    }

    fn may_open(&self, leased: &Leased, now: Instant, manner: Manner) -> bool {
        self.is_plain()
            && self.queue.is_empty()
            && leased.claim.mode == Mode::Shared
            && leased.change.is_none()
            && leased.is_shared_quietly(Mode::Shared)
            && Arc::ptr_eq(&leased.lease, &self.lease)
            && leased.stays(now, manner, &self.policy)
            && leased.may_go_on(now, manner, &self.policy)
    }

    /// The gate is closed. So many readers are inside, and the last that came in came at this instant.
    pub(in super::super) fn closed_gate(&mut self, inside: u32, last: Instant) {
        self.shared_at = self.shared_at.max(last);
        let (since, manner, ttl) = (self.shared_at, self.manner, self.policy.ttl);
        // No seat has changed since the gate opened.
        let Some(seat) = self.only_seat() else { return };
        if let Some(leased) = self.seats[seat].live_mut() {
            leased.holds.set_readers(inside);
            if leased.holds.is_empty() {
                leased.idle_until = since + leased.idles(since, manner, ttl);
            }
        }
    }

    /// Until when the lease stays without a holder, if its last reader leaves and there is nothing to decide before
    /// that instant. `armed` is the instant of the next tick.
    pub(super) fn lingers(
        &self,
        leased: &Leased,
        now: Instant,
        manner: Manner,
        armed: Instant,
    ) -> Option<Instant> {
        let until = now + leased.idles(now, manner, self.policy.ttl);
        let stays = until > now
            && armed <= until
            && leased.tokens.left() >= LOW_TOKENS
            && leased.turn.is_quiet()
            && self.may_idle(leased, now);
        stays.then_some(until)
    }
}
