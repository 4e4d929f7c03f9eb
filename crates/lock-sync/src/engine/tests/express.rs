//! Single cases: how long holders pass the lock on by the short way.

use std::time::Duration;

use lock_core::{Hint, Instant};

use super::common::{Answer, Limit};
use super::events::Event;
use super::{World, plain};
use crate::engine::manner::Manner;
use crate::handoff::Handoff;

/// A process returns a lease after this time, even if it hears of no other process that wants it.
const STAY: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// A world whose holder has passed the lock on by the short way, and the instant at which its lease was granted.
fn express() -> (World, Instant) {
    let mut world = plain();
    let granted = world.now;
    world.lock();
    for _ in 0..8 {
        world.event(Event::Enter(Limit::None));
    }
    for _ in 0..3 {
        world.event(Event::Release);
        world.event(Event::Run);
    }
    // A renewal says that no other process waits, and brings tokens.
    world.event(Event::Advance(60));
    world.event(Event::StartWatch);
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(passes_shortly(&mut world));
    (world, granted)
}

/// Whether the holder passes the lock on without an event.
fn passes_shortly(world: &mut World) -> bool {
    world.event(Event::Release);
    let shortly = !world.begun;
    world.event(Event::Run);
    shortly && world.holding.is_some()
}

#[test]
fn the_short_way_stays_open_until_the_next_event() {
    let (mut world, _) = express();
    assert!(passes_shortly(&mut world));
    world.event(Event::Hint(Hint::Contended));
    assert!(!passes_shortly(&mut world), "another process waits");
    world.come_to_rest();
}

#[test]
fn a_tick_comes_before_the_short_way_closes() {
    let (mut world, granted) = express();
    let tick = world.machine.next.unwrap();
    assert!(tick.at <= granted + STAY && !tick.flexible, "{tick:?}");
    world.now = tick.at - MILLI;
    assert!(passes_shortly(&mut world));
    world.event(Event::Advance(1));
    assert!(!passes_shortly(&mut world), "the process has had the lease for long enough");
    world.come_to_rest();
}

#[test]
fn a_holder_with_another_manner_looks_for_itself() {
    let (mut world, _) = express();
    world.manner = Manner::new(Handoff::Never);
    assert!(!passes_shortly(&mut world), "its lease goes back to the store");
    world.come_to_rest();
}
