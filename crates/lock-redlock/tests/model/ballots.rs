//! The ballots by which a client asks for a lock again after it gave up, explored to the end.
//!
//! A client asks all nodes, by one ballot each. It holds the lock once it has heard of a majority of votes. It may give
//! up at any moment, release its ballots, and ask again by the next ballots. Messages take any time. Each vote and each
//! release that was sent may arrive again at any later moment, as often as it likes. No lease expires, so two holders
//! at once are always a fault.

use crate::search::search;

const NODES: usize = 3;
const CLIENTS: usize = 2;
const ATTEMPTS: u8 = 3;

/// How clients use their ballots.
#[derive(Clone, Copy, Debug, Default)]
struct Manner {
    /// All ballots of a client have one owner token.
    reuses: bool,
    /// A client counts votes for ballots that it gave up.
    counts_dead: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    /// The owner token for which each node has voted: the client, and the number of its attempt.
    votes: [Option<(usize, u8)>; NODES],
    clients: [Client; CLIENTS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    /// The number of the attempt. The ballots of all earlier attempts were given up.
    attempt: u8,
    holds: bool,
    /// For each attempt, the nodes whose answer is under way.
    answers: [[bool; NODES]; ATTEMPTS as usize],
    /// The nodes of which the client has heard that they voted.
    heard: [bool; NODES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Vote { client: usize, attempt: u8, node: usize },
    Hear { client: usize, attempt: u8, node: usize },
    GiveUp { client: usize },
    Release { client: usize, attempt: u8, node: usize },
}

/// Each state that can follow, and the step to it.
fn next(manner: Manner, state: &State, steps: &mut Vec<(Step, State)>) {
    for client in 0..CLIENTS {
        let now = state.clients[client].attempt;
        if now + 1 < ATTEMPTS {
            let mut next = *state;
            let it = &mut next.clients[client];
            (it.attempt, it.holds, it.heard) = (now + 1, false, [false; NODES]);
            if !manner.counts_dead {
                // These answers do not matter any more.
                it.answers = Default::default();
            }
            steps.push((Step::GiveUp { client }, next));
        }
        for node in 0..NODES {
            for attempt in 0..=now {
                let owner = (client, if manner.reuses { 0 } else { attempt });
                let vote = vote(manner, state, (client, attempt, node), owner);
                steps.extend(vote.map(|it| (Step::Vote { client, attempt, node }, it)));
                let hear = hear(manner, state, client, attempt, node);
                steps.extend(hear.map(|it| (Step::Hear { client, attempt, node }, it)));
                if attempt < now && state.votes[node] == Some(owner) {
                    let mut next = *state;
                    next.votes[node] = None;
                    steps.push((Step::Release { client, attempt, node }, next));
                }
            }
        }
    }
}

fn vote(
    manner: Manner,
    state: &State,
    (client, attempt, node): (usize, u8, usize),
    owner: (usize, u8),
) -> Option<State> {
    let mut next = *state;
    let is_granted = *next.votes[node].get_or_insert(owner) == owner;
    let it = &mut next.clients[client];
    if attempt == it.attempt && !it.heard[node] || manner.counts_dead {
        it.answers[usize::from(attempt)][node] = true;
    }
    is_granted.then_some(next)
}

fn hear(manner: Manner, state: &State, client: usize, attempt: u8, node: usize) -> Option<State> {
    let mut next = *state;
    let it = &mut next.clients[client];
    if !std::mem::take(&mut it.answers[usize::from(attempt)][node]) {
        return None;
    }
    if attempt == it.attempt || manner.counts_dead {
        it.heard[node] = true;
        it.holds = it.heard.iter().filter(|heard| **heard).count() > NODES / 2;
    }
    Some(next)
}

/// How many states there are, and the shortest story that ends with two holders.
fn explore(manner: Manner) -> (usize, Option<Vec<Step>>) {
    let are_all_holders = |state: &State| state.clients.iter().all(|client| client.holds);
    search(State::default(), |state, steps| next(manner, state, steps), are_all_holders)
}

#[test]
fn a_ballot_that_is_used_once_makes_one_holder() {
    let (states, story) = explore(Manner::default());
    println!("{states} states");
    assert_eq!(story, None);
}

/// A release of the first attempt arrives after the vote for the second.
#[test]
fn a_ballot_that_is_used_again_makes_two_holders() {
    let (_, story) = explore(Manner { reuses: true, ..Manner::default() });
    let story = story.unwrap();
    println!("{story:?}");
    let is_late = |step: &Step| matches!(step, Step::Release { client, .. } if story.contains(&Step::GiveUp { client: *client }));
    assert!(story.iter().any(is_late));
}

#[test]
fn a_vote_for_a_dead_ballot_must_not_count() {
    let (_, story) = explore(Manner { counts_dead: true, ..Manner::default() });
    assert!(story.is_some());
}
