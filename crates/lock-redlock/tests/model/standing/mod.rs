//! Nodes that lose their data, and nodes that are replaced, explored to the end.
//!
//! A node that has lost its leases is in quarantine until a client has watched it for as long as a lease lives, or
//! until its own clock ends the quarantine. Each ballot carries the record that it expects, and a node with another
//! record does not vote. The documented call replaces a node: the nodes that stay leave the former quorum, the call
//! waits, the new node begins a quarantine, and then all are members of the new quorum. Meanwhile one client has the
//! former nodes and the other client the new ones.
//!
//! Time goes by in ticks of all clocks at once. A lease lives for two ticks, so requests, losses and looks fall into
//! any part of it. Nodes that play one part are one in the states, so a story may call them by turns. The fault is two
//! holders at once. `LOCK_MODEL=full` explores five nodes, three clients, longer leases and several failures, also
//! while a node is replaced: one million states, in some ten seconds.

mod state;
mod steps;

use state::{Flaw, Manner, Members, Record, State};
use steps::{Step, next};

use crate::is_full;
use crate::search::search;

const ALONE: Manner = Manner {
    nodes: 3,
    clients: [Members::Former, Members::Former, Members::None],
    lease: 2,
    replaces: false,
    vouches: true,
    restarts: 1,
    losses: 0,
    flaw: None,
};
const REPLACING: Manner = Manner {
    clients: [Members::Former, Members::New, Members::None],
    replaces: true,
    restarts: 0,
    ..ALONE
};

#[test]
fn a_node_that_lost_its_data_sits_out() {
    holds(ALONE);
    holds(Manner { restarts: 0, losses: 1, ..ALONE });
    let twice = Manner { restarts: 1, losses: 1, ..ALONE };
    holds(twice);
    if is_full() {
        holds(Manner { losses: 2, ..twice });
        holds(Manner { lease: 3, ..twice });
        holds(Manner { clients: [Members::Former; 3], ..twice });
        holds(Manner { nodes: 5, ..twice });
    }
}

#[test]
fn a_node_may_be_replaced_while_clients_have_the_former_nodes() {
    holds(REPLACING);
    holds(Manner { restarts: 1, ..REPLACING });
    if is_full() {
        let restarting = Manner { restarts: 2, ..REPLACING };
        let [former, new] = [Members::Former, Members::New];
        holds(restarting);
        holds(Manner { lease: 3, ..restarting });
        holds(Manner { clients: [former, new, new], ..restarting });
        holds(Manner { clients: [former, former, new], ..restarting });
        holds(Manner { nodes: 5, restarts: 1, ..REPLACING });
    }
}

/// The clock of the node alone ends its quarantine if no client stays.
#[test]
fn a_quarantine_ends_without_clients_that_stay() {
    let votes_again = |state: &State| {
        let is_record = |record: Record| matches!(record, Record::Votes(_));
        state.restarts == 0 && state.nodes[..3].iter().all(|node| is_record(node.record))
    };
    let story = find(Manner { vouches: false, ..ALONE }, votes_again).unwrap();
    assert_eq!(ticks(&story), 4, "{story:?}");
    let story = find(ALONE, votes_again).unwrap();
    assert_eq!(ticks(&story), 2, "{story:?}");
}

#[test]
fn the_new_node_votes_in_the_end() {
    let is_held_by_it = |state: &State| {
        state.clients[1].is_holder(REPLACING) && state.clients[1].ties[REPLACING.added()].vote > 0
    };
    find(REPLACING, is_held_by_it).unwrap();
}

#[test]
fn a_node_in_quarantine_must_not_vote() {
    breaks(ALONE, Flaw::VotesInQuarantine);
    breaks(REPLACING, Flaw::VotesInQuarantine);
}

/// Before any client looks, a node that restarted is not in quarantine: only its record gives it away.
#[test]
fn a_ballot_must_be_compared_with_the_record() {
    breaks(ALONE, Flaw::ComparesNoRecord);
    breaks(REPLACING, Flaw::ComparesNoRecord);
}

#[test]
fn a_quarantine_must_not_end_before_a_lease_is_over() {
    breaks(ALONE, Flaw::VouchesAtOnce);
    breaks(ALONE, Flaw::EndsAtOnce);
    breaks(REPLACING, Flaw::AdmitsVoting);
}

#[test]
fn a_renewal_counts_at_members_alone() {
    breaks(REPLACING, Flaw::RenewsUnseen);
    breaks(REPLACING, Flaw::WaitsForNoLook);
}

/// Clients with the new nodes may have vouched for the new node as soon as there are enough members.
#[test]
fn the_nodes_that_stay_must_not_be_members_before_the_new_node_is_in_quarantine() {
    breaks(REPLACING, Flaw::JoinsEarly);
}

/// A node that forgets its membership takes that of the first client that looks.
#[test]
fn no_node_may_lose_its_record_while_clients_have_the_former_nodes() {
    breaks(Manner { losses: 1, ..REPLACING }, None);
}

fn holds(manner: Manner) {
    assert_eq!(find(manner, |state| state.is_fault(manner)), None, "{manner:?}");
}

/// Two clients hold the lock at once.
fn breaks(manner: Manner, flaw: impl Into<Option<Flaw>>) {
    let manner = Manner { flaw: flaw.into(), ..manner };
    find(manner, |state| state.is_fault(manner)).expect("nothing went wrong, which it should");
}

/// The shortest story with this end, if there is any.
fn find(manner: Manner, is_end: impl Fn(&State) -> bool) -> Option<Vec<Step>> {
    let all = |state: &State, steps: &mut Vec<_>| next(manner, state, steps);
    let (states, story) = search(State::initial(manner), all, is_end);
    println!("{states} states: {manner:?}");
    story.iter().flatten().for_each(|step| println!("    {step:?}"));
    story
}

fn ticks(story: &[Step]) -> usize {
    story.iter().filter(|step| **step == Step::Tick).count()
}
