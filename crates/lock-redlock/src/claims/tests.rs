use std::collections::HashSet;

use lock_core::TokenRange;
use proptest::prelude::*;

use super::*;
use crate::sweep;

const NODES: usize = 3;
const SPAN: Duration = Duration::from_nanos(100);
const NOW: Instant = Instant::from_nanos(1_000);

fn claims() -> Arc<Claims> {
    Arc::new(Claims::new(NODES, SPAN))
}

fn claim() -> Claim {
    Claim::exclusive(Key::new("a").unwrap(), OwnerToken::generate().unwrap())
}

fn held(valid_until: Instant) -> Held {
    let tokens = TokenRange::single(FencingToken::new(7));
    Held { tokens, valid_until, nodes: (0..NODES).collect() }
}

fn after(nanos: u64) -> Instant {
    NOW + Duration::from_nanos(nanos)
}

#[test]
fn a_late_vote_is_dead_unless_the_claim_is_wanted_or_held() {
    let (claims, claim) = (claims(), claim());
    let wanted = claims.want(&claim, NOW);
    let ballots = wanted.ballots(NOW).unwrap();
    assert!(claims.heard(&claim, ballots[0], NOW));
    assert!(wanted.win(ballots.clone(), held(after(1)), NOW).is_some());
    drop(wanted);
    assert!(claims.heard(&claim, ballots[0], NOW));
    assert!(!claims.heard(&claim, ballots[0], after(1)));
    claims.settled(&claim, ballots[0]);
    let (_, dead) = claims.end(&claim, NOW);
    assert_eq!(dead, ballots[1..]);
    dead.into_iter().for_each(|ballot| claims.settled(&claim, ballot));
    assert!(claims.lock().entries.is_empty());
}

#[test]
fn the_last_of_several_requests_gives_up_the_votes_of_all() {
    let (claims, claim) = (claims(), claim());
    let (mut first, mut second) = (claims.want(&claim, NOW), claims.want(&claim, NOW));
    let ballots = first.ballots(NOW).unwrap();
    assert_eq!(second.ballots(NOW).unwrap(), ballots);
    assert_eq!(first.give_up(Next::End, NOW), None);
    assert!(claims.heard(&claim, ballots[2], NOW));
    assert_eq!(second.give_up(Next::Keep, NOW), Some(Vec::new()));
    assert_eq!(second.give_up(Next::End, NOW), Some(ballots.clone()));
    assert!(!claims.heard(&claim, ballots[2], NOW));
}

#[test]
fn a_released_claim_is_not_granted_to_a_request_of_before() {
    let (claims, claim) = (claims(), claim());
    let mut wanted = claims.want(&claim, NOW);
    let ballots = wanted.ballots(NOW).unwrap();
    claims.end(&claim, NOW);
    assert!(wanted.win(ballots, held(after(9)), NOW).is_none());
    assert!(wanted.ballots(NOW).is_err());
    assert_eq!(wanted.give_up(Next::Again, NOW), None);
}

#[test]
fn an_old_refusal_takes_no_ballot_away_that_was_asked_for_again() {
    let (claims, claim) = (claims(), claim());
    let wanted = claims.want(&claim, NOW);
    let ballots = wanted.ballots(NOW).unwrap();
    claims.refused(&claim, ballots[0]);
    assert!(!claims.stands(&claim, ballots[0], NOW));
    let again = wanted.ballots(NOW).unwrap();
    claims.refused(&claim, again[0]);
    claims.refused(&claim, again[1]);
    assert!(!claims.stands(&claim, again[0], NOW) && claims.stands(&claim, again[1], NOW));
}

#[test]
fn a_lease_that_is_over_is_not_renewed() {
    let (claims, claim) = (claims(), claim());
    let wanted = claims.want(&claim, NOW);
    let ballots = wanted.ballots(NOW).unwrap();
    wanted.win(ballots, held(after(5)), NOW).unwrap();
    let (seen, nodes) = (claims.view(&claim), NodeSet::default());
    assert!(claims.extend(&claim, &seen, (after(8), nodes), after(4)));
    assert_eq!(claims.held(&claim, after(7)).map(|held| held.valid_until), Some(after(8)));
    assert!(!claims.extend(&claim, &seen, (after(20), nodes), after(8)));
    claims.end(&claim, after(6));
    assert!(!claims.extend(&claim, &seen, (after(20), nodes), after(6)));
}

#[test]
fn claims_that_are_over_are_forgotten() {
    let claims = claims();
    for step in 0..10 * sweep::MIN as u64 {
        let (claim, now) = (claim(), after(2 * step));
        let wanted = claims.want(&claim, now);
        let ballots = wanted.ballots(now).unwrap();
        wanted.win(ballots, held(now), now);
    }
    assert!(claims.lock().entries.len() <= 2 * sweep::MIN);
}

#[test]
fn the_floor_is_above_what_is_known_and_not_behind_the_time() {
    let (claims, key) = (claims(), Key::new("a").unwrap());
    let before = time();
    assert!(claims.floor(&key, 10) >= before);
    let ahead = FencingToken::new(time().get() + (1 << 40));
    claims.raise(&key, ahead);
    assert_eq!(claims.floor(&key, 10).get(), ahead.get() + 10);
    for number in 0..10 * sweep::MIN as u64 {
        claims.raise(&Key::new(number.to_string()).unwrap(), FencingToken::new(number));
    }
    assert!(claims.lock().last.len() <= 2 * sweep::MIN);
    assert_eq!(claims.floor(&key, 1).get(), ahead.get() + 1);
}

#[derive(Clone, Debug)]
enum Act {
    Ask,
    GiveUp(Next),
    Refuse(usize),
    Hear(usize),
    Settle,
    Win,
    End,
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let next = prop_oneof![Just(Next::Keep), Just(Next::Again), Just(Next::End)];
    prop_oneof![
        Just(Act::Ask),
        next.prop_map(Act::GiveUp),
        (0..NODES).prop_map(Act::Refuse),
        (0..NODES).prop_map(Act::Hear),
        Just(Act::Settle),
        Just(Act::Win),
        Just(Act::End),
        (1..40u64).prop_map(Act::Pass),
    ]
}

proptest! {
    /// A release may arrive at any time, so no ballot stands of which a release was ever owed.
    #[test]
    fn no_ballot_stands_again_that_was_given_up(acts in prop::collection::vec(act(), 1..60)) {
        let (claims, claim, mut now) = (claims(), claim(), NOW);
        let mut wanted = claims.want(&claim, now);
        let mut ballots = wanted.ballots(now).unwrap();
        let (mut dead, mut owed) = (HashSet::new(), Vec::new());
        for act in acts {
            let mut dies = Vec::new();
            match act {
                Act::Ask => {
                    dies = wanted.give_up_lapsed(now);
                    wanted = claims.want(&claim, now);
                    ballots = wanted.ballots(now).unwrap();
                }
                Act::GiveUp(next) => dies = wanted.give_up(next, now).unwrap_or_default(),
                Act::Refuse(node) => claims.refused(&claim, ballots[node]),
                Act::Hear(node) if !claims.heard(&claim, ballots[node], now) => {
                    dies.push(ballots[node]);
                }
                Act::Hear(_) => {}
                Act::Settle => owed.drain(..).for_each(|ballot| claims.settled(&claim, ballot)),
                Act::Win => drop(wanted.win(ballots.clone(), held(now + SPAN / 2), now)),
                Act::End => dies = claims.end(&claim, now).1,
                Act::Pass(nanos) => now = now + Duration::from_nanos(nanos),
            }
            owed.extend(dies.iter().copied());
            dead.extend(dies.into_iter().map(|ballot| (ballot.node, ballot.owner)));
            for ballot in &ballots {
                let stands = claims.stands(&claim, *ballot, now);
                prop_assert!(!stands || !dead.contains(&(ballot.node, ballot.owner)));
            }
        }
    }
}
