//! Runs in which the workers do nothing but change, read and follow one stored value.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::thread;

use lock_tests::chaos::check::Verdict;
use lock_tests::chaos::stage::Cast;
use lock_tests::chaos::{Deployment, Plan, Scope, run};

use crate::{STAGE, first_seed};

/// The faults of a run.
const STEPS: usize = 3;

/// The seed.
const SEED: u64 = 3;

/// The most runs of a plan. One has to be sound.
const RUNS: usize = 3;

/// `CHAOS_SEED` gives another seed. `lock-chaos run 60 --primitives stored` takes new seeds.
#[test]
fn no_fault_loses_a_committed_value() {
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let seed = first_seed(SEED);
    let deployments = [Deployment::Memory, Deployment::Redis, Deployment::Quorum(3)];
    let failures: Vec<String> = thread::scope(|scope| {
        let runs = deployments.map(|deployment| scope.spawn(move || failure(deployment, seed)));
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "CHAOS_SEED={seed}:\n{}", failures.join("\n"));
}

/// Why no run of this seed was sound.
fn failure(deployment: Deployment, seed: u64) -> Option<String> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lock-chaos"));
    let cast = Cast { program, primitives: Some("stored".to_owned()), flaw: None };
    let plan = Plan::draw(seed, &Scope::default().over(&[deployment]).steps(STEPS));
    let mut last = None;
    for _ in 0..RUNS {
        let report = run(&plan, &cast);
        if report.verdict() == Verdict::Sound {
            println!("{report}");
            return None;
        }
        println!("{report:#}");
        last = Some(format!("{report:#}"));
    }
    last
}
