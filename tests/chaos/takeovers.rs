//! Clusters, and services that sentinels watch: servers take over from one another, and slots move.

use std::thread;
use std::time::Duration;

use lock_tests::chaos::check::{Property, Verdict};
use lock_tests::chaos::{Deployment, Fault, Plan, Report, Step};

use crate::machine::{cast, run};

/// How often a plan is carried out if a run proves nothing, or breaks a promise.
const RUNS: usize = 5;

/// A fault from this time on, for this time, in milliseconds, of the server with this number.
fn step(fault: Fault, at: u64, lasts: u64, server: usize, over: Deployment) -> Step {
    let [at, lasts] = [at, lasts].map(Duration::from_millis);
    Step::new(fault, at, lasts).servers(&[server], over.servers())
}

fn plan(over: Deployment, steps: Vec<Step>) -> Plan {
    Plan { workers: 3, tasks: 4, hold: Duration::from_millis(10), ..Plan::of(over, steps) }
}

/// Carries out a plan until the run is as wanted. A promise that breaks once is reported, and fails the test if it
/// breaks again. The late machine of a run that proves nothing is reported.
fn carry_out(plan: &Plan, is_wanted: impl Fn(&Report) -> bool) -> bool {
    let mut broken = 0;
    for _ in 0..RUNS {
        let report = run(plan, &cast(None));
        assert_eq!(report.effective.len(), plan.steps.len(), "a fault had no effect");
        broken += usize::from(report.verdict() == Verdict::Broken);
        assert!(broken < 2, "promises were broken twice");
        if is_wanted(&report) {
            return true;
        }
    }
    false
}

/// Carries out a plan until a run is sound. A run that proves nothing is not enough.
fn holds(plan: &Plan) {
    assert!(carry_out(plan, |report| report.verdict() == Verdict::Sound), "no run was sound");
}

/// Nothing is excused while slots move, and nothing but errors while scripts are forgotten.
fn slots_move_and_scripts_are_forgotten() {
    let over = Deployment::Cluster;
    let moves = step(Fault::MoveSlot, 1_000, 3_000, 0, over);
    holds(&plan(over, vec![moves, step(Fault::FlushScripts, 4_500, 1_000, 1, over)]));
}

/// What the table excludes is all that happens, and when the servers agree again, every promise holds.
fn servers_take_over(over: Deployment) {
    let steps = [
        step(Fault::FailOver, 1_000, 0, 0, over),
        step(Fault::PausePrimary, 3_000, 1_000, 1, over),
        step(Fault::KillPrimary, 5_000, 0, 2, over),
        step(Fault::CutAndFailOver, 7_000, 1_000, 0, over),
    ];
    holds(&plan(over, steps.into()));
}

/// The replicas lose the old primary first, so the next one lacks its latest grants. The old one lives on, as in a
/// partition, until a lock is held at both by different owners.
fn cut_off(over: Deployment) -> Plan {
    let cut = step(Fault::CutAndFailOver, 1_000, 1_000, 0, over).workers(&[0]);
    Plan { hold: Duration::from_millis(40), ..plan(over, vec![cut]) }
}

/// A client that hears no sentinel goes on to ask the old primary.
fn partition(over: Deployment) -> Plan {
    let part = step(Fault::PartitionPrimary, 1_000, 3_000, 0, over).workers(&[0]);
    Plan { hold: Duration::from_millis(40), ..plan(over, vec![part]) }
}

/// Without confirmation the old primary grants locks of which the next one does not know, with the quarantine of terms
/// and without. A test of exclusion that saw no two holders here would prove nothing.
fn a_lock_has_two_holders(plan: &Plan) {
    let has_two = |report: &Report| {
        report.findings.excused.iter().any(|(it, _)| it.property == Property::Exclusion)
    };
    assert!(carry_out(plan, has_two), "no lock has had two holders");
}

#[test]
fn no_promise_is_broken_while_servers_take_over_and_slots_move() {
    thread::scope(|scope| {
        scope.spawn(slots_move_and_scripts_are_forgotten);
        for over in [Deployment::Service, Deployment::Confirmed, Deployment::Cluster] {
            scope.spawn(move || servers_take_over(over));
        }
        scope.spawn(|| holds(&partition(Deployment::Confirmed)));
        for plan in [cut_off(Deployment::Unguarded), partition(Deployment::Service)] {
            scope.spawn(move || a_lock_has_two_holders(&plan));
        }
    });
}
