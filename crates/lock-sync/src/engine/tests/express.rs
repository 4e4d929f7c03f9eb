//! Single cases: how long holders pass the lock on by the short way.

use std::time::Duration;

use lock_core::{Hint, Instant};

use super::common::{Answer, Limit, TTL};
use super::events::Event;
use super::{World, plain};
use crate::engine::manner::Manner;
use crate::handoff::Handoff;

/// A process returns a lease after this time, even if it hears of no other process that wants it.
const STAY: Duration = Duration::from_secs(1);
const MILLI: Duration = Duration::from_millis(1);

/// What leads to a holder that passes the lock on by the short way, while more waiters stand in line.
pub(super) fn quiet() -> Vec<Event> {
    let enter = || Event::Enter(Limit::None);
    let pass = [Event::Release, Event::Run];
    let lock = [enter(), Event::Run, Event::AnswerAttempt(Answer::Truth), Event::Run];
    let wait = (0..8).map(|_| enter());
    let passes = (0..3).flat_map(|_| pass.clone());
    // A renewal says that no other process waits, and brings tokens.
    let stock = [Event::Advance(60), Event::StartWatch, Event::AnswerRenewal(Answer::Truth)];
    lock.into_iter().chain(wait).chain(passes).chain(stock).chain(pass.clone()).collect()
}

/// A world whose holder has passed the lock on by the short way, and the instant at which its lease was granted.
fn express() -> (World, Instant) {
    let mut world = plain();
    let granted = world.now;
    quiet().into_iter().for_each(|event| world.event(event));
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
fn a_lease_that_ends_before_a_late_tick_goes_to_one_waiter_in_vain() {
    let (mut world, _) = express();
    world.now = world.now + TTL;
    world.event(Event::Release);
    assert!(!world.begun, "the holder does not know the time");
    world.event(Event::Run);
    assert!(world.holding.is_none() && world.attempt.is_some(), "the store is asked");
    world.come_to_rest();
}

#[test]
fn a_holder_with_another_manner_looks_for_itself() {
    let (mut world, _) = express();
    world.manner = Manner::new(Handoff::Never);
    assert!(!passes_shortly(&mut world), "its lease goes back to the store");
    world.come_to_rest();
}
