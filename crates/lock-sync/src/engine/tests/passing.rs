//! Single cases: how the lock passes from task to task of one process.

use std::time::Duration;

use lock_core::{Contention, Hint, Mode};

use super::common::{Answer, Limit};
use super::events::Event;
use super::{plain, within};
use crate::engine::machine::{Denial, Entrance};
use crate::engine::queue::Patience;

#[test]
fn a_hand_off_needs_no_request() {
    let mut world = plain();
    world.lock();
    world.event(Event::Enter(Limit::None));
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_some(), "the second waiter has it");
    assert!(world.attempt.is_none() && !world.release_asked, "the store was not asked");
    world.come_to_rest();
}

#[test]
fn a_lock_given_up_a_moment_ago_is_taken_back() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::Enter(Limit::Try));
    assert!(world.holding.is_some(), "drop, then try_lock");
    assert!(world.attempt.is_none());
    // The driver comes too late: there is nothing to release.
    world.event(Event::TakeRelease);
    assert!(world.releasing.is_none());
    world.come_to_rest();
}

#[test]
fn try_lock_after_a_release_under_way_waits_for_it() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::TakeRelease);
    world.event(Event::Enter(Limit::Try));
    world.event(Event::Run);
    assert_eq!(world.waiters.len(), 1);
    world.event(Event::AnswerRelease(Answer::Truth));
    world.event(Event::AnswerAttempt(Answer::Truth));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_try_does_not_wait_behind_others() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    for _ in 0..2 {
        // First beside a request under way, then beside a refused one.
        let entered = world.machine.enter(Mode::Exclusive, Patience::Try, world.manner);
        assert!(matches!(entered, Entrance::Done(Err(Denial::WouldBlock))), "{entered:?}");
        world.foreign = true;
        world.event(Event::AnswerAttempt(Answer::Truth));
    }
    world.event(Event::Cancel(0));
    world.come_to_rest();
}

#[test]
fn the_budget_ends_the_hand_offs() {
    let mut world = within(1, Duration::from_secs(1));
    world.lock();
    for _ in 0..2 {
        world.event(Event::Enter(Limit::None));
    }
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_some(), "one hand-off is within the budget");
    world.event(Event::Release);
    world.event(Event::Run);
    assert!(world.holding.is_none() && world.release_asked, "the second is not");
    world.come_to_rest();
}

#[test]
fn the_budget_has_an_end_in_time_too() {
    for (millis, handed_over) in [(9, true), (10, false)] {
        let mut world = within(4, Duration::from_millis(10));
        world.lock();
        world.event(Event::Enter(Limit::None));
        world.event(Event::Advance(millis));
        world.event(Event::Release);
        world.event(Event::Run);
        assert_eq!(world.holding.is_some(), handed_over, "after {millis} ms");
        world.come_to_rest();
    }
}

#[test]
fn a_hand_off_that_is_not_picked_up_goes_to_the_next() {
    let mut world = plain();
    world.lock();
    for _ in 0..2 {
        world.event(Event::Enter(Limit::None));
    }
    world.event(Event::Run);
    world.event(Event::Release);
    world.event(Event::Cancel(0));
    world.event(Event::Run);
    assert!(world.holding.is_some());
    world.come_to_rest();
}

#[test]
fn a_quiet_moment_in_the_middle_of_a_hold_does_not_renew_the_budget() {
    let mut world = within(1, Duration::from_secs(1));
    world.lock();
    for _ in 0..3 {
        world.event(Event::Enter(Limit::None));
    }
    world.event(Event::Advance(60));
    world.event(Event::StartWatch);
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert_eq!(world.machine.contention(), Some(Contention::Quiet));
    world.event(Event::Run);
    for handed_over in [true, false] {
        // Another process comes. If the lock stays here, that process gives up, and a renewal says so.
        world.event(Event::Rival);
        world.event(Event::Deliver { nth: 0, again: false });
        assert_eq!(world.machine.contention(), Some(Contention::Contended));
        world.event(Event::Release);
        world.event(Event::Run);
        assert_eq!(world.holding.is_some(), handed_over);
        world.event(Event::RivalGone);
        world.event(Event::Hint(Hint::Released));
        world.event(Event::Advance(3));
        world.event(Event::AnswerRenewal(Answer::Truth));
    }
    world.come_to_rest();
}
