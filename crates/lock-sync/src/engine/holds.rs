//! Those who hold one lease together.

use lock_core::{FencingToken, Instant, Mode};

/// The name of one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId {
    /// Which of the machine's leases it is on.
    seat: u32,
    slot: u32,
    serial: u64,
}

impl HoldId {
    /// What no other hold on the key has: the number by which a lease knows who lost it.
    pub(crate) fn serial(self) -> u64 {
        self.serial
    }

    pub(super) fn seat(self) -> usize {
        self.seat as usize
    }

    /// The name of no hold, for what is over already.
    pub(crate) fn gone(self) -> Self {
        Self { serial: 0, ..self }
    }
}

/// One who holds.
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
    fn reads(&self) -> bool {
        self.mode == Mode::Shared && self.state == State::Live
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Live,
    /// It has lost the lease, but its guard lives, and with it a way to the data.
    Dead,
    /// Its guard has gone and its permits shall not come back.
    Forgotten,
}

/// The holders of one lease. Slots are reused, so that sharing a lease allocates next to nothing.
#[derive(Debug, Default)]
pub(super) struct Holds {
    slots: Vec<Slot>,
    free: Option<u32>,
    live: u32,
    dead: u32,
    /// Those that are forgotten.
    forgotten: u32,
    /// Exclusive ones, those that are dead included.
    exclusive: u32,
    upgradable: u32,
    /// The sum of the permits of those that are live or forgotten.
    permits: u64,
    /// The most that it was of late.
    peak: u64,
    /// No limit of a live one is reached before.
    first_limit: Option<Instant>,
}

#[derive(Debug)]
enum Slot {
    /// The next free slot.
    Free(Option<u32>),
    Taken(Holding),
}

impl Holds {
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
        let slot = match self.free {
            Some(index) => {
                if let Slot::Free(next) = self.slots[index as usize] {
                    self.free = next;
                }
                self.slots[index as usize] = Slot::Taken(holding);
                index
            }
            None => {
                self.slots.push(Slot::Taken(holding));
                (self.slots.len() - 1) as u32
            }
        };
        HoldId { seat: seat as u32, slot, serial }
    }

    #[inline]
    pub(super) fn get(&self, id: HoldId) -> Option<&Holding> {
        match self.slots.get(id.slot as usize) {
            Some(Slot::Taken(holding)) if holding.serial == id.serial => Some(holding),
            _ => None,
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, id: HoldId) -> Option<Holding> {
        let holding = *self.get(id)?;
        self.count(&holding, false);
        self.slots[id.slot as usize] = Slot::Free(self.free);
        self.free = Some(id.slot);
        Some(holding)
    }

    /// Removes a holder within its limit that is the only one.
    #[inline]
    pub(super) fn remove_only(&mut self, id: HoldId) -> Option<Holding> {
        let only = (self.live, self.dead, self.forgotten) == (1, 0, 0);
        self.get(id).filter(|holding| only && holding.state == State::Live)?;
        self.remove(id)
    }

    /// Removes a reader if others hold beside it, so that nothing else changes.
    pub(super) fn remove_beside_others(&mut self, id: HoldId) -> bool {
        self.live > 1 && self.get(id).is_some_and(Holding::reads) && self.remove(id).is_some()
    }

    /// Removes a reader that is within its limit, if nobody is left then.
    pub(super) fn remove_alone(&mut self, id: HoldId, now: Instant) -> bool {
        let alone = (self.live, self.dead, self.forgotten) == (1, 0, 0);
        let reads = |holding: &Holding| holding.reads() && now < holding.until;
        alone && self.get(id).is_some_and(reads) && self.remove(id).is_some()
    }

    /// Changes what is known of a holder.
    pub(super) fn change(&mut self, id: HoldId, change: impl FnOnce(&mut Holding)) {
        let Some(mut holding) = self.get(id).copied() else { return };
        self.count(&holding, false);
        change(&mut holding);
        self.count(&holding, true);
        self.slots[id.slot as usize] = Slot::Taken(holding);
    }

    /// Ends all holds that are live; returns their serial numbers.
    pub(super) fn end_all(&mut self) -> Vec<u64> {
        let mut ended = Vec::new();
        for index in 0..self.slots.len() {
            let Slot::Taken(mut holding) = self.slots[index] else { continue };
            if holding.state != State::Live {
                continue;
            }
            self.count(&holding, false);
            holding.state = State::Dead;
            self.count(&holding, true);
            ended.push(holding.serial);
            self.slots[index] = Slot::Taken(holding);
        }
        ended
    }

    /// A live one whose limit has been reached.
    pub(super) fn overdue(&mut self, seat: usize, now: Instant) -> Option<HoldId> {
        if self.first_limit.is_none_or(|limit| now < limit) {
            return None;
        }
        let live = self.slots.iter().enumerate().filter_map(|(slot, held)| match held {
            Slot::Taken(holding) if holding.state == State::Live => Some((slot, holding)),
            _ => None,
        });
        let (slot, first) = live.min_by_key(|(_, holding)| holding.until)?;
        if first.until <= now {
            return Some(HoldId { seat: seat as u32, slot: slot as u32, serial: first.serial });
        }
        self.first_limit = (first.until < Instant::FAR_FUTURE).then_some(first.until);
        None
    }

    /// When a limit may be reached.
    #[inline]
    pub(super) fn first_limit(&self) -> Instant {
        self.first_limit.filter(|_| self.live > 0).unwrap_or(Instant::FAR_FUTURE)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0 && self.dead == 0 && self.forgotten == 0
    }

    /// How many are live.
    #[inline]
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Whether guards live that have lost the lease.
    pub(super) fn has_dead(&self) -> bool {
        self.dead > 0
    }

    /// Whether the data may be reached for this beside these guards, which have a lease in that mode or
    /// have lost it.
    #[inline]
    pub(super) fn tolerate(&self, lease: Mode, want: Mode) -> bool {
        match (lease, want) {
            // Permits guard no data.
            (Mode::Permits { .. }, _) | (_, Mode::Permits { .. }) => true,
            // Nor can data be written through joint holds. Who comes back for one asks for what it has
            // lost: see `enter_again`.
            (Mode::Joint { .. }, _) | (_, Mode::Joint { .. }) => lease != want,
            (_, Mode::Shared | Mode::Upgradable) => self.exclusive == 0,
            _ => self.is_empty(),
        }
    }

    pub(super) fn has_forgotten(&self) -> bool {
        self.forgotten > 0
    }

    /// Whether one more holder in this mode fits on a lease in that one.
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

    /// The weakest mode of a lease that is enough for those who hold it.
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

    /// The same, by the most permits that were used at once since the peak was last forgotten.
    pub(super) fn need_at_peak(&self, lease: Mode) -> Mode {
        match lease {
            Mode::Permits { of, take } if !self.is_empty() => permits(self.peak, take, of),
            _ => self.need(lease),
        }
    }

    pub(super) fn forget_peak(&mut self) {
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

/// As many of the permits of a lease as are used, but one at least.
fn permits(used: u64, take: u32, of: u32) -> Mode {
    let used = u32::try_from(used).map_or(take, |used| used.clamp(1, take));
    Mode::Permits { take: used, of }
}

/// Whether the store may grant a second lease to this process beside one in that mode: then it is asked
/// although the process holds the lock already. A group needs no second lease.
pub(super) fn beside(lease: Mode, want: Mode) -> bool {
    lease.compatible_with(want) && !want.is_joint()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF: u32 = 5;

    fn permits(take: u32) -> Mode {
        Mode::Permits { take, of: OF }
    }

    fn add(holds: &mut Holds, serial: u64, mode: Mode) -> HoldId {
        holds.add(0, serial, mode, FencingToken::new(serial), Instant::FAR_FUTURE)
    }

    #[test]
    fn readers_fit_beside_one_another_and_not_beside_a_writer() {
        let mut holds = Holds::default();
        let lease = Mode::Exclusive;
        let one = add(&mut holds, 1, Mode::Shared);
        let two = add(&mut holds, 2, Mode::Upgradable);
        assert!(holds.have_room(lease, Mode::Shared));
        assert!(!holds.have_room(lease, Mode::Upgradable) && !holds.have_room(lease, lease));
        assert_eq!(holds.need(lease), Mode::Upgradable);
        holds.remove(two);
        assert_eq!(holds.need(lease), Mode::Shared);
        assert!(holds.have_room(lease, Mode::Upgradable));
        holds.remove(one);
        assert!(holds.remove(one).is_none(), "only once");
        let writer = add(&mut holds, 3, Mode::Exclusive);
        assert!(!holds.have_room(lease, Mode::Shared));
        assert_eq!(holds.end_all(), [3]);
        assert!(!holds.have_room(lease, Mode::Shared), "its guard can still reach the data");
        holds.remove(writer);
        assert!(holds.is_empty() && holds.have_room(lease, Mode::Exclusive));
    }

    #[test]
    fn permits_add_up() {
        let mut holds = Holds::default();
        let three = add(&mut holds, 1, permits(3));
        assert!(
            holds.have_room(permits(5), permits(2)) && !holds.have_room(permits(4), permits(2))
        );
        holds.change(three, |holding| holding.mode = permits(1));
        assert_eq!(holds.need(permits(5)), permits(1));
        holds.change(three, |holding| holding.state = State::Forgotten);
        assert!(holds.live() == 0 && !holds.is_empty());
        assert_eq!(
            holds.need(permits(5)),
            permits(1),
            "what is forgotten is held until it is gone"
        );
        holds.remove(three);
        assert!(holds.is_empty());
    }

    #[test]
    fn the_first_limit_is_found() {
        let mut holds = Holds::default();
        let at = |nanos| Instant::from_nanos(nanos);
        let token = FencingToken::new(1);
        let late = holds.add(0, 1, Mode::Shared, token, at(20));
        let early = holds.add(0, 2, Mode::Shared, token, at(10));
        assert_eq!(holds.first_limit(), at(10));
        assert_eq!(holds.overdue(0, at(9)), None);
        assert_eq!(holds.overdue(0, at(10)), Some(early));
        holds.remove(early);
        assert_eq!(holds.overdue(0, at(10)), None);
        assert_eq!(holds.first_limit(), at(20));
        assert_eq!(holds.overdue(0, at(25)), Some(late));
    }
}
