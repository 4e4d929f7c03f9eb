//! Servers of other kinds than Redis: PostgreSQL and etcd. A few runs contain every fault that can befall each.
//!
//! The faults of workers, and those by which a cluster differs from one server, befall three members of a cluster of
//! etcd.

use lock_tests::chaos::{Deployment, Fault, Plan, Scope, Victim};

use crate::first_seed;
use crate::machine::{cast, failures};

/// The faults of a run over PostgreSQL.
const STEPS: usize = 5;

/// The seed of the first run.
const FIRST: u64 = 40;

/// One plan for each group of so many faults.
fn plans(over: Deployment, faults: &[Fault], steps: usize) -> Vec<Plan> {
    let plan = |(seed, faults): (u64, &[Fault])| {
        Plan::draw(seed, &Scope::default().over(&[over]).each_of(faults))
    };
    (first_seed(FIRST)..).zip(faults.chunks(steps)).map(plan).collect()
}

/// All faults of a deployment.
fn all(over: Deployment) -> Vec<Fault> {
    let faults: Vec<Fault> = Fault::ALL.into_iter().filter(|it| it.can_befall(over)).collect();
    assert!(faults.len() > 15, "{faults:?}");
    faults
}

/// `CHAOS_SEED` gives another first seed. `lock-chaos run 60 --others` takes new seeds.
fn no_fault_breaks_a_promise(plans: &[Plan]) {
    let failures = failures(plans, &cast(None));
    assert!(failures.is_empty(), "CHAOS_SEED={}:\n{}", first_seed(FIRST), failures.join("\n"));
}

#[test]
fn no_fault_breaks_a_promise_over_postgresql() {
    let over = Deployment::Postgres;
    no_fault_breaks_a_promise(&plans(over, &all(over), STEPS));
}

#[test]
fn no_fault_breaks_a_promise_over_etcd() {
    let is_of_worker = |it: &Fault| it.victim() == Victim::Worker;
    let (of_workers, of_one): (Vec<_>, Vec<_>) =
        all(Deployment::Etcd).into_iter().partition(is_of_worker);
    let of_members = [Fault::KillKept, Fault::StopServer, Fault::Partition];
    let of_leader = [Fault::FailOver, Fault::KillPrimary, Fault::PausePrimary];
    let of_cluster = [&of_members[..], &of_leader, &of_workers].concat();
    let two = |over, faults: &[Fault]| plans(over, faults, faults.len().div_ceil(2));
    let [one, cluster] = [two(Deployment::Etcd, &of_one), two(Deployment::Members, &of_cluster)];
    no_fault_breaks_a_promise(&[one, cluster].concat());
}
