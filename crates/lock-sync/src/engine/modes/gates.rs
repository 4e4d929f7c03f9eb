//! Readers that come and go through the gate, as the shell lets them.

use lock_core::{Instant, Mode, Ttl};

use super::World;
use super::events::Event;
use super::rest::tell;
use crate::engine::machine::Opening;
use crate::engine::manner::Manner;
use crate::engine::tests::common::{Answer, Limit, TTL, policy};
use crate::handoff::Handoff;

/// The open gate.
pub(super) struct Gate {
    opening: Opening,
    inside: u32,
    latest: Instant,
}

impl World {
    /// One more reader comes, and the machine opens the gate, if it is to be open.
    pub(super) fn open_gate(&mut self, want: Mode) -> bool {
        let (now, armed) = (self.now(), self.armed());
        if want != Mode::Shared {
            return false;
        }
        let Some(opening) = self.machine.open(now, self.manner, armed) else { return false };
        assert_eq!(opening.inside as usize, self.readers.len() + 1, "a reader without a count");
        self.readers.push(opening);
        self.gate = Some(Gate { opening, inside: opening.inside, latest: now });
        true
    }

    /// Events that the machine does not hear of while the gate is open. Returns whether this is one of them.
    pub(super) async fn pass_by(&mut self, event: &Event) -> bool {
        let now = self.now();
        let Some(gate) = &mut self.gate else { return false };
        match event {
            Event::Enter(nth, _) if self.wants[nth % self.wants.len()] == Mode::Shared => {
                if now >= gate.opening.until {
                    return false;
                }
                (gate.inside, gate.latest) = (gate.inside + 1, now);
                self.readers.push(Opening { now, ..gate.opening });
            }
            Event::Release(nth) if self.leaves_by_gate(*nth) => return self.leave_gate(*nth),
            Event::Sleep(millis) => self.sleep(*millis).await,
            Event::RivalAsks(nth, want) => self.rival_asks(*nth, *want).await,
            Event::RivalLeaves(nth) => self.rival_leaves(*nth).await,
            Event::Delay(nth) => self.delay(*nth).await,
            _ => return false,
        }
        self.check();
        true
    }

    /// Whether a reader lets go that came through the gate, if a holder lets go.
    pub(super) fn leaves_by_gate(&self, nth: usize) -> bool {
        !self.readers.is_empty() && (self.holding.is_empty() || nth.is_multiple_of(2))
    }

    /// A reader leaves by the open gate. Returns `false` if the machine has to hear of that.
    fn leave_gate(&mut self, nth: usize) -> bool {
        let Some(gate) = &mut self.gate else { return false };
        self.readers.swap_remove(nth % self.readers.len());
        gate.inside -= 1;
        if gate.inside > 0 || gate.opening.kept {
            return true;
        }
        self.close_gate();
        self.machine.begin(self.now());
        self.carry_out();
        self.check();
        true
    }

    /// A reader leaves that the machine knows.
    pub(super) fn leave_closed_gate(&mut self, nth: usize) {
        let reader = self.readers.swap_remove(nth % self.readers.len());
        self.leave(reader.hold);
    }

    pub(super) fn close_gate(&mut self) {
        if let Some(gate) = self.gate.take() {
            assert_eq!(gate.inside as usize, self.readers.len());
            self.machine.closed_gate(gate.inside, gate.latest);
        }
    }

    /// How many readers came through the gate and have the lease.
    pub(super) fn valid_readers(&self) -> usize {
        let valid = |reader: &&Opening| {
            self.lease.check(reader.hold.serial(), Instant::FAR_FUTURE, self.now()).is_ok()
        };
        self.readers.iter().filter(valid).count()
    }

    /// One of the readers wants a longer lease.
    pub(super) fn extend_reader(&mut self, ttl: Ttl) {
        if let Some(reader) = self.readers.first() {
            self.machine.extend(reader.hold, ttl);
        }
    }
}

/// What leads to a lease of one reader, and to a gate that opens for the next one.
pub(super) fn opening() -> Vec<Event> {
    [&entering()[..], &waiting()].concat()
}

fn entering() -> [Event; 3] {
    [READ, Event::Answer(0, Answer::Truth), Event::Run]
}

/// The answer to the renewal says that no other process waits.
fn waiting() -> [Event; 3] {
    [Event::Advance(60), Event::Watch(true), Event::Answer(0, Answer::Truth)]
}

/// A process with readers after these events. The gate is open for one more reader.
async fn reading_after(handoff: Handoff, events: Vec<Event>) -> World {
    let manner = Manner::new(handoff);
    let mut world = World::new(policy(), manner, vec![Mode::Shared, Mode::Exclusive], None).await;
    for event in events.into_iter().chain([READ]) {
        world.event(event).await;
    }
    assert!(world.gate.is_some());
    world
}

async fn reading() -> World {
    reading_after(Handoff::default(), opening()).await
}

const READ: Event = Event::Enter(0, Limit::None);
const WRITE: Event = Event::Enter(1, Limit::None);

#[test]
fn the_second_reader_opens_the_gate() {
    tell(async {
        let mut world = reading().await;
        world.event(READ).await;
        assert_eq!((world.readers.len(), world.holding.len()), (2, 1));
        world.come_to_rest().await;
    });
}

/// The second reader may not join the first one, so the process asks for another lease. The first lease ends before the
/// second one.
#[test]
fn the_gate_opens_to_a_lease_beside_a_free_seat() {
    tell(async {
        let leaving = [Event::Release(0), Event::TakeRelease, Event::Answer(0, Answer::Truth)];
        let back = [Event::Release(0), READ, Event::Run, Event::Release(0)];
        let events = [&entering()[..], &entering(), &leaving, &waiting(), &back].concat();
        let mut world = reading_after(Handoff::Fair, events).await;
        assert_eq!(world.readers[0].hold.seat(), 1);
        world.event(READ).await;
        world.event(WRITE).await;
        assert_eq!((world.readers.len(), world.waiters.len()), (2, 1));
        assert!(world.gate.is_none());
        world.come_to_rest().await;
    });
}

#[test]
fn a_writer_closes_the_gate_and_waits_for_the_readers_inside() {
    tell(async {
        let mut world = reading().await;
        world.event(WRITE).await;
        world.event(READ).await;
        assert!(world.gate.is_none() && world.waiters.len() == 2, "the reader waits, too");
        for _ in 0..2 {
            world.event(Event::Release(0)).await;
        }
        world.event(Event::Run).await;
        assert!(world.readers.is_empty());
        world.come_to_rest().await;
    });
}

#[test]
fn readers_inside_lose_the_lease_with_all_others() {
    tell(async {
        let mut world = reading().await;
        world.event(Event::Sleep(TTL.as_millis() as u64)).await;
        assert_eq!(world.valid_readers(), 0, "by the clock alone");
        world.event(READ).await;
        assert!(world.gate.is_none() && world.readers.len() == 1, "no reader comes in");
        world.failed = true;
        world.come_to_rest().await;
    });
}
