//! The suite sees: each deliberately broken backend breaks the law that was made for it, and each
//! law is broken by some backend.
#![cfg(feature = "conformance")]

mod acquiring;
mod bug;
mod ending;
mod mutant;
mod watching;

use std::collections::BTreeSet;

use lock_core::conformance::{Verdict, laws, run};
use lock_core::memory::MemoryBackend;

use bug::{BUGS, Bug};
use mutant::Colony;

/// The laws that a backend breaks, with how.
async fn broken_laws(bug: Bug) -> Vec<(&'static str, String)> {
    let mut broken = Vec::new();
    for law in laws() {
        match run(law.name(), &Colony::new(bug)).await {
            Verdict::Holds => {}
            Verdict::Broken(reason) => broken.push((law.name(), reason)),
            other => panic!("{}: {other:?}", law.name()),
        }
    }
    broken
}

#[tokio::test(start_paused = true)]
async fn each_bug_breaks_its_law_and_each_law_has_a_bug() {
    let mut caught = BTreeSet::new();
    for &(bug, expected) in BUGS {
        let broken = broken_laws(bug).await;
        println!("{bug:?}: {broken:#?}");
        for law in expected {
            assert!(broken.iter().any(|(name, _)| name == law), "{bug:?} keeps {law}");
        }
        caught.extend(broken.into_iter().map(|(name, _)| name));
    }
    let all: BTreeSet<_> = laws().iter().map(|law| law.name()).collect();
    assert_eq!(all.difference(&caught).collect::<Vec<_>>(), Vec::<&&str>::new(), "never broken");
}

#[tokio::test(start_paused = true)]
async fn a_mutant_without_a_bug_keeps_every_law() {
    assert_eq!(broken_laws(Bug::None).await, []);
}

#[tokio::test]
async fn an_unknown_law_does_not_hold() {
    let verdict = run("a_law_that_nobody_wrote", &MemoryBackend::new()).await;
    assert!(matches!(verdict, Verdict::Broken(_)), "{verdict:?}");
}
