//! Who is inside, and what was written: pure.

use std::collections::HashMap;
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use crate::chaos::history::Way;

/// A connection of a task.
pub(super) type Visitor = u64;

/// How long the end of a connection may take to be seen.
const GRACE: Duration = Duration::from_millis(50);

/// Two who were inside at once, though the lock excludes that and neither lease had ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meeting {
    /// When the second came in.
    pub at: Instant,
    /// Behind which lock.
    pub key: String,
    /// How the one who was there holds it, and with which token.
    pub here: (Way, FencingToken),
    /// How the one who came holds it, and with which token.
    pub comer: (Way, FencingToken),
}

/// What it has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// How often somebody came in.
    pub entries: u64,
    /// How many writes it took.
    pub accepted: u64,
    /// How many it refused, for their tokens were too low.
    pub refused: u64,
    /// Who met whom.
    pub meetings: Vec<Meeting>,
}

/// The state of the resource.
#[derive(Debug, Default)]
pub(super) struct Desk {
    keys: HashMap<String, Room>,
    entries: u64,
    accepted: u64,
    refused: u64,
    /// With who was there.
    meetings: Vec<(Visitor, Meeting)>,
}

/// What one lock protects.
#[derive(Debug, Default)]
struct Room {
    inside: HashMap<Visitor, Guest>,
    /// The highest token that was written.
    highest: Option<FencingToken>,
}

/// Somebody inside, as far as it has said.
#[derive(Clone, Copy, Debug)]
struct Guest {
    way: Way,
    token: FencingToken,
    /// It is there at least until then, unless it leaves.
    valid_until: Instant,
}

impl Desk {
    /// Somebody comes in, or says anew how long it may stay, and in which way.
    pub(super) fn enter(
        &mut self,
        visitor: Visitor,
        key: &str,
        (way, token): (Way, FencingToken),
        valid_until: Instant,
        now: Instant,
    ) {
        let room = self.keys.entry(key.to_owned()).or_default();
        let comer = Guest { way, token, valid_until };
        let was_here = room.inside.remove(&visitor).is_some();
        self.entries += u64::from(!was_here);
        let met = room.inside.iter().filter(|(_, here)| !here.way.stands(way));
        let met = met.filter(|(_, here)| now < here.valid_until && now < valid_until);
        self.meetings.extend(met.map(|(&visitor, here)| {
            let (key, here) = (key.to_owned(), (here.way, here.token));
            (visitor, Meeting { at: now, key, here, comer: (way, token) })
        }));
        room.inside.insert(visitor, comer);
    }

    /// Whether the write is taken: a token must not be lower than any before it.
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

    /// The connection has ended: its process was killed, or its task was dropped. Whom it has just met may
    /// have come in after that, for nobody waits until the end of a connection is seen here.
    pub(super) fn vanish(&mut self, visitor: Visitor, now: Instant) {
        for room in self.keys.values_mut() {
            room.inside.remove(&visitor);
        }
        self.meetings.retain(|(here, meeting)| *here != visitor || meeting.at + GRACE < now);
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            entries: self.entries,
            accepted: self.accepted,
            refused: self.refused,
            meetings: self.meetings.iter().map(|(_, meeting)| meeting.clone()).collect(),
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

    #[test]
    fn who_excludes_another_is_seen_to_meet_it_while_both_are_valid() {
        let mut desk = Desk::default();
        desk.enter(1, "it", (Way::Write, token(5)), at(100), at(10));
        desk.enter(2, "that", (Way::Write, token(5)), at(100), at(10));
        desk.enter(3, "it", (Way::Read, token(6)), at(200), at(100));
        assert_eq!(desk.tally().meetings, []);
        // The first has renewed its lease in the meantime, as it says now.
        desk.enter(1, "it", (Way::Write, token(5)), at(180), at(120));
        let met = Meeting {
            at: at(120),
            key: "it".to_owned(),
            here: (Way::Read, token(6)),
            comer: (Way::Write, token(5)),
        };
        assert_eq!(desk.tally().meetings, [met]);
        assert_eq!(desk.tally().entries, 3);
    }

    #[test]
    fn who_has_left_or_vanished_is_met_by_nobody() {
        let mut desk = Desk::default();
        desk.enter(1, "it", (Way::Write, token(5)), at(100), at(10));
        desk.leave(1, "it");
        desk.enter(2, "it", (Way::Write, token(6)), at(100), at(20));
        desk.vanish(2, at(30));
        desk.enter(3, "it", (Way::Owner(1), token(7)), at(100), at(30));
        desk.enter(4, "it", (Way::Owner(1), token(7)), at(100), at(30));
        assert_eq!(desk.tally().meetings, []);
        desk.enter(5, "it", (Way::Owner(2), token(8)), at(100), at(40));
        assert_eq!(desk.tally().meetings.len(), 2);
        // One of them was dropped before, and the other long afterwards.
        desk.vanish(3, at(50));
        desk.vanish(4, at(41) + GRACE);
        assert_eq!(desk.tally().meetings.len(), 1);
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
