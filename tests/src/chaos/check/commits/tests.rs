use std::time::Duration;

use super::super::Trouble;
use super::super::scene::{Scene, at};
use super::*;
use crate::chaos::history::{Deed, Op, Patience, Refusal, Way};
use crate::chaos::{Extent, Fault};

const KEY: &str = "v0";

fn terms() -> Terms {
    Terms::new(Deployment::Redis, Duration::from_secs(1))
}

fn sight(version: u64, value: u64) -> Sight {
    let version = (version > 0).then(|| FencingToken::new(version));
    Sight { version, value: Some(value) }
}

fn asks(scene: &mut Scene, client: &str, op: Op, when: u64, finds: Sight) {
    let (key, patience) = (KEY.to_owned(), Patience::None);
    scene.event(client, when, Deed::Ask { op, task: 0, key, way: Way::Write, patience });
    scene.event(client, when, Deed::Found { op, sight: finds });
}

/// A holder that asks and finds this, and stores a value from one time to another. `version` is zero if it gets no
/// answer.
fn stores(
    scene: &mut Scene,
    (client, op): (&str, Op),
    finds: Sight,
    [begins, ends]: [u64; 2],
    (version, value): (u64, u64),
) {
    asks(scene, client, op, begins, finds);
    let base = finds.value.unwrap_or_default();
    scene.event(client, begins, Deed::Store { op, value, base });
    if version > 0 {
        let version = FencingToken::new(version);
        scene.event(client, ends, Deed::Stored { op, version });
    }
}

fn peeks(scene: &mut Scene, op: Op, [asks, told]: [u64; 2], sight: Sight) {
    scene.event("p", asks, Deed::Peek { op, task: 0, key: KEY.to_owned() });
    scene.event("p", told, Deed::Peeked { op, sight });
}

fn found(scene: &Scene, terms: &Terms) -> Vec<(Property, u64)> {
    let of = |it: &Violation| (it.property, it.at.as_nanos() / 1_000_000);
    check(scene.events(), terms).iter().map(of).collect()
}

/// Two values that were stored, and between them one whose outcome is unknown.
fn sound() -> Scene {
    let mut scene = Scene::new();
    peeks(&mut scene, 0, [0, 5], sight(0, 0));
    stores(&mut scene, ("a", 0), sight(0, 0), [10, 20], (3, 70));
    stores(&mut scene, ("b", 0), sight(3, 70), [30, 40], (0, 80));
    stores(&mut scene, ("a", 1), sight(5, 80), [50, 60], (6, 90));
    // It asked before the answer.
    peeks(&mut scene, 1, [55, 65], sight(5, 80));
    peeks(&mut scene, 2, [62, 66], sight(6, 90));
    scene
}

#[test]
fn stored_values_and_one_in_doubt_are_a_chain() {
    assert_eq!(found(&sound(), &terms()), []);
    // The value in doubt was not stored.
    let mut without = Scene::new();
    stores(&mut without, ("a", 0), sight(0, 0), [10, 20], (3, 70));
    stores(&mut without, ("b", 0), sight(3, 70), [30, 40], (0, 80));
    stores(&mut without, ("a", 1), sight(3, 70), [50, 60], (6, 90));
    assert_eq!(found(&without, &terms()), []);
}

#[test]
fn a_value_that_the_next_holder_did_not_find_is_lost() {
    let mut scene = sound();
    // It found what was there before the last value.
    stores(&mut scene, ("c", 0), sight(5, 80), [70, 80], (8, 100));
    assert_eq!(found(&scene, &terms()), [(Property::Commits, 70), (Property::Commits, 80)]);
    // It asked early enough to find that, and yet the lock was not its own.
    let mut stale = sound();
    stores(&mut stale, ("c", 0), sight(5, 80), [55, 80], (8, 100));
    assert_eq!(found(&stale, &terms()), [(Property::Commits, 80)]);
}

#[test]
fn a_value_that_no_client_stored_and_half_a_value_are_found() {
    let wrong = |sight: Sight| {
        let mut scene = sound();
        peeks(&mut scene, 9, [70, 75], sight);
        found(&scene, &terms())
    };
    assert_eq!(wrong(sight(6, 90)), []);
    let snapshots = [(Property::Snapshots, 75)];
    assert_eq!(wrong(sight(9, 1234)), snapshots);
    assert_eq!(wrong(Sight { value: None, ..sight(6, 0) }), snapshots);
    // With another version, and with that of a value before it.
    assert_eq!(wrong(sight(7, 90)), snapshots);
    assert_eq!(wrong(sight(6, 0)), snapshots);
    assert_eq!(wrong(sight(3, 70)), snapshots);
    let mut holder = sound();
    asks(&mut holder, "c", 0, 70, Sight { value: None, ..sight(6, 0) });
    assert_eq!(found(&holder, &terms()), [(Property::Commits, 70)]);
}

#[test]
fn over_a_quorum_a_value_may_be_stored_again() {
    let mut scene = sound();
    peeks(&mut scene, 9, [70, 75], sight(7, 90));
    let quorum = Terms::new(Deployment::Quorum(3), Duration::from_secs(1));
    assert_eq!(found(&scene, &quorum), []);
}

#[test]
fn what_was_not_stored_is_not_seen() {
    let with = |certain: bool| {
        let mut scene = Scene::new();
        stores(&mut scene, ("a", 0), sight(0, 0), [10, 20], (0, 70));
        scene.event("a", 20, Deed::Unstored { op: 0, why: Refusal::GivenUp, certain });
        peeks(&mut scene, 0, [30, 31], sight(3, 70));
        found(&scene, &terms())
    };
    assert_eq!(with(false), []);
    assert_eq!(with(true), [(Property::Snapshots, 31)]);
}

#[test]
fn versions_increase() {
    let mut scene = sound();
    stores(&mut scene, ("c", 0), sight(6, 90), [70, 80], (6, 100));
    assert!(found(&scene, &terms()).contains(&(Property::Commits, 80)));
    // Two values of one holder.
    let mut twice = sound();
    twice.event("a", 61, Deed::Store { op: 1, value: 95, base: 90 });
    twice.event("a", 62, Deed::Stored { op: 1, version: FencingToken::new(6) });
    assert_eq!(found(&twice, &terms()), []);
}

/// A stream that hears of these versions of the values of `sound`, and ends at this time.
fn followed(heard: &[(u64, Sight)], ends: u64) -> Scene {
    let mut scene = sound();
    scene.event("f", 1, Deed::Follow { op: 0, task: 0, key: KEY.to_owned() });
    for &(when, sight) in heard {
        scene.event("f", when, Deed::Heard { op: 0, sight });
    }
    scene.event("f", ends, Deed::Unfollow { op: 0 });
    scene
}

#[test]
fn a_stream_goes_forward_to_the_last_version() {
    let (first, last) = ((25, sight(3, 70)), (70, sight(6, 90)));
    let back = (80, sight(3, 70));
    let snapshots = |at| vec![(Property::Snapshots, at)];
    assert_eq!(found(&followed(&[first, last], 20_000), &terms()), []);
    assert_eq!(found(&followed(&[first, last, back], 90), &terms()), snapshots(80));
    assert_eq!(found(&followed(&[first, (26, first.1)], 90), &terms()), snapshots(26));
    assert_eq!(found(&followed(&[first], 20_000), &terms()), snapshots(20_000));
    // It had too little time.
    assert_eq!(found(&followed(&[first], 1_000), &terms()), []);
}

#[test]
fn a_store_that_forgets_loses_values_then_and_not_later() {
    let with = |begin: u64| {
        let mut scene = sound();
        stores(&mut scene, ("c", 0), sight(0, 0), [9_000, 9_010], (9, 100));
        let mut terms = terms();
        terms.troubles = vec![Trouble {
            fault: Fault::Flush,
            extent: Extent::Majority,
            servers: vec![0],
            workers: vec![],
            begin: at(begin),
            end: at(begin),
        }];
        found(&scene, &terms).len()
    };
    assert_eq!(with(1_000), 0);
    assert_ne!(with(9_100), 0);
}

#[test]
fn a_call_fails_for_a_reason() {
    let fails = |why: Refusal| {
        let mut scene = Scene::new();
        stores(&mut scene, ("a", 0), sight(0, 0), [10, 20], (0, 70));
        scene.event("a", 20, Deed::Unstored { op: 0, why, certain: false });
        found(&scene, &terms())
    };
    let wrong = [(Property::Errors, 20)];
    assert_eq!(fails(Refusal::GivenUp), []);
    assert_eq!(fails(Refusal::Lost), wrong);
    assert_eq!(fails(Refusal::Failed("Timeout".to_owned())), wrong);
}

#[test]
fn a_write_after_one_without_an_answer_may_find_no_token_once_a_clock_was_set() {
    let fails = |is_first: bool, fault: Fault| {
        let mut scene = Scene::new();
        asks(&mut scene, "a", 0, 10, sight(0, 0));
        for value in [70, 80].into_iter().skip(usize::from(is_first)) {
            scene.event("a", 5_010, Deed::Store { op: 0, value, base: 0 });
        }
        let why = Refusal::Failed("NotReady".to_owned());
        scene.event("a", 5_020, Deed::Unstored { op: 0, why, certain: true });
        let mut terms = terms();
        let (begin, end, extent) = (at(5), at(5), Extent::Minority);
        terms.troubles =
            vec![Trouble { fault, extent, servers: vec![0], workers: vec![], begin, end }];
        let of_errors = |(property, _): &(Property, u64)| *property == Property::Errors;
        found(&scene, &terms).into_iter().filter(of_errors).count()
    };
    assert_eq!(fails(false, Fault::ClockJump), 0);
    assert_eq!(fails(true, Fault::ClockJump), 1);
    assert_eq!(fails(false, Fault::ClockRate), 1);
}

#[test]
fn a_read_over_a_quorum_may_time_out_when_its_whole_limit_is_over() {
    let ended = |deployment, at| {
        let mut scene = Scene::new();
        scene.event("p", 0, Deed::Peek { op: 0, task: 0, key: KEY.to_owned() });
        scene.event("p", at, Deed::Not { op: 0, why: Refusal::TimedOut });
        let mut terms = terms();
        terms.deployment = deployment;
        found(&scene, &terms).len()
    };
    let limit = u64::try_from(terms().wait_limit.as_millis()).unwrap();
    assert_eq!(ended(Deployment::Quorum(3), limit), 0);
    assert_eq!(ended(Deployment::Quorum(3), limit / 2), 1);
    assert_eq!(ended(Deployment::Redis, limit), 1);
}
