//! Single cases: a lease and the requests for it.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{AcquireOutcome, Contention, FencingToken, Grant, Hint, Mode, TokenRange};

use super::common::{Answer, Limit};
use super::events::Event;
use super::{World, plain, with};
use crate::engine::machine::Entrance;
use crate::engine::queue::Patience;
use crate::handoff::Handoff;

#[test]
fn an_inquiry_that_fails_is_not_repeated_at_once() {
    let mut world = with(Handoff::Fair, Some(Duration::from_secs(600)));
    world.lock();
    world.event(Event::Release);
    world.event(Event::AnswerRenewal(Answer::Lost));
    // The lease is cached. From now on the process listens, and has to learn the contention of other processes.
    world.event(Event::StartWatch);
    assert_eq!(world.renewals.len(), 1);
    world.event(Event::AnswerRenewal(Answer::Lost));
    assert!(world.renewals.is_empty(), "again at once");
    world.event(Event::Advance(301));
    assert_eq!(world.renewals.len(), 1, "but soon");
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert_eq!(world.machine.contention(), Some(Contention::Quiet));
    world.come_to_rest();
}

#[test]
fn a_grant_without_a_waiter_is_released() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    world.event(Event::Cancel(0));
    world.event(Event::AnswerAttempt(Answer::Truth));
    assert!(world.release_asked);
    world.come_to_rest();
}

#[test]
fn a_grant_heard_of_while_its_release_is_under_way_is_released_after_it() {
    let mut world = plain();
    world.lock();
    world.event(Event::Release);
    world.event(Event::TakeRelease);
    let (claim, _) = world.releasing.clone().unwrap();
    world.event(Event::GrantedAgain);
    assert_eq!(
        world.withdrawing,
        [],
        "it could overtake the release, whose holder would believe to have lost"
    );
    world.event(Event::AnswerRelease(Answer::Truth));
    assert_eq!(world.withdrawing, [claim], "the store may have made that grant after the release");
    world.come_to_rest();
}

#[test]
fn a_grant_that_comes_too_late_is_not_used() {
    let mut world = plain();
    world.event(Event::Enter(Limit::None));
    let request = world.attempt.clone().unwrap();
    world.machine.begin(world.now);
    let tokens = TokenRange::new(FencingToken::new(1), NonZeroU32::MIN);
    world.attempt = None;
    let late = Grant::new(tokens, world.now);
    world.machine.attempt_done(&request.claim, &Ok(AcquireOutcome::Granted(late)));
    world.carry_out();
    assert!(world.holding.is_none());
    assert_eq!(world.withdrawing, [request.claim]);
    world.come_to_rest();
}

#[test]
fn a_lease_is_lost_at_its_deadline_and_stays_lost() {
    let mut world = plain();
    world.lock();
    world.event(Event::Advance(1_001));
    assert_eq!(world.renewals.len(), 1);
    // The answer arrives after the deadline, too late to be of use.
    let (lease, hold) = world.holding.as_ref().map(|t| (t.lease.clone(), t.hold)).unwrap();
    world.now = lease.deadline();
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(lease.loss(hold.serial()).is_some());
    assert_eq!(world.withdrawing.len(), 1, "what the store may still have is released");
    world.come_to_rest();
}

#[test]
fn a_failed_renewal_does_not_move_the_deadline() {
    let mut world = plain();
    world.lock();
    let lease = world.holding.as_ref().unwrap().lease.clone();
    let deadline = lease.deadline();
    world.event(Event::Advance(1_001));
    world.event(Event::AnswerRenewal(Answer::Lost));
    assert_eq!(lease.deadline(), deadline);
    world.event(Event::Advance(301));
    assert_eq!(world.renewals.len(), 1, "it is tried again before the deadline");
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(lease.deadline() > deadline);
    world.come_to_rest();
}

/// A lease for which no other process is known to wait.
fn watched_and_quiet(cache: Option<Duration>) -> World {
    let mut world = with(Handoff::Fair, cache);
    world.lock();
    world.event(Event::Advance(60));
    world.event(Event::StartWatch);
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert_eq!(world.machine.contention(), Some(Contention::Quiet));
    world
}

#[test]
fn a_wish_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(None);
    world.event(Event::Release);
    world.event(Event::Rival);
    assert_eq!(world.messages, [Hint::Contended]);
    world.event(Event::Deliver { nth: 0, again: false });
    world.event(Event::Enter(Limit::None));
    assert!(!world.machine.is_held() || world.machine.contention() == Some(Contention::Contended));
}

#[test]
fn a_cut_watch_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(Some(Duration::from_secs(600)));
    world.manner = world.manner.with_cache(None);
    world.event(Event::Release);
    world.event(Event::EndWatch(false));
    world.event(Event::Enter(Limit::None));
    assert!(!world.machine.is_held() || world.machine.contention() != Some(Contention::Quiet));
}

#[test]
fn a_deletion_heard_before_the_lease_is_taken_back_counts() {
    let mut world = watched_and_quiet(None);
    world.event(Event::Release);
    world.stored = None;
    world.event(Event::Hint(Hint::Released));
    let entered = world.machine.enter(Mode::Exclusive, Patience::Forever, world.manner);
    assert!(matches!(entered, Entrance::Done(Ok(_))), "{entered:?}");
    let next = world.machine.next.unwrap().at;
    assert!(next.saturating_duration_since(world.now) < Duration::from_millis(10));
}

/// A write without an answer keeps the token of its holder, so the next write needs another token.
#[test]
fn a_token_that_is_wanted_again_during_a_renewal_is_not_asked_for_without_end() {
    let mut world = plain();
    world.lock();
    let hold = world.holding.as_ref().unwrap().hold;
    let write = |world: &mut World| {
        world.begin();
        let write = world.machine.begin_write(hold, false, world.manner);
        world.carry_out();
        write.is_some()
    };
    while write(&mut world) {}
    assert_eq!(world.renewals.len(), 1, "it asks for tokens");
    assert!(!write(&mut world), "while the renewal is under way");
    world.event(Event::AnswerRenewal(Answer::Truth));
    assert!(world.renewals.is_empty(), "the process has tokens now");
    assert!(write(&mut world));
    world.come_to_rest();
}
