//! The runs of all tests of this program share the machine.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::thread;

use futures::executor::block_on;
use lock_tests::chaos::check::Verdict;
use lock_tests::chaos::stage::Cast;
use lock_tests::chaos::{Deployment, Plan, Report};
use tokio::sync::Semaphore;

/// The parts of a core.
const CORE: u32 = 12;

/// The parts of the machine that no run has. Runs get their parts in the order in which they ask, so a run that needs
/// many parts does not starve.
static FREE: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Semaphore::new(cores * CORE as usize)
});

/// The most runs of a plan that breaks no promise.
const RUNS: usize = 5;

/// The lock of the library, in the hands of workers that take these primitives, or all.
pub(crate) fn cast(primitives: Option<&str>) -> Cast {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_lock-chaos"));
    Cast { program, primitives: primitives.map(str::to_owned), flaw: None }
}

/// Carries out a plan as soon as its share of the machine is free, and prints the report.
///
/// The checkers compare times, so the machine must not be late.
pub(crate) fn run(plan: &Plan, cast: &Cast) -> Report {
    let _share = block_on(FREE.acquire_many(share(plan, cast))).expect("it is never closed");
    let report = lock_tests::chaos::run(plan, cast);
    match (&cast.flaw, report.verdict()) {
        // The test of the flaw says what it looks for.
        (Some(_), _) => {}
        (None, Verdict::Sound) => println!("{report}"),
        (None, _) => println!("{report:#}"),
    }
    report
}

/// The parts of the machine that a run takes.
fn share(plan: &Plan, cast: &Cast) -> u32 {
    let over = plan.deployment;
    match over {
        // A flaw shows with few workers, which sleep for most of the time.
        _ if cast.flaw.is_some() => CORE / 6,
        // A run over several busy servers needs a processor for most of the time. If it has to wait for one, the
        // servers answer too late, and clients get no lock for seconds.
        Deployment::Quorum(4..) | Deployment::Members => CORE,
        Deployment::Etcd => CORE / 3 * 2,
        _ if Deployment::FAIL_OVER.contains(&over) => CORE / 3 * 2,
        _ => CORE / 2,
    }
}

/// Why these plans fail, if some do. Each is carried out until a run is sound.
///
/// A promise that breaks once is reported, and two more runs must be sound: a change must not fail because of a rare
/// bug that it did not cause. `lock-chaos run` fails at the first broken promise.
pub(crate) fn failures(plans: &[Plan], cast: &Cast) -> Vec<String> {
    complaints(plans, |plan| failure(plan, cast))
}

/// Tries out all of them at once, and returns what is wrong. The runs wait for their shares of the machine.
pub(crate) fn complaints<T: Sync>(
    all: &[T],
    complaint: impl Fn(&T) -> Option<String> + Sync,
) -> Vec<String> {
    thread::scope(|scope| {
        let complaint = &complaint;
        let all: Vec<_> = all.iter().map(|it| scope.spawn(move || complaint(it))).collect();
        all.into_iter().filter_map(|one| one.join().unwrap()).collect()
    })
}

fn failure(plan: &Plan, cast: &Cast) -> Option<String> {
    let (mut broken, mut needed, mut last) = (false, 1, String::new());
    for _ in 0..RUNS {
        let report = run(plan, cast);
        last = format!("seed {}:\n{report:#}", plan.seed);
        match report.verdict() {
            Verdict::Broken if broken => break,
            Verdict::Broken => (broken, needed) = (true, 2),
            Verdict::Sound => needed -= 1,
            // Usually the machine was late, and is not the next time.
            Verdict::Inconclusive => {}
        }
        if needed == 0 {
            return None;
        }
    }
    Some(last)
}
