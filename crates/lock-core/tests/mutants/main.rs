//! The suite finds bugs: each backend that is broken on purpose breaks the law that was made for its bug, and
//! each law is broken by a backend.
#![cfg(feature = "conformance")]

mod acquiring;
mod bug;
mod capabilities;
mod counting;
mod ending;
mod line;
mod modes;
mod mutant;
mod table;
mod together;
mod voting;
mod watching;

use std::collections::BTreeSet;
use std::num::NonZero;
use std::thread;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook, Law, Suite, Verdict, enforce, run};
use lock_core::memory::MemoryBackend;
use tokio::runtime::Builder;

use bug::Bug;
use mutant::Colony;
use table::BUGS;

/// All suites. The last one tests laws of the first in another mode.
fn suites() -> [Suite<Colony>; 9] {
    [
        Suite::backend(),
        Suite::shared(),
        Suite::convert(),
        Suite::joint(),
        Suite::permits(),
        Suite::cell(),
        Suite::inspect(),
        Suite::quorum(),
        Suite::one_permit(),
    ]
}

/// The laws of a suite that a backend breaks, with the reasons.
async fn broken_laws(suite: &Suite<Colony>, bug: Bug) -> Vec<(&'static str, String)> {
    let mut broken = Vec::new();
    for law in suite.laws() {
        match suite.run(law.name(), &Colony::new(bug)).await {
            Verdict::Holds => {}
            Verdict::Broken(reason) => broken.push((law.name(), reason)),
            // A bug may hide that there is a queue.
            Verdict::NotApplicable(_) if bug != Bug::None => {}
            other => panic!("{}: {other:?}", law.name()),
        }
    }
    broken
}

/// The laws of a suite that each bug breaks, in the order of the bugs. The bugs share the processors.
fn broken_by_each_bug(suite: &Suite<Colony>) -> Vec<Vec<(&'static str, String)>> {
    let broken = |bug| {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(broken_laws(suite, bug))
    };
    let size = BUGS.len().div_ceil(thread::available_parallelism().map_or(1, NonZero::get));
    thread::scope(|scope| {
        let share = |bugs: &'static [(Bug, &[&str])]| {
            scope.spawn(move || bugs.iter().map(|(bug, _)| broken(*bug)).collect::<Vec<_>>())
        };
        let shares: Vec<_> = BUGS.chunks(size).map(share).collect();
        shares.into_iter().flat_map(|share| share.join().expect("no run panics")).collect()
    })
}

#[test]
fn each_bug_breaks_its_law_and_each_law_has_a_bug() {
    for suite in suites() {
        let laws: Vec<_> = suite.laws().iter().map(Law::name).collect();
        let mut caught = BTreeSet::new();
        for (&(bug, expected), broken) in BUGS.iter().zip(broken_by_each_bug(&suite)) {
            println!("{bug:?}: {broken:#?}");
            for law in expected.iter().filter(|law| laws.contains(law)) {
                let found = broken.iter().find(|(name, _)| name == law);
                let (_, why) = found.unwrap_or_else(|| panic!("{bug:?} keeps {law}"));
                assert!(!why.contains("panicked"), "{bug:?} does not get as far as {law}: {why}");
            }
            caught.extend(broken.into_iter().map(|(name, _)| name));
        }
        let idle: Vec<_> = laws.iter().filter(|law| !caught.contains(*law)).collect();
        assert_eq!(idle, Vec::<&&str>::new(), "never broken");
    }
}

#[test]
fn the_laws_that_bugs_are_to_break_exist() {
    for (bug, expected) in BUGS {
        for law in *expected {
            let knows = |suite: &Suite<Colony>| suite.laws().iter().any(|it| it.name() == *law);
            assert!(suites().iter().any(knows), "{bug:?} is to break {law}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutant_without_a_bug_keeps_every_law() {
    for suite in suites() {
        assert_eq!(broken_laws(&suite, Bug::None).await, []);
    }
}

#[tokio::test]
async fn an_unknown_law_does_not_hold() {
    let verdict = run("a_law_that_does_not_exist", &MemoryBackend::new()).await;
    assert!(matches!(verdict, Verdict::Broken(_)), "{verdict:?}");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a_held_key_is_refused is broken")]
async fn the_test_of_a_broken_law_fails() {
    enforce("a_held_key_is_refused", &Colony::new(Bug::StubbedRemote)).await;
}

#[tokio::test]
async fn a_panic_breaks_a_law_and_a_missing_hook_does_not() {
    let verdict = run("a_free_key_is_granted", &Incapable { panics: true }).await;
    assert_eq!(verdict, Verdict::Broken("panicked: out of order".into()));
    for law in ["a_cut_client_recovers", "tokens_increase_after_the_store_forgot"] {
        let verdict = run(law, &Incapable { panics: false }).await;
        assert_eq!(verdict, Verdict::NotApplicable("cannot".into()));
    }
}

/// A harness without hooks.
struct Incapable {
    panics: bool,
}

#[async_trait]
impl Harness for Incapable {
    type Client = MemoryBackend;

    async fn client(&self) -> lock_core::Result<MemoryBackend> {
        assert!(!self.panics, "out of order");
        Ok(MemoryBackend::new())
    }

    async fn cut(&self, _client: &MemoryBackend) -> Hook {
        Hook::NotApplicable("cannot")
    }

    async fn forget(&self) -> Hook {
        Hook::NotApplicable("cannot")
    }
}
