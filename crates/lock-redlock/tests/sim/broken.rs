//! Stories that must go wrong: promises that the quorum does not make, and nodes and clients that break the rules. If
//! the checks did not see the fault here, they would see none.

use crate::history::Wrong;
use crate::plan::{Faults, Flaw};
use crate::quiet::take_turns;
use crate::story::{Ending, tell};
use crate::{FORGETTING, MESSAGES, STALLS};

/// By this seed at the latest it has gone wrong.
const LIMIT: u64 = 3000;

const WILD: Faults = Faults { wild_clocks: true, ..MESSAGES };
const VALUES: Faults = Faults { values: true, ..STALLS };

#[test]
fn without_quarantine_a_node_that_forgets_makes_two_holders() {
    let faults = Faults { unguarded: true, ..FORGETTING };
    goes_wrong(faults, Flaw::None, Wrong::Exclusion);
}

#[test]
fn clocks_further_apart_than_a_quarantine_turn_tokens_back_when_nodes_forget() {
    goes_wrong(Faults { wild_clocks: true, ..FORGETTING }, Flaw::None, Wrong::Order);
}

#[test]
fn a_node_that_is_quarantined_must_not_vote() {
    goes_wrong(FORGETTING, Flaw::VotesKeptOut, Wrong::KeptOut);
    goes_wrong(FORGETTING, Flaw::VotesKeptOut, Wrong::Exclusion);
}

#[test]
fn no_client_must_vouch_without_waiting() {
    goes_wrong(FORGETTING, Flaw::VouchesAtOnce, Wrong::KeptOut);
    goes_wrong(FORGETTING, Flaw::VouchesAtOnce, Wrong::Exclusion);
}

/// The clock of a node ends its quarantine if no client does. This assumes that the clock is not set meanwhile.
#[test]
fn the_clock_of_a_node_that_is_quarantined_must_not_be_set() {
    let faults = Faults { passing: true, ..FORGETTING };
    goes_wrong(faults, Flaw::SetsClocks, Wrong::KeptOut);
    goes_wrong(faults, Flaw::SetsClocks, Wrong::Exclusion);
}

/// The clock of a node may run fast, but only within the drift.
#[test]
fn the_clock_of_a_node_must_not_end_a_quarantine_before_the_leases_are_over() {
    let faults = Faults { passing: true, rates: true, ..FORGETTING };
    goes_wrong(faults, Flaw::EndsEarly, Wrong::KeptOut);
}

#[test]
fn each_node_must_know_its_quorum() {
    goes_wrong(Faults { replacing: true, ..STALLS }, Flaw::IgnoresMembers, Wrong::Exclusion);
}

#[test]
fn half_of_the_nodes_is_not_enough() {
    goes_wrong(MESSAGES, Flaw::HalfIsEnough, Wrong::Exclusion);
}

#[test]
fn a_lease_must_not_be_believed_in_for_longer_than_was_said() {
    goes_wrong(MESSAGES, Flaw::IgnoresValidity, Wrong::Exclusion);
}

#[test]
fn the_clocks_of_nodes_must_not_run_fast() {
    goes_wrong(MESSAGES, Flaw::FastClocks, Wrong::Exclusion);
    goes_wrong(MESSAGES, Flaw::FastClocks, Wrong::Lease);
}

#[test]
fn a_node_must_confirm_only_what_it_has_not_gone_beyond() {
    goes_wrong(WILD, Flaw::ConfirmsAnything, Wrong::Order);
}

#[test]
fn a_node_must_go_on_counting() {
    goes_wrong(WILD, Flaw::CountsAnew, Wrong::Order);
}

/// A release of the first ballot arrives after the vote for the second.
#[test]
fn a_ballot_must_not_be_used_again() {
    goes_wrong(MESSAGES, Flaw::ReusesBallots, Wrong::Exclusion);
    goes_wrong(Faults { echoes: true, ..MESSAGES }, Flaw::ReusesBallots, Wrong::Exclusion);
}

#[test]
fn nodes_must_keep_values() {
    goes_wrong(VALUES, Flaw::KeepsNoValues, Wrong::Value);
}

#[test]
fn a_value_that_few_nodes_have_must_not_be_relied_on() {
    goes_wrong(VALUES, Flaw::TrustsAnyValue, Wrong::Value);
}

/// A later holder may have loaded the earlier value, and left.
#[test]
fn a_node_must_not_write_after_the_lease() {
    goes_wrong(VALUES, Flaw::WritesLate, Wrong::Late);
}

#[test]
fn what_is_released_must_be_free() {
    let tell = |seed| take_turns(Flaw::ReleasesNothing, seed, false);
    sees(tell, Wrong::Refused);
    sees(tell, Wrong::Leak);
}

fn goes_wrong(faults: Faults, flaw: Flaw, how: Wrong) {
    sees(|seed| tell(faults, flaw, seed, false), how);
}

fn sees(tell: impl Fn(u64) -> Ending, how: Wrong) {
    let is_wrong = |seed: &u64| tell(*seed).wrongs.iter().any(|(wrong, _)| *wrong == how);
    let seed = (0..LIMIT).find(is_wrong);
    println!("{how:?} by seed {seed:?}");
    assert!(seed.is_some(), "no story went wrong that should have: {how:?}");
}
