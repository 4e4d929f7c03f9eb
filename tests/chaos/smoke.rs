//! A few runs, which have every fault between them.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use lock_tests::chaos::check::Verdict;
use lock_tests::chaos::stage::Cast;
use lock_tests::chaos::{Deployment, Fault, Plan, Report, Step, Suite, run};

use crate::STAGE;

/// So many runs have every fault, if the first seed is a multiple of the number of deployments.
const RUNS: u64 = 10;

/// How often a run is made again that has broken a promise.
const AGAIN: u64 = 2;

/// The first seed. It stays the same, so that whoever changes something sees what that breaks and nothing else.
/// New seeds are for those who look for what nobody knows of: see `tests/PROOF.md`.
const FIRST: u64 = 20;

fn cast() -> Cast {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lock-chaos"));
    Cast { program, primitives: None, flaw: None }
}

fn told(report: &Report) {
    match report.verdict() {
        Verdict::Sound => println!("{report}"),
        _ => println!("{report:#}"),
    }
}

/// `CHAOS_SEED` begins with another seed: that of a failure, to see it again.
///
/// What breaks once is told, and fails here if it breaks again in two more runs: whoever changes something is not
/// to be stopped by what others have not found yet. `lock-chaos run` fails at the first.
#[test]
fn no_promise_is_broken_whatever_fails() {
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let first = std::env::var("CHAOS_SEED").ok().map(|text| text.parse().unwrap());
    let first = first.unwrap_or(FIRST);
    let mut summary = Suite::from_seed(first).runs(RUNS).jobs(3).run(&cast(), told);
    println!("{summary}");
    summary.broken.retain(|&seed| {
        let again = Suite::from_seed(seed).repeat(AGAIN, &cast(), told);
        !again.broken.is_empty()
    });
    assert_eq!(summary.failure(), None, "CHAOS_SEED={first}");
}

/// Most tasks write without a look at their guards. If they stood still meanwhile, for longer than their leases
/// live, others have written. Over a quorum too their tokens are higher.
#[test]
fn a_write_of_somebody_who_stood_still_is_refused() {
    let _stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    let (ttl, pause) = (Duration::from_millis(600), Duration::from_millis(1_000));
    let stop = |number: u32| {
        let at = Duration::from_secs(1) + number * (pause + ttl / 2);
        let (one, other) = (number as usize % 3, (number as usize + 1) % 3);
        Step::new(Fault::StopWorker, at, pause).workers(&[one.min(other), one.max(other)])
    };
    let refused = |deployment, seed| {
        let plan =
            Plan { seed, workers: 3, tasks: 8, ..Plan::of(deployment, (0..6).map(stop).collect()) };
        let plan = Plan { hold: Duration::from_millis(40), careless: 80, ..plan.with_ttl(ttl) };
        let report = run(&plan, &Cast { primitives: Some("mutex".to_owned()), ..cast() });
        told(&report);
        assert_ne!(report.verdict(), Verdict::Broken);
        report.writes.1 > 0
    };
    for deployment in [Deployment::Redis, Deployment::Quorum(3)] {
        // In most runs there are several.
        assert!(
            (0..5).any(|seed| refused(deployment, seed)),
            "nothing is proved over {deployment}"
        );
    }
}
