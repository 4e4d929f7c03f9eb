use std::collections::HashSet;

use futures::FutureExt;
use lock_core::{FencingToken, Key, TokenRange};
use proptest::prelude::*;

use super::*;
use crate::swept;

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

fn begin(claims: &Arc<Claims>, claim: &Claim, now: Instant) -> Asker {
    match claims.begin(&request(claim), now) {
        Begun::First(asker, _) => asker,
        Begun::Joined(_) => panic!("another request is under way"),
    }
}

fn joined(claims: &Arc<Claims>, claim: &Claim) -> oneshot::Receiver<Outcome> {
    match claims.begin(&request(claim), NOW) {
        Begun::First(..) => panic!("no other request is under way"),
        Begun::Joined(outcome) => outcome,
    }
}

/// The ballots by which a request has asked all nodes.
fn ask(claims: &Arc<Claims>, asker: &Asker, claim: &Claim, now: Instant) -> Vec<Ballot> {
    let owner = asker.attempt(now).unwrap();
    let ballots: Vec<_> = (0..NODES).map(|node| Ballot { node, owner }).collect();
    ballots.iter().for_each(|ballot| claims.note_request(claim, *ballot, now).unwrap());
    ballots
}

fn stands(claims: &Claims, claim: &Claim, ballot: Ballot, now: Instant) -> bool {
    let state = claims.state.lock();
    state.entries.get(claim).is_some_and(|entry| entry.stands(ballot, now))
}

fn request(claim: &Claim) -> Acquire {
    Acquire::new(claim.clone(), lock_core::Ttl::DEFAULT)
}

#[test]
fn a_late_vote_is_dead_unless_the_claim_is_asked_for_or_held() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &asker, &claim, NOW);
    assert!(claims.heard(&claim, ballots[0], NOW));
    assert!(asker.win(ballots[0].owner, held(after(1)), NOW).is_some());
    drop(asker);
    assert!(claims.heard(&claim, ballots[0], NOW));
    assert!(!claims.heard(&claim, ballots[0], after(1)));
    claims.freed(&claim, ballots[0]);
    let (_, dead, unheard) = claims.end(&claim, NOW);
    assert_eq!(unheard, (1..NODES).collect());
    assert_eq!(dead, ballots[1..]);
    for ballot in dead {
        claims.freed(&claim, ballot);
    }
    assert_eq!(claims.state.lock().entries.len(), 0);
}

#[test]
fn a_repeated_request_gets_the_outcome_of_the_first() {
    let (claims, claim) = (claims(), claim());
    let mut asker = begin(&claims, &claim, NOW);
    let mut outcomes = [(); 2].map(|()| joined(&claims, &claim));
    let busy = AcquireOutcome::Busy { retry_after: None };
    asker.end(&request(&claim), &Ok(busy.clone()));
    for outcome in &mut outcomes {
        let (_, attempt) = outcome.try_recv().unwrap().unwrap();
        assert_eq!(attempt, busy);
    }
    begin(&claims, &claim, NOW);
}

#[test]
fn a_repeated_request_asks_for_itself_if_the_first_fails_or_is_dropped() {
    let (claims, claim) = (claims(), claim());
    for is_dropped in [false, true] {
        let mut asker = begin(&claims, &claim, NOW);
        let mut outcome = joined(&claims, &claim);
        match is_dropped {
            false => asker.end(&request(&claim), &Err(released())),
            true => drop(asker),
        }
        assert_eq!(outcome.try_recv().unwrap_err(), oneshot::error::TryRecvError::Closed);
        begin(&claims, &claim, NOW);
    }
}

#[test]
fn a_request_that_takes_too_long_is_as_if_it_were_dropped() {
    let (claims, claim) = (claims(), claim());
    let mut slow = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &slow, &claim, NOW);
    assert_eq!(claims.overtake(&claim, NOW), ballots);
    let asker = begin(&claims, &claim, NOW);
    let others = ask(&claims, &asker, &claim, NOW);
    assert!(slow.attempt(NOW).is_err() && slow.give_up(NOW).is_empty());
    slow.end(&request(&claim), &Ok(AcquireOutcome::Busy { retry_after: None }));
    drop(slow);
    assert!(others.iter().all(|ballot| stands(&claims, &claim, *ballot, NOW)));
    assert!(asker.win(others[0].owner, held(after(9)), NOW).is_some());
    // A held lease is not given up.
    drop(asker);
    let _again = begin(&claims, &claim, NOW);
    assert!(claims.overtake(&claim, NOW).is_empty() && claims.held(&claim, NOW).is_some());
}

/// Counts how often the task is woken.
#[derive(Default)]
struct Counts(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

/// The dead ballots of the first request keep the claim in its life.
#[test]
fn a_request_that_is_over_ends_no_later_request() {
    let (claims, claim) = (claims(), claim());
    let mut first = begin(&claims, &claim, NOW);
    ask(&claims, &first, &claim, NOW);
    assert_eq!(first.give_up(NOW).len(), NODES);
    first.end(&request(&claim), &Ok(AcquireOutcome::Busy { retry_after: None }));
    let next = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &next, &claim, NOW);
    assert_eq!(first.give_up(NOW), []);
    drop(first);
    assert!(ballots.iter().all(|ballot| stands(&claims, &claim, *ballot, NOW)));
}

/// An earlier design woke all waiters for each release.
#[test]
fn a_release_wakes_only_the_requests_that_wait_for_its_claim() {
    const MANY: usize = 1_000;
    let claims = claims();
    let many: Vec<_> = (0..MANY).map(|_| claim()).collect();
    let mut askers: Vec<_> = many.iter().map(|claim| begin(&claims, claim, NOW)).collect();
    let woken: Vec<_> = many.iter().map(|_| Arc::<Counts>::default()).collect();
    let mut waiting: Vec<_> = many.iter().map(|claim| joined(&claims, claim)).collect();
    for (waiting, woken) in waiting.iter_mut().zip(&woken) {
        let waker = Arc::clone(woken).into();
        let context = &mut std::task::Context::from_waker(&waker);
        assert!(std::pin::Pin::new(waiting).poll(context).is_pending());
    }
    let of = |of: [usize; 2]| -> Vec<_> {
        let counts = woken.iter().map(|it| it.0.load(std::sync::atomic::Ordering::SeqCst));
        counts.enumerate().filter(|(number, count)| of.contains(number) || *count > 0).collect()
    };

    // A claim that no other request waits for is granted, renewed and released.
    let one = claim();
    let asker = begin(&claims, &one, NOW);
    let ballots = ask(&claims, &asker, &one, NOW);
    asker.win(ballots[0].owner, held(after(5)), NOW).unwrap();
    drop(asker);
    assert!(claims.extend(&one, &claims.view(&one), (after(8), NodeSet::default()), NOW));
    claims.end(&one, NOW);
    assert_eq!(of([7, 9]), [(7, 0), (9, 0)]);

    claims.end(&many[7], NOW);
    assert_eq!(of([7, 9]), [(7, 1), (9, 0)]);
    askers[9].end(&request(&many[9]), &Ok(AcquireOutcome::Busy { retry_after: None }));
    assert_eq!(of([7, 9]), [(7, 1), (9, 1)]);
}

/// Whether the claims are unlocked when the waker runs.
struct Looks(Arc<Claims>, std::sync::atomic::AtomicBool);

impl std::task::Wake for Looks {
    fn wake(self: Arc<Self>) {
        let (sender, receiver) = std::sync::mpsc::channel();
        let claims = Arc::clone(&self.0);
        std::thread::spawn(move || {
            claims.held(&claim(), NOW);
            let _late = sender.send(());
        });
        let is_unlocked = receiver.recv_timeout(Duration::from_secs(1)).is_ok();
        self.1.store(is_unlocked, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn a_request_that_is_overtaken_wakes_no_other_request_under_the_lock() {
    for is_held in [false, true] {
        let (claims, claim) = (claims(), claim());
        let asker = begin(&claims, &claim, NOW);
        let ballots = ask(&claims, &asker, &claim, NOW);
        if is_held {
            assert!(asker.win(ballots[0].owner, held(after(9)), NOW).is_some());
        }
        let mut waiting = joined(&claims, &claim);
        let looks = Arc::new(Looks(Arc::clone(&claims), false.into()));
        let waker = Arc::clone(&looks).into();
        assert!(waiting.poll_unpin(&mut std::task::Context::from_waker(&waker)).is_pending());
        claims.overtake(&claim, NOW);
        assert!(looks.1.load(std::sync::atomic::Ordering::SeqCst), "held: {is_held}");
    }
}

/// A slow node answers an earlier ballot, while it has not heard of the present one.
#[test]
fn an_answer_to_an_earlier_ballot_says_nothing_about_the_present_vote() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let earlier = ask(&claims, &asker, &claim, NOW);
    asker.give_up(NOW);
    let present = ask(&claims, &asker, &claim, NOW);
    assert!(!claims.heard(&claim, earlier[0], NOW));
    claims.refused(&claim, earlier[1]);
    assert!(claims.heard(&claim, present[2], NOW));
    let (_, _, unheard) = claims.end(&claim, NOW);
    assert_eq!(unheard, (0..2).collect());
}

/// The network may deliver the request for the vote once more after the release.
#[test]
fn the_release_of_a_ballot_that_was_given_up_before_its_vote_came_is_repeated() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &asker, &claim, NOW);
    assert_eq!(asker.give_up(NOW), ballots);
    assert!(!claims.heard(&claim, ballots[0], NOW));
    assert!(claims.freed(&claim, ballots[0]));
}

#[test]
fn a_released_claim_is_not_granted_to_a_request_of_before() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &asker, &claim, NOW);
    let mut outcome = joined(&claims, &claim);
    claims.end(&claim, NOW);
    assert!(outcome.try_recv().unwrap().is_err());
    assert!(asker.win(ballots[0].owner, held(after(9)), NOW).is_none());
    assert!(asker.attempt(NOW).is_err());
    assert!(asker.give_up(NOW).is_empty());
}

#[test]
fn an_old_refusal_takes_no_ballot_away_that_was_asked_for_again() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &asker, &claim, NOW);
    claims.refused(&claim, ballots[0]);
    assert!(!stands(&claims, &claim, ballots[0], NOW));
    let again = ask(&claims, &asker, &claim, NOW);
    claims.refused(&claim, again[0]);
    claims.refused(&claim, again[1]);
    assert!(!stands(&claims, &claim, again[0], NOW) && stands(&claims, &claim, again[1], NOW));
}

/// Each of two requests may be the one that the node answers first, or never.
#[test]
fn a_node_has_granted_a_ballot_when_the_last_of_its_requests_has_an_answer() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballot = ask(&claims, &asker, &claim, NOW)[0];
    assert!(asker.win(ballot.owner, held(after(9)), NOW).is_some());
    drop(asker);
    let given = || claims.given(&claim, ballot, NOW);
    let ask_again = || claims.note_request(&claim, ballot, NOW).unwrap();
    assert!(matches!(given(), Given::Soon(_)));
    ask_again();
    claims.heard(&claim, ballot, NOW);
    assert!(matches!(given(), Given::Soon(_)));
    claims.missed(&claim, ballot, true, NOW);
    assert!(matches!(given(), Given::No));
    // The node may have heard of only one of the requests, and the other one may be late.
    claims.renewed(&claim, ballot);
    assert!(matches!(given(), Given::No));
    ask_again();
    claims.heard(&claim, ballot, NOW);
    assert!(matches!(given(), Given::Yes));
    claims.lost(&claim, ballot);
    claims.renewed(&claim, ballot);
    assert!(matches!(given(), Given::No));
    ask_again();
    claims.heard(&claim, ballot, NOW);
    assert!(matches!(given(), Given::Yes));
    assert!(matches!(claims.given(&claim, ballot, after(9)), Given::No));
    claims.end(&claim, NOW);
    assert!(matches!(given(), Given::No));
}

#[test]
fn a_vote_that_ends_wakes_the_writes_of_its_claim_alone() {
    let claims = claims();
    let [first, other] = [(); 2].map(|()| {
        let claim = claim();
        let asker = begin(&claims, &claim, NOW);
        let ballots = ask(&claims, &asker, &claim, NOW);
        assert!(asker.win(ballots[0].owner, held(after(9)), NOW).is_some());
        (claim, ballots)
    });
    let waits = |it: &(Claim, Vec<Ballot>)| match claims.given(&it.0, it.1[0], NOW) {
        Given::Soon(vote_ended) => vote_ended,
        given => panic!("{given:?}"),
    };
    let (one, two, elsewhere) = (waits(&first), waits(&first), waits(&other));
    claims.heard(&first.0, first.1[1], NOW);
    assert!(one.now_or_never().is_some() && two.now_or_never().is_some());
    // The vote of the first node is still under way, and ends without an answer.
    let one = waits(&first);
    claims.missed(&first.0, first.1[0], true, NOW);
    assert!(one.now_or_never().is_some());
    claims.end(&first.0, NOW);
    assert!(elsewhere.now_or_never().is_none());
    let one = waits(&other);
    claims.refused(&other.0, other.1[2]);
    assert!(one.now_or_never().is_some());
}

#[test]
fn a_renewal_shows_that_the_only_request_for_a_vote_has_arrived() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballot = ask(&claims, &asker, &claim, NOW)[0];
    assert!(asker.win(ballot.owner, held(after(9)), NOW).is_some());
    claims.missed(&claim, ballot, true, NOW);
    claims.renewed(&claim, ballot);
    assert!(matches!(claims.given(&claim, ballot, NOW), Given::Yes));
}

/// The process does not know what another process has heard of the nodes.
#[test]
fn the_claim_of_another_process_counts_as_granted() {
    let (claims, claim) = (claims(), claim());
    let ballot = Ballot { node: 0, owner: claim.owner };
    assert!(matches!(claims.given(&claim, ballot, NOW), Given::Yes));
}

#[test]
fn a_lease_that_is_over_is_not_renewed() {
    let (claims, claim) = (claims(), claim());
    let asker = begin(&claims, &claim, NOW);
    let ballots = ask(&claims, &asker, &claim, NOW);
    asker.win(ballots[0].owner, held(after(5)), NOW).unwrap();
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
    for step in 0..10 * swept::MIN as u64 {
        let (claim, now) = (claim(), after(2 * step));
        let asker = begin(&claims, &claim, now);
        let ballots = ask(&claims, &asker, &claim, now);
        asker.win(ballots[0].owner, held(now), now);
    }
    assert!(claims.state.lock().entries.len() <= 2 * swept::MIN);
}

#[derive(Clone, Debug)]
enum Act {
    Ask,
    GiveUp,
    Overtake,
    Refuse(usize),
    Hear(usize),
    Free,
    Win,
    End,
    Pass(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Ask),
        Just(Act::GiveUp),
        Just(Act::Overtake),
        (0..NODES).prop_map(Act::Refuse),
        (0..NODES).prop_map(Act::Hear),
        Just(Act::Free),
        Just(Act::Win),
        Just(Act::End),
        (1..40u64).prop_map(Act::Pass),
    ]
}

proptest! {
    /// A release may arrive at any time. So a ballot never stands again once its release was due.
    #[test]
    fn no_ballot_stands_again_that_was_given_up(acts in prop::collection::vec(act(), 1..60)) {
        let (claims, claim, mut now) = (claims(), claim(), NOW);
        let mut asker = begin(&claims, &claim, now);
        let mut ballots = ask(&claims, &asker, &claim, now);
        let (mut dead, mut owed) = (HashSet::new(), Vec::new());
        for act in acts {
            let mut dies = Vec::new();
            match act {
                Act::Ask => {
                    drop(asker);
                    match claims.begin(&request(&claim), now) {
                        Begun::First(next, lapsed) => (asker, dies) = (next, lapsed),
                        Begun::Joined(_) => unreachable!("the last request is over"),
                    }
                    ballots = ask(&claims, &asker, &claim, now);
                }
                Act::GiveUp => dies = asker.give_up(now),
                Act::Overtake => dies = claims.overtake(&claim, now),
                Act::Refuse(node) => claims.refused(&claim, ballots[node]),
                Act::Hear(node) if !claims.heard(&claim, ballots[node], now) => {
                    dies.push(ballots[node]);
                }
                Act::Hear(_) => {}
                Act::Free => {
                    for ballot in owed.drain(..) {
                        claims.freed(&claim, ballot);
                    }
                }
                Act::Win => drop(asker.win(ballots[0].owner, held(now + SPAN / 2), now)),
                Act::End => dies = claims.end(&claim, now).1,
                Act::Pass(nanos) => now = now + Duration::from_nanos(nanos),
            }
            owed.extend(dies.iter().copied());
            dead.extend(dies.into_iter().map(|ballot| (ballot.node, ballot.owner)));
            for ballot in &ballots {
                let stands = stands(&claims, &claim, *ballot, now);
                prop_assert!(!stands || !dead.contains(&(ballot.node, ballot.owner)));
            }
        }
    }
}
