//! The checkers are tested: they find locks that are broken on purpose, and accept the lock without a flaw in
//! the same circumstances.

mod cases;
mod historic;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use lock_tests::chaos::Report;
use lock_tests::chaos::check::{Property, Verdict};
use lock_tests::chaos::stage::Cast;

use self::cases::{CASES, Case, Scene};
use self::historic::KEPT;
use crate::machine::{cast, complaints, run};

/// The most runs in which a flaw must show, and the most inconclusive runs of a lock without a flaw.
const BUDGET: usize = 8;

fn play(scene: Scene, flaw: &str, seed: u64) -> Report {
    let cast = Cast { flaw: Some(flaw.to_owned()), ..cast(Some(scene.primitives())) };
    run(&scene.plan(seed), &cast)
}

/// `CHAOS_FLAW` selects one flaw, and `none` selects the lock without one.
#[test]
fn every_flaw_is_found_and_nothing_where_there_is_none() {
    let only = std::env::var("CHAOS_FLAW").ok();
    let wanted = |flaw: &str| only.as_deref().is_none_or(|only| only == flaw);
    let scenes: BTreeSet<Scene> = CASES.iter().map(|case| case.scene).collect();
    let sound = scenes.into_iter().filter(|_| wanted("none")).map(Job::Sound);
    let cases = CASES.iter().chain(historic::CASES);
    let found = cases.filter(|case| wanted(case.flaw)).map(Job::Found);
    let kept = KEPT.iter().filter(|case| wanted(case.flaw)).map(Job::Kept);
    let mut jobs: Vec<Job> = found.chain(kept).chain(sound).collect();
    // The long ones come first, so that none is left alone at the end.
    let took = |job: &Job| {
        let plan = job.scene().plan(0);
        (plan.healed() + plan.ttl * 8) * job.scene().runs()
    };
    jobs.sort_by_key(|job| Reverse(took(job)));
    assert!(!jobs.is_empty(), "there is no flaw {only:?}");
    let failures = complaints(&jobs, |job| job.done().err());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_property_has_a_flaw_that_breaks_it() {
    let broken: BTreeSet<Property> = CASES.iter().map(|case| case.breaks).collect();
    let all = Property::ALL.into_iter();
    // Whether events make sense is a property of the code that writes them.
    let rest: Vec<_> = all.filter(|it| *it != Property::History && !broken.contains(it)).collect();
    assert_eq!(rest, []);
}

/// A statement to prove.
#[derive(Clone, Copy)]
enum Job {
    /// A flaw is found.
    Found(&'static Case),
    /// A design keeps the property of this case.
    Kept(&'static Case),
    /// Nothing is found.
    Sound(Scene),
}

impl Job {
    fn scene(self) -> Scene {
        match self {
            Self::Found(case) | Self::Kept(case) => case.scene,
            Self::Sound(scene) => scene,
        }
    }

    fn done(self) -> Result<(), String> {
        match self {
            Self::Found(case) => found(case),
            Self::Kept(case) => kept(case),
            Self::Sound(scene) => sound(scene),
        }
    }
}

/// An inconclusive run is replaced by another.
fn sound(scene: Scene) -> Result<(), String> {
    let mut last = String::new();
    for seed in 0..BUDGET {
        let report = play(scene, "none", seed as u64);
        println!("none in {scene:?}: {report}");
        last = format!("none in {scene:?}: {report:#}");
        match report.verdict() {
            Verdict::Sound => return Ok(()),
            Verdict::Broken => break,
            Verdict::Inconclusive => println!("  {}", report.findings.doubts.join("\n  ")),
        }
    }
    Err(last)
}

/// One run that is not inconclusive has to keep the property.
fn kept(case: &Case) -> Result<(), String> {
    let Case { flaw, breaks, scene } = case;
    let mut last = String::new();
    for seed in 0..BUDGET {
        let report = play(*scene, flaw, seed as u64);
        println!("{flaw} in {scene:?}: {report}");
        last = format!("{flaw} keeps {breaks}, but in {scene:?}: {report:#}");
        if report.broken().contains(breaks) {
            break;
        }
        if report.verdict() != Verdict::Inconclusive {
            report.folder.as_ref().map(std::fs::remove_dir_all);
            return Ok(());
        }
    }
    Err(last)
}

fn found(case: &Case) -> Result<(), String> {
    let Case { flaw, breaks, scene } = case;
    let (mut seen, mut vain) = (String::new(), 0);
    for number in 1..=3 * BUDGET {
        let report = play(*scene, flaw, number as u64);
        let broken = report.broken();
        if broken.contains(breaks) {
            // The folder of a known flaw is not needed.
            report.folder.as_ref().map(std::fs::remove_dir_all);
            println!("{flaw} in {scene:?}: {broken:?} in run {number}, {:.1?}", report.took);
            return Ok(());
        }
        seen = format!(
            "{flaw} breaks {breaks}, but in {scene:?} only {broken:?} was seen: {report:#}"
        );
        // An inconclusive run does not count.
        vain += usize::from(report.verdict() != Verdict::Inconclusive);
        if vain == BUDGET {
            break;
        }
    }
    Err(seen)
}
