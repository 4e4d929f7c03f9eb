//! Quorums in a simulated world: thousands of stories of clients that share locks while messages are lost, late
//! or repeated, networks are split, nodes stand still, restart and forget, clients crash or drop a request half
//! way, and clocks are wrong.
//!
//! Nodes are stores of this process, and clients reach them through a [network](node) that does as a
//! [plan](plan) says. What clients were granted is written down and [checked](history). Time is paused, so a
//! story of seconds takes milliseconds, and it is the same whenever its seed is.
//!
//! What must be true in which of them:
//!
//! | | anything but forgetting | nodes forget | and clocks are minutes apart | and there is no quarantine | nodes forget, and their clocks are set while they are quarantined |
//! | --- | --- | --- | --- | --- | --- |
//! | no two valid leases at once | yes | yes | yes | no | no |
//! | tokens are in order | yes | yes | no | no | no |
//! | a load finds the last value that was written, or a later value | yes | | | | |
//! | no value of an earlier holder is stored late | yes | yes | yes | | |
//! | no lease is lost before its time | yes | | | | |
//! | what is held has the same tokens when it is asked for again | yes | yes | yes | yes | yes |
//! | a node that is quarantined does not vote | yes | yes | yes | | no |
//! | soon after, all can be had, and nothing is left behind | yes | yes | yes | yes | yes |
//!
//! The same is true while clocks of nodes run fast or slowly within the drift, while each client holds leases on
//! hundreds of keys, while no client stays for longer than a lease, and while a node is replaced. Then some clients
//! have the former nodes and some the new ones, and nodes keep what they had: a node that forgets its record takes the
//! membership of the first client that looks.
//!
//! *Forgetting* is all that loses locks and counters: any number of nodes, together, one after another, again
//! and again. With the quarantine that takes away locks, and never gives one to two. Without it one node is
//! enough for two holders. *In order* are the tokens of all pairs of leases but two shared ones: no token is in
//! both, and a lease that was asked for after the other was granted has the higher ones, those from renewals included.
//! For that, clocks may be apart by less than a quarantine lasts, less the time for which a ballot may be under way.
//! *Soon* is: when every message that was under way has arrived, every lease that it may have begun has ended,
//! and every node that was quarantined has been watched for its time.
//!
//! Where the table says no, or a node or client does what it must not, stories have to go wrong:
//! [`broken`] shows that the checks see it.
//!
//! A quorum reads the wall clock itself, and no test can set it. So floors are replaced by those of the simulated
//! clocks on their way to the nodes: the same for all nodes where they were the same.
//!
//! Some holders store and erase values beside their locks, each value under a token of its own. A load *finds* a value if
//! it returns the value or a later one. It must find each value that was written, and each value that an earlier load
//! returned as settled. There is one exception: an erased value may return to single nodes, and is not settled there.
//! A value is *late* if it becomes settled after a later holder has loaded under its claim and has not found it.
//!
//! A client has two lines to each node. Two things are assumed of a line, since every connection keeps them: requests
//! reach the node in the order in which they were sent, and a request that arrives twice does so before the next. A write of
//! a value arrives once at most, because no client sends a request again that a server may have run.
//! Between the lines there is no order: a release may arrive after a vote that was asked for later, and a vote
//! after the release of its claim. Where nothing may be left until a lease ends, no request arrives twice, because a vote
//! that arrives again after its refusal lasts as long as its lease.
//!
//! Each kind of story is told some hundred times. A story with leases on hundreds of keys takes long, so it is told for
//! each fiftieth seed. For more stories, and for one again that went wrong:
//!
//! ```text
//! LOCK_SIM_SEEDS=100000 cargo test --release -p lock-redlock --test sim
//! LOCK_SIM_SEED=1234 cargo test -p lock-redlock --test sim name_of_the_test -- --nocapture
//! ```

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod broken;
mod client;
mod found;
mod history;
mod node;
mod plan;
mod quiet;
mod rng;
mod storing;
mod story;
mod values;
mod world;

use history::Wrong;
use plan::{Faults, Flaw};
use quiet::{contend, take_turns};
use story::{Ending, tell};

/// How many stories of each kind are told unless it is said.
const SEEDS: u64 = 150;

const MESSAGES: Faults = Faults {
    messages: true,
    crashes: true,
    cuts: false,
    stalls: false,
    restarts: false,
    forgetting: false,
    wild_clocks: false,
    unguarded: false,
    tokens: false,
    upgradable: false,
    echoes: false,
    rates: false,
    passing: false,
    replacing: false,
    values: false,
    many: false,
    lasting: false,
};
const NETWORKS: Faults = Faults { cuts: true, ..MESSAGES };
const STALLS: Faults = Faults { stalls: true, ..NETWORKS };
const RESTARTS: Faults = Faults { restarts: true, ..STALLS };
const FORGETTING: Faults = Faults { forgetting: true, ..STALLS };

#[test]
fn messages_may_be_lost_late_or_repeated() {
    goes_well(MESSAGES);
}

#[test]
fn networks_may_be_split() {
    goes_well(NETWORKS);
}

#[test]
fn nodes_may_stand_still() {
    goes_well(STALLS);
}

#[test]
fn nodes_may_restart_with_what_they_had() {
    goes_well(RESTARTS);
}

#[test]
fn nodes_may_forget_everything() {
    goes_well(FORGETTING);
}

#[test]
fn clocks_may_be_wrong() {
    goes_well(Faults { wild_clocks: true, ..RESTARTS });
}

#[test]
fn clocks_may_be_wrong_while_nodes_forget_but_for_the_tokens() {
    goes_well(Faults { wild_clocks: true, ..FORGETTING });
}

#[test]
fn without_quarantine_forgetting_costs_exclusion_and_order_alone() {
    goes_well(Faults { wild_clocks: true, unguarded: true, ..FORGETTING });
}

#[test]
fn without_quarantine_nodes_may_restart_with_what_they_had() {
    goes_well(Faults { unguarded: true, ..RESTARTS });
}

#[test]
fn renewals_may_bring_tokens() {
    goes_well(Faults { tokens: true, ..RESTARTS });
}

#[test]
fn leases_may_be_upgradable() {
    goes_well(Faults { upgradable: true, ..RESTARTS });
}

#[test]
fn leases_may_be_upgradable_while_nodes_forget() {
    goes_well(Faults { upgradable: true, ..FORGETTING });
}

/// A release of a dead ballot ends nothing else, whenever it arrives.
#[test]
fn releases_may_arrive_again_later() {
    goes_well(Faults { echoes: true, ..MESSAGES });
    goes_well(Faults { echoes: true, ..FORGETTING });
}

#[test]
fn clocks_of_nodes_may_run_fast_or_slowly_within_the_drift() {
    goes_well(Faults { rates: true, ..RESTARTS });
    goes_well(Faults { rates: true, ..FORGETTING });
}

#[test]
fn clients_that_do_not_stay_get_locks_again_after_nodes_have_forgotten() {
    goes_well(Faults { passing: true, ..FORGETTING });
    goes_well(Faults { passing: true, rates: true, ..RESTARTS });
    goes_well(Faults { passing: true, rates: true, ..FORGETTING });
}

#[test]
fn a_node_may_be_replaced() {
    goes_well(Faults { replacing: true, ..STALLS });
    goes_well(Faults { replacing: true, rates: true, ..RESTARTS });
}

#[test]
fn clients_may_hold_hundreds_of_leases() {
    let faults = Faults { many: true, crashes: false, ..STALLS };
    goes_well(faults);
    goes_well(Faults { forgetting: true, ..faults });
    goes_well(Faults { lasting: true, ..faults });
}

#[test]
fn values_are_found_again() {
    goes_well(Faults { values: true, ..NETWORKS });
    goes_well(Faults { values: true, ..RESTARTS });
    goes_well(Faults { values: true, rates: true, passing: true, ..RESTARTS });
}

#[test]
fn no_value_is_stored_late_even_if_nodes_forget() {
    goes_well(Faults { values: true, ..FORGETTING });
}

#[test]
fn nothing_is_left_until_a_lease_ends() {
    let faults = Faults { crashes: false, lasting: true, ..STALLS };
    goes_well(faults);
    goes_well(Faults { upgradable: true, ..faults });
}

#[test]
fn a_free_lock_is_granted_at_once_and_nothing_is_left_of_it() {
    let went_wrong = [13_877, 14_254, 19_451];
    each_seed(
        (1, &went_wrong),
        |seed, is_logged| take_turns(Flaw::None, seed, is_logged),
        |_| true,
    );
}

#[test]
fn five_contenders_settle_within_a_few_rounds() {
    let (mut stories, mut rounds, mut most) = (0, 0, 0);
    each_seed(
        (1, &[7_040, 51_312]),
        |seed, is_logged| {
            let (ending, needed) = contend(5, seed, is_logged);
            (stories, rounds, most) = (stories + 1, rounds + needed, most.max(needed));
            ending
        },
        |_| true,
    );
    let mean = rounds as f64 / (5 * stories) as f64;
    println!("{mean:.2} rounds each; at most {most} of all five");
    assert!(mean < 2.5, "{mean} rounds each");
}

/// Otherwise a seed would say nothing.
#[test]
fn a_seed_tells_the_same_story_again() {
    for seed in 0..20 {
        let tellings = [(); 2].map(|()| {
            let Ending { leases, origin, .. } = tell(FORGETTING, Flaw::None, seed, false);
            let when = |at: lock_core::Instant| at.saturating_duration_since(origin);
            let told = leases.into_iter().map(|lease| {
                let times = [lease.asked, lease.granted, lease.until].map(when);
                (lease.client, lease.key, lease.tokens, times)
            });
            told.collect::<Vec<_>>()
        });
        assert!(!tellings[0].is_empty());
        assert_eq!(tellings[0], tellings[1], "seed {seed}");
    }
}

/// Nothing goes wrong that must not.
fn goes_well(faults: Faults) {
    // A story with hundreds of leases takes as long as a hundred others.
    let step = if faults.many { 50 } else { 1 };
    each_seed(
        (step, &[]),
        |seed, is_logged| tell(faults, Flaw::None, seed, is_logged),
        |wrong| match wrong {
            Wrong::Exclusion => !(faults.forgetting && faults.unguarded),
            Wrong::Value => !faults.forgetting,
            Wrong::Order => !(faults.forgetting && (faults.unguarded || faults.wild_clocks)),
            _ => true,
        },
    );
}

/// Tells the stories of each `step`th seed, and of these. The first that goes wrong is told again in full.
fn each_seed(
    (step, more): (usize, &[u64]),
    mut tell: impl FnMut(u64, bool) -> Ending,
    is_wrong: impl Fn(Wrong) -> bool,
) {
    let (seeds, more, is_told) = match number("LOCK_SIM_SEED") {
        Some(seed) => (seed..seed + 1, &[][..], true),
        None => (0..number("LOCK_SIM_SEEDS").unwrap_or(SEEDS), more, false),
    };
    for seed in seeds.step_by(step).chain(more.iter().copied()) {
        let ending = tell(seed, is_told);
        if is_told {
            println!("{}", ending.story);
        }
        if let Some((wrong, what)) = ending.wrongs.iter().find(|(wrong, _)| is_wrong(*wrong)) {
            let again = "with this seed as LOCK_SIM_SEED, this test tells it again";
            panic!("seed {seed}: {wrong:?}: {what}\n{}\n{again}", tell(seed, true).story);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {value}")))
}
