//! Servers of other kinds than Redis: PostgreSQL and etcd. A few runs contain every fault that can befall each.
//!
//! The faults of workers, and those by which a cluster differs from one server, befall three members of a cluster of etcd.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use lock_tests::chaos::check::Verdict;
use lock_tests::chaos::stage::Cast;
use lock_tests::chaos::{Deployment, Fault, Plan, Scope, Victim, run};

use crate::{STAGE, first_seed};

/// The faults of a run over PostgreSQL.
const STEPS: usize = 5;

/// The seed of the first run.
const FIRST: u64 = 40;

/// How often a plan is carried out if a run proves nothing, or breaks a promise.
const RUNS: usize = 3;

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

/// Carries out a plan until a run is sound. A promise that breaks once is reported, and fails the test if it breaks again.
fn failure(plan: &Plan) -> Option<String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lock-chaos"));
    let cast = Cast { program, primitives: None, flaw: None };
    let (mut broken, mut last) = (0, None);
    for _ in 0..RUNS {
        let report = run(plan, &cast);
        if report.verdict() == Verdict::Sound {
            println!("{report}");
            return None;
        }
        println!("{report:#}");
        broken += usize::from(report.verdict() == Verdict::Broken);
        last = Some(format!("seed {}:\n{report:#}", plan.seed));
        if broken == 2 {
            break;
        }
    }
    last
}

/// `CHAOS_SEED` gives another first seed. `lock-chaos run 60 --others` takes new seeds.
fn no_fault_breaks_a_promise(plans: Vec<Plan>) {
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let plans = Mutex::new(plans);
    let next = || plans.lock().unwrap().pop();
    let failures = || std::iter::from_fn(next).filter_map(|it| failure(&it)).collect::<Vec<_>>();
    // Two at a time: more of them would be late.
    let failures: Vec<String> = thread::scope(|scope| {
        let runs = [(); 2].map(|()| scope.spawn(failures));
        runs.into_iter().flat_map(|run| run.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "CHAOS_SEED={}:\n{}", first_seed(FIRST), failures.join("\n"));
}

#[test]
fn no_fault_breaks_a_promise_over_postgresql() {
    let over = Deployment::Postgres;
    no_fault_breaks_a_promise(plans(over, &all(over), STEPS));
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
    no_fault_breaks_a_promise([one, cluster].concat());
}
