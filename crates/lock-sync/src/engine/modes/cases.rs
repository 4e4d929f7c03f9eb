//! Single cases.

use std::time::Duration;

use lock_core::Mode;

use super::events::Event;
use super::rest::{run, tell};
use super::{OF, Sent, World};
use crate::engine::machine::Ticket;
use crate::engine::manner::Manner;
use crate::engine::tests::common::{Answer, Limit, TTL, policy};
use crate::handoff::Handoff;

/// Runs these events, which a property has found, in a process that wants one permit at a time.
fn with_permits(events: Vec<Event>) {
    let manner = Manner::new(Handoff::default());
    run(policy(), manner, vec![Mode::Permits { take: 1, of: OF }], None, events);
}

const ENTER: Event = Event::Enter(0, Limit::None);

fn truth(nth: usize) -> Event {
    Event::Answer(nth, Answer::Truth)
}

/// Found once in about 60 000 cases: a semaphore kept such permits for its whole life, because a later grant had higher
/// tokens.
#[test]
fn permits_without_a_holder_are_given_back() {
    with_permits(vec![
        ENTER,
        truth(0),
        ENTER,
        Event::Run,
        truth(0),
        ENTER,
        Event::Cancel(0),
        Event::Release(0),
        truth(1),
        truth(0),
        truth(0),
        ENTER,
        ENTER,
        Event::Release(0),
    ]);
}

/// Found once in about 70 000 cases: the next waiter waited until the renewal of these permits was due.
#[test]
fn permits_that_were_kept_for_too_long_to_be_passed_on_are_given_back() {
    with_permits(vec![
        ENTER,
        Event::Cancel(0),
        truth(0),
        ENTER,
        truth(0),
        Event::Run,
        Event::Deliver(0),
        ENTER,
        Event::Release(0),
        Event::Cancel(0),
        truth(0),
        Event::Enter(0, Limit::Try),
        Event::Advance(10),
    ]);
}

/// Runs these events in a process, and lets all come to rest.
fn story(wants: Vec<Mode>, cache: Option<Duration>, events: impl AsyncFnOnce(&mut World)) {
    let manner = Manner::new(Handoff::default()).with_cache(cache);
    tell(async move {
        let mut world = World::new(policy(), manner, wants, None).await;
        events(&mut world).await;
        world.come_to_rest().await;
    });
}

impl World {
    /// Answers all requests.
    async fn answer_all(&mut self) {
        while !self.sent.is_empty() {
            self.event(truth(0)).await;
        }
        self.event(Event::Run).await;
    }

    fn asks_for_a_place(&self) -> bool {
        self.sent.iter().any(|sent| matches!(sent, Sent::Attempt(request) if request.queue))
    }
}

/// No other process has permits, and a place in the queue would make it look as if another process wanted some.
#[test]
fn a_process_that_has_all_permits_asks_for_no_place_because_of_a_hint() {
    story(vec![Mode::Permits { take: 1, of: OF }], None, async |world| {
        for _ in 0..OF {
            world.event(ENTER).await;
            world.answer_all().await;
        }
        assert_eq!(world.holding.len(), OF as usize);
        world.event(ENTER).await;
        assert!(!world.asks_for_a_place());
        world.answer_all().await;
        world.event(Event::Watch(true)).await;
        assert!(!world.sent.is_empty() && !world.asks_for_a_place(), "{:?}", world.sent);
        world.answer_all().await;
    });
}

#[test]
fn a_try_to_upgrade_beside_readers_waits_for_no_answer() {
    story(vec![Mode::Shared, Mode::Upgradable], None, async |world| {
        for want in [1, 0] {
            world.event(Event::Enter(want, Limit::None)).await;
            world.answer_all().await;
        }
        assert_eq!(world.holding.len(), 2);
        world.event(Event::Upgrade(0, Limit::Millis(10))).await;
        world.event(Event::Advance(20)).await;
        world.event(Event::Run).await;
        let converts = |sent: &Sent| matches!(sent, Sent::Convert(_));
        assert!(world.upgrading.is_none() && world.sent.iter().any(converts));
        world.event(Event::Upgrade(1, Limit::Try)).await;
        world.event(Event::Run).await;
        assert!(world.upgrading.is_none(), "it waits for the store");
        assert_eq!(world.holding.len(), 2);
    });
}

/// What the store answered to the upgrade before is older than the reader's departure.
#[test]
fn a_try_to_upgrade_is_not_refused_because_of_an_earlier_answer() {
    story(vec![Mode::Shared, Mode::Upgradable], None, async |world| {
        for want in [0, 1] {
            world.event(Event::Enter(want, Limit::None)).await;
            world.answer_all().await;
        }
        world.event(Event::Upgrade(0, Limit::Millis(10))).await;
        world.answer_all().await;
        world.event(Event::Advance(20)).await;
        world.event(Event::Run).await;
        assert!(world.upgrading.is_none() && !world.sent.is_empty());
        world.event(Event::Delay(0)).await;
        try_alone(world).await;
    });
}

/// The store may receive the upgrade before it has the reader's lease back.
#[test]
fn a_try_to_upgrade_waits_for_the_lease_of_a_reader_that_has_gone() {
    story(vec![Mode::Shared, Mode::Upgradable], None, async |world| {
        for want in [0, 1] {
            world.event(Event::Enter(want, Limit::None)).await;
            world.answer_all().await;
        }
        try_alone(world).await;
    });
}

/// The reader leaves, and the upgradable holder tries to upgrade. The store receives the latest request first.
async fn try_alone(world: &mut World) {
    let reads = |(_, mode): &(Ticket, Mode)| *mode == Mode::Shared;
    let reader = world.holding.iter().position(reads).unwrap();
    world.event(Event::Release(reader)).await;
    world.event(Event::TakeRelease).await;
    world.event(Event::Upgrade(0, Limit::Try)).await;
    while world.upgrading.is_some() {
        assert!(!world.sent.is_empty(), "it waits for nothing");
        world.event(truth(world.sent.len() - 1)).await;
        world.event(Event::Run).await;
    }
    assert_eq!(world.holding[0].1, Mode::Exclusive, "it was refused");
}

/// A lease whose holders only read is made weaker, no matter which way they came.
#[test]
fn readers_that_return_to_a_writers_lease_make_it_weaker() {
    let read = Mode::Shared;
    story(vec![read, Mode::Exclusive], Some(TTL), async |world| {
        world.event(Event::Enter(1, Limit::None)).await;
        world.answer_all().await;
        world.event(Event::Release(0)).await;
        world.event(Event::Watch(true)).await;
        world.answer_all().await;
        for _ in 0..2 {
            world.event(ENTER).await;
            world.event(Event::Run).await;
            assert_eq!(world.holding.len(), 1);
            world.event(Event::Release(0)).await;
        }
        world.event(ENTER).await;
        assert_eq!(world.holding.len(), 1, "at once");
        world.event(Event::Advance(100)).await;
        world.event(Event::Advance(1_500)).await;
        world.answer_all().await;
        let claim = world.machine.claim(world.holding[0].0.hold).unwrap();
        assert_eq!(claim.mode, read, "no other process can read");
    });
}
