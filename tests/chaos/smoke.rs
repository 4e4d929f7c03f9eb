//! A few runs, which contain every fault between them.

use std::thread;
use std::time::Duration;

use lock_tests::chaos::check::Verdict;
use lock_tests::chaos::{Deployment, Fault, Plan, Step, Suite};

use crate::first_seed;
use crate::machine::{cast, failures, run};

/// This many runs contain every fault, if the first seed is a multiple of the number of deployments.
const RUNS: usize = 10;

/// The first seed.
const FIRST: u64 = 20;

/// `CHAOS_SEED` gives another first seed: that of a failure, to reproduce it.
#[test]
fn no_fault_breaks_a_promise() {
    let first = first_seed(FIRST);
    let plans: Vec<Plan> = (first..).take(RUNS).map(Suite::plan).collect();
    let failures = failures(&plans, &cast(None));
    assert!(failures.is_empty(), "CHAOS_SEED={first}:\n{}", failures.join("\n"));
}

/// Most tasks write without a check of their guards. If such a task stands still for longer than its lease, other
/// tasks write meanwhile. Over a quorum too their tokens are higher.
#[test]
fn a_write_of_a_task_that_stood_still_is_refused() {
    let (ttl, pause) = (Duration::from_millis(600), Duration::from_millis(1_000));
    let stop = |number: u32| {
        let at = Duration::from_secs(1) + number * (pause + ttl / 2);
        let (one, other) = (number as usize % 3, (number as usize + 1) % 3);
        Step::new(Fault::StopWorker, at, pause).workers(&[one.min(other), one.max(other)])
    };
    let report = |deployment, seed| {
        let plan =
            Plan { seed, workers: 3, tasks: 8, ..Plan::of(deployment, (0..6).map(stop).collect()) };
        let plan = Plan { hold: Duration::from_millis(40), careless: 80, ..plan.with_ttl(ttl) };
        run(&plan, &cast(Some("mutex")))
    };
    // In most runs several writes are refused. A promise that breaks once is reported, as in the other suites.
    let proved = |deployment| {
        let mut broken = 0;
        (0..5).any(|seed| {
            let report = report(deployment, seed);
            let is_broken = report.verdict() == Verdict::Broken;
            broken += u32::from(is_broken);
            assert!(broken < 2, "promises were broken twice");
            !is_broken && report.writes.1 > 0
        })
    };
    let deployments = [Deployment::Redis, Deployment::Quorum(3)];
    thread::scope(|scope| {
        let runs = deployments.map(|deployment| scope.spawn(move || proved(deployment)));
        for (deployment, run) in deployments.into_iter().zip(runs) {
            assert!(run.join().unwrap(), "nothing is proved over {deployment}");
        }
    });
}
