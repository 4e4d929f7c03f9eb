//! The holds on one lease.

use lock_core::{FencingToken, Instant, Mode};
use slab::Slab;

/// The name of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId {
    /// The seat of the lease that the hold is on.
    seat: u32,
    slot: u32,
    serial: u64,
}

impl HoldId {
    /// A number that no other hold on the key has. The lease notes under it that this hold lost the lease.
    pub(crate) fn serial(self) -> u64 {
        self.serial
    }

    pub(super) fn seat(self) -> usize {
        self.seat as usize
    }

    /// A name that no hold has, for a hold that is already over.
    pub(crate) fn gone(self) -> Self {
        Self { serial: 0, ..self }
    }

    /// The common name of the readers that came through the gate to the lease on this seat.
    pub(super) fn of_gate(seat: usize, serial: u64) -> Self {
        Self { seat: seat as u32, slot: GATE, serial }
    }

    fn is_of_gate(self) -> bool {
        self.slot == GATE
    }
}

/// The slot of all readers that came through the gate.
const GATE: u32 = u32::MAX;

/// One hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    serial: u64,
    pub(super) mode: Mode,
    pub(super) token: FencingToken,
    /// The end of the maximum hold.
    pub(super) until: Instant,
    pub(super) state: State,
}

impl Holding {
    pub(super) fn is_live(&self) -> bool {
        self.state == State::Live
    }

    /// Another hold takes the place of this one, whose name is `id`. It has the same mode and the same limit.
    #[inline]
    pub(super) fn pass_on(&mut self, id: HoldId, serial: u64, token: FencingToken) -> HoldId {
        (self.serial, self.token) = (serial, token);
        HoldId { serial, ..id }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// The hold has lost the lease, but its guard lives on and still gives access to the data.
    Dead,
    /// The guard has gone, and its permits must not come back.
    Forgotten,
}

/// The holds on one lease. Slots are reused, so that sharing a lease allocates next to nothing.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    slots: Slab<Holding>,
    live: u32,
    dead: u32,
    /// How many holds have forgotten permits.
    forgotten: u32,
    /// How many holds are exclusive, dead ones included.
    exclusive: u32,
    upgradable: u32,
    /// The sum of the permits of the live and the forgotten holds.
    permits: u64,
    /// The highest value of `permits` since [`reset_peak`](Self::reset_peak).
    peak: u64,
    /// No live hold reaches its limit before this instant.
    first_limit: Option<Instant>,
    /// The readers that came through the gate. They are alike, so they are counted.
    readers: Option<(Holding, u32)>,
}

impl Holdings {
    /// No holds, in the same memory.
    pub(super) fn emptied(self) -> Self {
        let mut slots = self.slots;
        slots.clear();
        Self { slots, ..Self::default() }
    }

    #[inline]
    pub(super) fn add(
        &mut self,
        seat: usize,
        serial: u64,
        mode: Mode,
        token: FencingToken,
        until: Instant,
    ) -> HoldId {
        let holding = Holding { serial, mode, token, until, state: State::Live };
        self.count(&holding, true);
        if until < Instant::FAR_FUTURE {
            self.first_limit = Some(self.first_limit.map_or(until, |limit| limit.min(until)));
        }
        let slot = self.slots.insert(holding) as u32;
        HoldId { seat: seat as u32, slot, serial }
    }

    #[inline]
    pub(super) fn get(&self, id: HoldId) -> Option<&Holding> {
        let holding = match &self.readers {
            Some((reader, inside)) if id.is_of_gate() => (*inside > 0).then_some(reader),
            _ => self.slots.get(id.slot as usize),
        };
        holding.filter(|holding| holding.serial == id.serial)
    }

    #[inline]
    pub(super) fn remove(&mut self, id: HoldId) -> Option<Holding> {
        let holding = *self.get(id)?;
        self.count(&holding, false);
        if !id.is_of_gate() {
            return self.slots.try_remove(id.slot as usize);
        }
        self.readers.as_mut()?.1 -= 1;
        Some(holding)
    }

    /// This hold, if it is live and in this mode, so that another one may take its place.
    #[inline]
    pub(super) fn passing(&mut self, id: HoldId, mode: Mode) -> Option<&mut Holding> {
        let holding = self.slots.get_mut(id.slot as usize)?;
        (holding.serial == id.serial && holding.is_live() && holding.mode == mode)
            .then_some(holding)
    }

    // ---- Readers that come through the gate ----

    /// The serial number and the token of the readers that came through the gate, if there have been any.
    pub(super) fn readers(&self) -> Option<(u64, FencingToken)> {
        self.readers.map(|(reader, _)| (reader.serial, reader.token))
    }

    /// From now on, readers with this serial number and this token come through the gate.
    pub(super) fn admit_readers(&mut self, serial: u64, token: FencingToken) {
        let (mode, until) = (Mode::Shared, Instant::FAR_FUTURE);
        self.readers = Some((Holding { serial, mode, token, until, state: State::Live }, 0));
    }

    /// So many readers are inside now that came through the gate.
    pub(super) fn set_readers(&mut self, inside: u32) {
        if let Some((_, former)) = &mut self.readers {
            self.live = self.live - *former + inside;
            *former = inside;
        }
    }

    /// How many readers are inside that came through the gate.
    pub(super) fn inside(&self) -> u32 {
        self.readers.map_or(0, |(_, inside)| inside)
    }

    /// Whether a live hold is the only one.
    #[inline]
    pub(super) fn is_single(&self) -> bool {
        (self.live, self.dead, self.forgotten) == (1, 0, 0)
    }

    /// Removes a live hold, if it is the only hold or leaves other live holds behind.
    pub(super) fn remove_plainly(&mut self, id: HoldId) -> Option<Holding> {
        let plain = self.live > 1 || self.is_single();
        self.get(id).filter(|holding| plain && holding.is_live())?;
        self.remove(id)
    }

    /// Changes a hold.
    pub(super) fn change(&mut self, id: HoldId, change: impl FnOnce(&mut Holding)) {
        if self.get(id).is_some() && !id.is_of_gate() {
            self.change_slot(id.slot as usize, change);
        }
    }

    fn change_slot(&mut self, slot: usize, change: impl FnOnce(&mut Holding)) {
        let mut holding = self.slots[slot];
        self.count(&holding, false);
        change(&mut holding);
        self.count(&holding, true);
        self.slots[slot] = holding;
    }

    /// Makes all live holds dead. Returns their serial numbers.
    pub(super) fn end_all(&mut self) -> Vec<u64> {
        let live: Vec<_> =
            self.live_holds().map(|(slot, holding)| (slot, holding.serial)).collect();
        for (slot, _) in &live {
            self.change_slot(*slot, |holding| holding.state = State::Dead);
        }
        live.into_iter().map(|(_, serial)| serial).chain(self.end_readers()).collect()
    }

    /// Makes the readers dead that came through the gate. Returns their common serial number.
    fn end_readers(&mut self) -> Option<u64> {
        let (reader, inside) = self.readers.as_mut().filter(|(reader, _)| reader.is_live())?;
        reader.state = State::Dead;
        self.live -= *inside;
        self.dead += *inside;
        (*inside > 0).then_some(reader.serial)
    }

    fn live_holds(&self) -> impl Iterator<Item = (usize, &Holding)> {
        self.slots.iter().filter(|(_, holding)| holding.is_live())
    }

    /// A live hold whose limit has been reached.
    pub(super) fn overdue(&mut self, seat: usize, now: Instant) -> Option<HoldId> {
        if self.first_limit.is_none_or(|limit| now < limit) {
            return None;
        }
        let (slot, first) = self.live_holds().min_by_key(|(_, holding)| holding.until)?;
        if first.until <= now {
            return Some(HoldId { seat: seat as u32, slot: slot as u32, serial: first.serial });
        }
        self.first_limit = (first.until < Instant::FAR_FUTURE).then_some(first.until);
        None
    }

    /// The first instant at which a live hold may reach its limit.
    #[inline]
    pub(super) fn first_limit(&self) -> Instant {
        self.first_limit.filter(|_| self.live > 0).unwrap_or(Instant::FAR_FUTURE)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0 && self.dead == 0 && self.forgotten == 0
    }

    /// How many holds are live.
    #[inline]
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Whether there are guards that have lost the lease.
    pub(super) fn has_dead(&self) -> bool {
        self.dead > 0
    }

    /// Whether a hold in mode `want` may have access to the data beside these guards. They have a lease in mode
    /// `lease`, or have lost it.
    #[inline]
    pub(super) fn tolerate(&self, lease: Mode, want: Mode) -> bool {
        match (lease, want) {
            _ if self.is_empty() => true,
            // Permits guard no data.
            (Mode::Permits { .. }, _) | (_, Mode::Permits { .. }) => true,
            // Joint holds give no write access to data. But a group that has lost its lease must not get a new one
            // while its guards live: see `Machine::refuses`.
            (Mode::Joint { .. }, _) | (_, Mode::Joint { .. }) => lease != want,
            (_, Mode::Shared | Mode::Upgradable) => self.exclusive == 0,
            _ => false,
        }
    }

    pub(super) fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// Whether one more hold in mode `want` fits on a lease in mode `lease`.
    #[inline]
    pub(super) fn have_room(&self, lease: Mode, want: Mode) -> bool {
        match (lease, want) {
            (_, Mode::Exclusive) => self.is_empty(),
            (_, Mode::Shared) => self.exclusive == 0,
            (_, Mode::Upgradable) => self.exclusive == 0 && self.upgradable == 0,
            (Mode::Permits { take: all, .. }, Mode::Permits { take, .. }) => {
                self.permits + u64::from(take) <= u64::from(all)
            }
            (_, Mode::Joint { .. }) => true,
            _ => false,
        }
    }

    /// The weakest mode of the lease that is enough for its holds.
    #[inline]
    pub(super) fn need(&self, lease: Mode) -> Mode {
        match lease {
            _ if self.live == 0 && self.forgotten == 0 => lease,
            Mode::Exclusive | Mode::Upgradable | Mode::Shared => {
                if self.exclusive > 0 {
                    Mode::Exclusive
                } else if self.upgradable > 0 {
                    Mode::Upgradable
                } else {
                    Mode::Shared
                }
            }
            Mode::Permits { of, take } => permits(self.permits, take, of),
            other => other,
        }
    }

    /// Like [`need`](Self::need), but with the most permits that were used at once since the peak was last reset.
    pub(super) fn need_at_peak(&self, lease: Mode) -> Mode {
        match lease {
            Mode::Permits { of, take } if !self.is_empty() => permits(self.peak, take, of),
            _ => self.need(lease),
        }
    }

    pub(super) fn reset_peak(&mut self) {
        self.peak = self.permits;
    }

    #[inline]
    fn count(&mut self, holding: &Holding, more: bool) {
        let step = |count: &mut u32| *count = if more { *count + 1 } else { *count - 1 };
        match holding.state {
            State::Live => step(&mut self.live),
            State::Dead => step(&mut self.dead),
            State::Forgotten => step(&mut self.forgotten),
        }
        match holding.mode {
            Mode::Exclusive => step(&mut self.exclusive),
            Mode::Upgradable if holding.state == State::Live => step(&mut self.upgradable),
            Mode::Permits { take, .. } if holding.state != State::Dead => {
                let take = u64::from(take);
                self.permits = if more { self.permits + take } else { self.permits - take };
                self.peak = self.peak.max(self.permits);
            }
            _ => {}
        }
    }
}

/// The mode with the used permits of a lease, but at least one.
fn permits(used: u64, take: u32, of: u32) -> Mode {
    let used = u32::try_from(used).map_or(take, |used| used.min(take).max(1));
    Mode::Permits { take: used, of }
}

/// Whether the store may grant this process a second lease beside a lease in mode `lease`. If so, the process asks
/// for it although it already holds the lock. A group needs no second lease.
pub(super) fn beside(lease: Mode, want: Mode) -> bool {
    lease.compatible_with(want) && !want.is_joint()
}

#[cfg(test)]
mod tests;
