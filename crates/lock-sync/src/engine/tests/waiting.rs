//! Single cases: when a process asks again for a lock that another process has.

use std::time::Duration;

use lock_core::{AcquireOutcome, Hint, Ttl};

use super::common::{Answer, Limit, TTL};
use super::events::Event;
use super::{JITTER, POLL, World, plain, with};
use crate::engine::timing::renewal_window;
use crate::handoff::Handoff;

#[test]
fn a_process_listens_while_a_waiter_waits_for_a_slow_answer() {
    let mut world = third_in_line();
    world.event(Event::Hint(Hint::Released));
    assert!(world.attempt.is_some());
    world.event(Event::Advance(6_000));
    assert!(world.watching && world.subscribed, "it would not hear of its turn");
    world.come_to_rest();
}

#[test]
fn a_place_is_kept_a_little_early_in_company() {
    let window = renewal_window(Ttl::new(TTL).unwrap());
    for (early, asks) in [(window, true), (window + Duration::from_millis(1), false)] {
        let mut world = third_in_line();
        let deadline = world.machine.next.unwrap();
        assert!(deadline.flexible && Some(deadline.at) == world.machine.asks_at());
        world.now = deadline.at - early;
        world.event(Event::Advance(0));
        assert_eq!(world.attempt.is_some(), asks, "{early:?} early");
        world.come_to_rest();
    }
}

#[test]
fn a_lease_that_ends_soon_is_asked_about_when_it_ends() {
    let mut world = third_in_line();
    world.holder_has(TTL / 4);
    world.event(Event::Hint(Hint::Released));
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert!(!world.machine.next.unwrap().flexible);
    // The same holds for a lease that was handed over to another process, which a hint tells.
    let mut world = third_in_line();
    hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    assert!(!world.machine.next.unwrap().flexible);
    world.come_to_rest();
}

#[test]
fn a_process_that_hears_nothing_asks_less_and_less_often() {
    let mut world = plain();
    world.event(Event::Rival);
    world.holder_has(Duration::from_secs(3600));
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    for (least, most) in [(100, 200), (200, 400), (250, 500), (250, 500)] {
        world.event(Event::AnswerAttempt(Answer::Truth));
        let pause = world.machine.asks_at().unwrap().saturating_duration_since(world.now);
        assert!((least..=most).contains(&pause.as_millis()), "{pause:?}");
        world.event(Event::Advance(500));
    }
    // Once the process hears hints, it relies on them.
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::StartWatch);
    world.attempt.as_mut().unwrap().queue = false;
    world.event(Event::AnswerAttempt(Answer::Truth));
    let until = world.machine.asks_at().unwrap();
    assert!(until > world.now + Duration::from_secs(3000));
    world.come_to_rest();
}

#[test]
fn a_process_that_hears_nothing_leaves_the_lock_to_others_now_and_then() {
    let mut world = with(Handoff::Fair, None);
    let begin = world.now;
    world.lock();
    world.event(Event::Advance(50));
    world.event(Event::EndWatch(true));
    world.event(Event::AnswerRenewal(Answer::Truth));
    let mut free = Duration::ZERO;
    while free.is_zero() {
        assert!(world.now < begin + Duration::from_millis(1_100), "never");
        world.event(Event::Enter(Limit::None));
        world.event(Event::Run);
        world.event(Event::Advance(10));
        world.event(Event::Release);
        world.event(Event::TakeRelease);
        world.event(Event::AnswerRelease(Answer::Truth));
        if let Some(at) = world.machine.asks_at() {
            free = at.saturating_duration_since(world.now);
            break;
        }
        world.event(Event::AnswerAttempt(Answer::Truth));
        world.event(Event::Run);
    }
    assert!(world.now >= begin + Duration::from_secs(1));
    assert!(free >= POLL && free <= POLL + JITTER, "{free:?}");
    world.come_to_rest();
}

/// A rival holds the lock, and another rival waits for it. This process has the place behind the second rival.
fn third_in_line() -> World {
    let mut world = plain();
    world.event(Event::Rival);
    world.holder_has(TTL);
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Rival);
    world.event(Event::StartWatch);
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert_eq!(world.line.len(), 2);
    assert_eq!(world.machine.asks_at().map(|at| at > world.now + TTL), Some(true));
    world
}

/// The rival that is first in line gets the lock and stays silent. Returns the remaining time of its lease.
fn hand_over_to_the_silent(world: &mut World) -> Duration {
    let claim = Ttl::new(TTL).unwrap().for_grant().duration();
    world.event(Event::RivalDone);
    world.holder_has(claim);
    assert!(matches!(world.messages[..], [Hint::Next { .. }]), "{:?}", world.messages);
    claim
}

#[test]
fn the_next_in_line_asks_when_the_lease_before_it_ends() {
    let mut world = third_in_line();
    let claim = hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    let at = world.machine.asks_at().unwrap();
    assert!(at > world.now + claim && at <= world.now + claim + JITTER);
    world.event(Event::Advance(1_010));
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_hint_heard_before_an_older_answer_says_when_to_ask() {
    let mut world = third_in_line();
    world.event(Event::Hint(Hint::Released));
    // The answer leaves the store before the hand-over, and arrives after the hint about the hand-over.
    let request = world.attempt.clone().unwrap();
    let answer = world.try_acquire(&request, Answer::Truth);
    assert!(matches!(answer, Ok(AcquireOutcome::Queued { retry_after: Some(TTL) })), "{answer:?}");
    let claim = hand_over_to_the_silent(&mut world);
    world.event(Event::Deliver { nth: 0, again: false });
    world.attempt = None;
    world.machine.begin(world.now);
    world.machine.attempt_done(&request.claim, &answer);
    world.carry_out();
    let at = world.machine.asks_at().unwrap();
    assert!(at <= world.now + claim + JITTER);
}
