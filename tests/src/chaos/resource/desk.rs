//! The tasks inside, and the writes: pure.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use crate::chaos::history::Way;

/// A connection of a task.
pub(super) type Visitor = u64;

/// How long it may take until the resource reads that a task was dropped.
const GRACE: Duration = Duration::from_millis(50);

/// The rights of a task that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "a task that enters gives all of it")]
pub struct Guest {
    /// The way of its hold.
    pub way: Way,
    /// The number of permits of the semaphore, if it holds some and that number is fixed.
    pub of: Option<u32>,
    /// Its token.
    pub token: FencingToken,
    /// It has the lock at least until then, unless it leaves.
    pub valid_until: Instant,
}

impl Guest {
    fn permits(&self) -> u32 {
        if let Way::Permits(count) = self.way { count } else { 0 }
    }
}

/// Tasks that were inside at once, though the lock excludes that and none of their leases had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meeting {
    /// When the last of them entered.
    pub at: Instant,
    /// The lock.
    pub key: String,
    /// The tasks that were inside and should not have been: if the last one holds permits, all that hold
    /// some.
    pub here: Vec<Guest>,
    /// The task that entered last.
    pub comer: Guest,
}

/// The findings of the resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of entries.
    pub entries: u64,
    /// The number of writes that it accepted.
    pub accepted: u64,
    /// The number of writes that it refused, because their tokens were too low.
    pub refused: u64,
    /// The forbidden meetings.
    pub meetings: Vec<Meeting>,
}

/// The state of the resource.
#[derive(Debug, Default)]
pub(super) struct Desk {
    keys: HashMap<String, Room>,
    entries: u64,
    accepted: u64,
    refused: u64,
    meetings: Vec<Met>,
}

/// The state of one lock.
#[derive(Debug, Default)]
struct Room {
    inside: HashMap<Visitor, Guest>,
    /// The highest token that was written.
    highest: Option<FencingToken>,
}

/// A meeting, and its connections.
#[derive(Debug)]
struct Met {
    at: Instant,
    key: String,
    here: Vec<(Visitor, Guest)>,
    comer: (Visitor, Guest),
}

impl Met {
    /// Whether the lock excludes it.
    fn is_wrong(&self) -> bool {
        let comer = &self.comer.1;
        let guests = || self.here.iter().map(|(_, guest)| guest);
        let held = comer.permits() + guests().map(Guest::permits).sum::<u32>();
        guests().any(|here| !here.way.stands(comer.way)) || comer.of.is_some_and(|of| held > of)
    }
}

impl Desk {
    /// A task enters, or reports a new end and way of its hold.
    pub(super) fn enter(&mut self, visitor: Visitor, key: &str, comer: Guest, now: Instant) {
        let room = self.keys.entry(key.to_owned()).or_default();
        let was_here = room.inside.remove(&visitor).is_some();
        self.entries += u64::from(!was_here);
        let concerns = |here: &Guest| comer.of.is_some() || !here.way.stands(comer.way);
        let here = room.inside.iter().filter(|(_, here)| now < here.valid_until && concerns(here));
        let here = here.map(|(visitor, here)| (*visitor, *here)).collect();
        let met = Met { at: now, key: key.to_owned(), here, comer: (visitor, comer) };
        if now < comer.valid_until && met.is_wrong() {
            self.meetings.push(met);
        }
        room.inside.insert(visitor, comer);
    }

    /// Whether the write is accepted: a token must not be lower than any earlier one.
    pub(super) fn write(&mut self, key: &str, token: FencingToken) -> bool {
        let room = self.keys.entry(key.to_owned()).or_default();
        let accepted = room.highest.is_none_or(|highest| highest <= token);
        if accepted {
            room.highest = Some(token);
            self.accepted += 1;
        } else {
            self.refused += 1;
        }
        accepted
    }

    pub(super) fn leave(&mut self, visitor: Visitor, key: &str) {
        if let Some(room) = self.keys.get_mut(key) {
            room.inside.remove(&visitor);
        }
    }

    /// The task was dropped before the release of its lock. The message may be read late, so later tasks
    /// that seem to meet it do not.
    ///
    /// A connection that ends without a message belongs to a process that was killed: its locks belong to
    /// no other task until their leases have ended, so the task stays inside that long.
    pub(super) fn vanish(&mut self, visitor: Visitor, now: Instant) {
        for room in self.keys.values_mut() {
            room.inside.remove(&visitor);
        }
        self.meetings.retain_mut(|met| {
            if met.at + GRACE < now {
                return true;
            }
            met.here.retain(|(here, _)| *here != visitor);
            met.comer.0 != visitor && met.is_wrong()
        });
    }

    pub(super) fn tally(&self) -> Tally {
        let meeting = |met: &Met| Meeting {
            at: met.at,
            key: met.key.clone(),
            here: met.here.iter().map(|(_, guest)| *guest).collect(),
            comer: met.comer.1,
        };
        Tally {
            entries: self.entries,
            accepted: self.accepted,
            refused: self.refused,
            meetings: self.meetings.iter().map(meeting).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self, key: &str) -> bool {
        self.keys.get(key).is_none_or(|room| room.inside.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::new(number)
    }

    fn guest(way: Way, number: u64, valid: u64) -> Guest {
        Guest { way, of: None, token: token(number), valid_until: at(valid) }
    }

    #[test]
    fn two_exclusive_guests_meet_while_both_are_valid() {
        let mut desk = Desk::default();
        desk.enter(1, "it", guest(Way::Write, 5, 100), at(10));
        desk.enter(2, "that", guest(Way::Write, 5, 100), at(10));
        desk.enter(3, "it", guest(Way::Read, 6, 200), at(100));
        assert_eq!(desk.tally().meetings, []);
        // The first has renewed its lease in the meantime, as it reports now.
        desk.enter(1, "it", guest(Way::Write, 5, 180), at(120));
        let met = Meeting {
            at: at(120),
            key: "it".to_owned(),
            here: vec![guest(Way::Read, 6, 200)],
            comer: guest(Way::Write, 5, 180),
        };
        assert_eq!(desk.tally().meetings, [met]);
        assert_eq!(desk.tally().entries, 3);
    }

    #[test]
    fn a_guest_that_left_or_was_dropped_meets_no_other() {
        let mut desk = Desk::default();
        desk.enter(1, "it", guest(Way::Write, 5, 100), at(10));
        desk.leave(1, "it");
        desk.enter(2, "it", guest(Way::Write, 6, 100), at(20));
        desk.vanish(2, at(30));
        desk.enter(3, "it", guest(Way::Owner(1), 7, 100), at(30));
        desk.enter(4, "it", guest(Way::Owner(1), 7, 100), at(30));
        assert_eq!(desk.tally().meetings, []);
        desk.enter(5, "it", guest(Way::Owner(2), 8, 100), at(40));
        assert_eq!(desk.tally().meetings[0].here.len(), 2);
        // One of them was dropped before, and the other long afterwards.
        desk.vanish(3, at(50));
        desk.vanish(4, at(41) + GRACE);
        assert_eq!(desk.tally().meetings[0].here.len(), 1);
    }

    #[test]
    fn a_guest_that_was_dropped_before_the_other_came_meets_none_in_either_order() {
        for dropped in [1, 2] {
            let mut desk = Desk::default();
            desk.enter(1, "it", guest(Way::Write, 5, 100), at(10));
            desk.enter(2, "it", guest(Way::Write, 6, 100), at(20));
            assert_eq!(desk.tally().meetings.len(), 1);
            desk.vanish(dropped, at(30));
            assert_eq!(desk.tally().meetings, [], "{dropped}");
        }
    }

    #[test]
    fn more_permits_than_there_are_is_seen() {
        let some = |count| Guest { of: Some(3), ..guest(Way::Permits(count), 1, 100) };
        let mut desk = Desk::default();
        desk.enter(1, "it", some(1), at(10));
        desk.enter(2, "it", some(2), at(10));
        // It holds more permits now, and less then.
        desk.enter(1, "it", some(2), at(20));
        desk.enter(1, "it", some(1), at(20));
        assert_eq!(desk.tally().meetings.len(), 1);
        desk.leave(2, "it");
        desk.enter(3, "it", some(2), at(20));
        desk.enter(4, "it", Guest { valid_until: at(15), ..some(3) }, at(20));
        assert_eq!(desk.tally().meetings.len(), 1);
        desk.enter(5, "it", some(1), at(90));
        assert_eq!(desk.tally().meetings[1].here.len(), 2);
        // A dropped task was inside at neither time.
        desk.vanish(1, at(91));
        assert_eq!(desk.tally().meetings, []);
        // The number of permits is unknown.
        desk.enter(6, "that", guest(Way::Permits(9), 1, 100), at(90));
        desk.enter(7, "that", guest(Way::Permits(9), 1, 100), at(90));
        assert_eq!(desk.tally().meetings, []);
    }

    #[test]
    fn a_write_with_a_lower_token_is_refused() {
        let mut desk = Desk::default();
        let written = [5, 5, 7, 6, 7, 9].map(|number| desk.write("it", token(number)));
        assert_eq!(written, [true, true, true, false, true, true]);
        assert!(desk.write("that", token(1)));
        assert_eq!((desk.tally().accepted, desk.tally().refused), (6, 1));
    }
}
