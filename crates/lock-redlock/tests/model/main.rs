//! The protocol by which a quorum gives out its tokens, explored to the end.
//!
//! Each node votes with a token. A client with a quorum of votes chooses the highest of their tokens. It holds the lock
//! once a quorum has confirmed that token. A node confirms it if it still holds the client's lease and has given out
//! nothing higher. Two things must be true of all holders: no two have the same token, and a client that begins after
//! another held the lock has the higher token. The protocol needs no clock, so the model has none: any lease may expire
//! at any moment.
//!
//! What is explored: every order in which the requests of three clients arrive at three nodes, answers that
//! come late or never, leases that expire at any moment, clients that give up, and then one fault or another:
//! a request that arrives twice, a node that restarts empty. The million of states takes some ten seconds
//! without optimisation. With
//!
//! ```text
//! LOCK_MODEL=full cargo test --release -p lock-redlock --test model
//! ```
//!
//! there are also four clients, five nodes and several faults at once: eighty million states, in a few
//! minutes and a few gigabytes.
//!
//! [`ballots`] and [`standing`] are models of their own: ballots that are used once, and nodes that lose their data or
//! are replaced.
//!
//! The test also explores variants of the protocol that look right and are not. For each it finds a shortest story that
//! breaks it, which `--nocapture` prints.

mod ballots;
mod explorer;
mod rules;
mod search;
mod standing;
mod state;
mod steps;

use explorer::explore;
use rules::{CLIENTS, Confirming, Quarantine, Rules};

const OWNER_ALONE: Confirming = Confirming::Checking { owner: true, height: false };
const HEIGHT_ALONE: Confirming = Confirming::Checking { owner: false, height: true };
const UNCHECKED: Confirming = Confirming::Checking { owner: false, height: false };

#[test]
fn a_token_that_a_quorum_confirmed_is_in_order() {
    let rules = Rules::protocol().slow();
    holds(rules);
    holds(rules.counters([2, 0, 1]));
    holds_at_length(rules.sized(3, 4));
    holds_at_length(rules.sized(5, 3));
    holds_at_length(rules.repeats(2));
}

#[test]
fn votes_that_agree_need_no_confirmation() {
    let rules = Rules::protocol();
    holds(rules);
    holds(rules.counters([2, 0, 1]));
    holds_at_length(rules.sized(3, 4));
    holds_at_length(rules.sized(5, 3));
}

#[test]
fn floors_may_be_equal_or_mixed_or_fall() {
    let rules = Rules::protocol();
    holds(rules.floors([3, 3, 3]));
    holds(rules.floors([1, 4, 2]).counters([2, 0, 1]));
    holds(rules.floors([4, 1, 4]).counters([0, 3, 0]));
    holds(rules.floors([4, 3, 1]));
    for floors in [[1, 2, 4], [1, 4, 2], [2, 1, 4], [2, 4, 1], [4, 1, 2], [4, 2, 1]] {
        holds_at_length(rules.floors(floors).sized(3, 4));
        holds_at_length(rules.floors(floors).sized(5, 3));
        holds_at_length(rules.floors(floors).counters([0, 3, 0]).repeats(1));
    }
}

#[test]
fn a_request_may_arrive_twice() {
    let rules = Rules::protocol().repeats(1);
    holds(rules);
    holds(rules.floors([1, 4, 2]));
    holds_at_length(rules.slow().counters([2, 0, 1]));
    holds_at_length(rules.sized(3, 4));
    holds_at_length(rules.sized(5, 3));
}

/// A client that came first in a split vote keeps its votes and asks all nodes again, also the nodes that voted for it.
/// Their answers count like the first ones.
#[test]
fn a_favourite_may_keep_its_votes_and_ask_again() {
    let rules = Rules::protocol().repeats(2);
    holds(rules.sized(3, 2));
    holds_at_length(rules);
    holds_at_length(rules.floors([1, 4, 2]));
    holds_at_length(rules.repeats(3).floors([4, 3, 1]));
}

/// A renewal plants the lease anew on a node that lost it, by a vote with the holder's token as its floor.
#[test]
fn a_holder_may_replant_its_lease() {
    let rules = Rules::protocol().replants(1);
    holds(rules);
    holds(rules.floors([4, 3, 1]));
    holds_at_length(rules.repeats(1));
    holds_at_length(rules.repeats(1).floors([1, 4, 2]));
    holds_at_length(rules.sized(3, 4));
}

/// Floors that follow a clock: by the end of a quarantine they have risen above all tokens from before the
/// restart. Clocks may be apart by less than that.
#[test]
fn a_quarantine_with_floors_that_rise_is_enough() {
    let rising = Rules::protocol().restarts(waits(0)).floors([2, 5, 8]);
    holds(rising);
    let apart = Rules::protocol().floors([3, 2, 1]).restarts(waits_for_all(6));
    holds(apart);
    holds_at_length(rising.floors([1, 5, 10]).repeats(1));
    holds_at_length(rising.floors([1, 5, 10]).replants(1));
    holds_at_length(apart.repeats(1));
    holds_at_length(apart.replants(1));
}

#[test]
fn a_quarantine_and_then_the_others_counters_are_enough() {
    let rules = Rules::protocol().restarts(RESYNCS);
    holds(rules);
    holds_at_length(rules.floors([4, 3, 1]));
    holds_at_length(rules.repeats(1));
    holds_at_length(rules.replants(1));
    holds_at_length(rules.replants(1).repeats(1).floors([1, 4, 2]));
}

#[test]
fn the_highest_vote_alone_is_no_token() {
    let rules = Rules::protocol().confirms(Confirming::Never);
    breaks(
        rules,
        "n1 votes for c0 with 2 (c1's lease there has expired); c0 chooses 2; c0 holds the lock with 2, as another did",
    );
    breaks(
        rules.floors([3, 3, 3]),
        "n1 votes for c0 with 4 (c1's lease there has expired); c0 chooses 4; c0 holds the lock with 4, as another did",
    );
}

#[test]
fn confirming_without_a_look_is_not_enough() {
    breaks(
        Rules::protocol().slow().confirms(UNCHECKED),
        "n0 confirms to c1, at 2; c1 holds the lock with 2, as another did",
    );
}

#[test]
fn a_node_that_confirms_must_hold_the_lease() {
    breaks(
        Rules::protocol().slow().confirms(HEIGHT_ALONE),
        "n0 confirms to c1, at 2; c1 holds the lock with 2, as another did",
    );
    breaks(
        Rules::protocol().confirms(HEIGHT_ALONE),
        "n1 confirms to c1, at 2; c1 holds the lock with 2, as another did",
    );
}

/// A vote that arrives after the client chose its token, or arrives twice, is above it: to confirm the token
/// there would be to hide it from later clients.
#[test]
fn a_node_that_confirms_must_not_have_a_higher_token() {
    let rules = Rules::protocol().slow().confirms(OWNER_ALONE);
    breaks(rules, "n1 confirms to c1, at 3; c1 holds the lock with 2, as another did");
    breaks(rules.repeats(1), "n2 confirms to c0, at 3; c0 holds the lock with 2, as another did");
}

#[test]
fn a_node_that_forgot_must_not_vote() {
    breaks(
        Rules::protocol().restarts(Quarantine::None),
        "n0 votes for c1 with 1; c1 chooses 1; c1 holds the lock with 1, as another did",
    );
}

/// Once it is over, no lease is left that could be forgotten. But the counter is forgotten, too.
#[test]
fn a_quarantine_alone_is_not_enough() {
    let rules = Rules::protocol().restarts(waits_for_all(0));
    breaks(rules, "n0 votes for c1 with 1; c1 chooses 1; c1 holds the lock with 1, as another did");
    breaks(
        rules.floors([3, 3, 3]),
        "n0 votes for c1 with 3; c1 chooses 3; c1 holds the lock with 3, as another did",
    );
    breaks(
        rules.floors([4, 3, 1]),
        "n0 votes for c1 with 3; c1 chooses 3; c1 holds the lock with 3 after another had held it with 4",
    );
}

/// If nodes give out more tokens than the clock has, those after the quarantine are no higher.
#[test]
fn tokens_must_not_outrun_the_clock() {
    breaks(
        Rules::protocol().floors([1, 2, 3]).restarts(waits(0)),
        "n0 votes for c2 with 3; c2 chooses 3; c2 holds the lock with 3, as another did",
    );
}

/// A client that begins just after the restart brings a floor from then, and may vote still when the node
/// does again. So floors must have risen enough by the time at which the *earliest of them* began: a
/// quarantine must be longer than a lease by what the clocks may be apart.
#[test]
fn a_quarantine_must_outlast_requests_that_begin_in_it() {
    breaks(
        Rules::protocol().floors([2, 2, 2]).restarts(waits(6)),
        "n0 votes for c1 with 2; c1 chooses 2; c1 holds the lock with 2, as another did",
    );
}

/// Leaving out what makes no difference leaves out no outcome.
#[test]
fn the_reductions_lose_nothing() {
    let all = [
        Rules::protocol().sized(3, 2).repeats(1),
        Rules::protocol().sized(3, 2).floors([3, 1, 1]).slow(),
        Rules::protocol().sized(3, 2).restarts(RESYNCS).replants(1),
    ];
    for rules in all {
        let (full, reduced) = (explore(&rules.unreduced()), explore(&rules));
        assert!(reduced.states * 4 < full.states, "{} of {}", reduced.states, full.states);
        assert_eq!(reduced.outcomes, full.outcomes, "{rules:?}");
    }
}

const RESYNCS: Quarantine = Quarantine::Waits { resyncs: true, rise: 0, straddled: true };

/// Until all are over that were under way at the restart.
fn waits(rise: u8) -> Quarantine {
    Quarantine::Waits { resyncs: false, rise, straddled: true }
}

/// Until those are over, too, that began meanwhile.
fn waits_for_all(rise: u8) -> Quarantine {
    Quarantine::Waits { resyncs: false, rise, straddled: false }
}

fn holds(rules: Rules) {
    let found = explore(&rules);
    println!("{} states: {rules:?}", found.states);
    if let Some(story) = found.counterexample {
        panic!("{rules:?}\n{story}");
    }
    let all_held = |tokens: &[u8; CLIENTS]| tokens[..rules.clients].iter().all(|token| *token > 0);
    assert!(found.outcomes.iter().any(all_held), "not every client ever held the lock");
}

/// Only when asked for, since it takes minutes without optimisation.
fn holds_at_length(rules: Rules) {
    if is_full() {
        holds(rules);
    }
}

fn is_full() -> bool {
    std::env::var_os("LOCK_MODEL").is_some_and(|model| model == "full")
}

/// There is a story that ends so.
fn breaks(rules: Rules, end: &str) {
    let story = explore(&rules).counterexample.expect("nothing went wrong, which it should");
    println!("{rules:?}\n{story}");
    assert_eq!(story.end(), end);
}
