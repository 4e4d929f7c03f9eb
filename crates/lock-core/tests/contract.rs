//! The documentation of each trait names exactly the laws of its suite.
#![cfg(feature = "conformance")]

use lock_core::conformance::{Law, Suite, laws};
use lock_core::memory::MemoryBackend;

#[test]
fn the_docs_name_each_law_once_and_in_order() {
    let (_, contract) = BACKEND.split_once("/// # Contract").expect("the trait has a contract");
    let (contract, _) = contract.split_once("/// # Examples").expect("examples follow it");
    check(contract, laws());
}

#[test]
fn the_docs_of_each_capability_name_its_laws() {
    check(SHARED, Suite::<MemoryBackend>::shared().laws());
    check(CONVERT, Suite::<MemoryBackend>::convert().laws());
    check(JOINT, Suite::<MemoryBackend>::joint().laws());
    check(PERMITS, Suite::<MemoryBackend>::permits().laws());
    check(CELL, Suite::<MemoryBackend>::cell().laws());
    check(INSPECT, Suite::<MemoryBackend>::inspect().laws());
    check(QUORUM, Suite::<MemoryBackend>::quorum().laws());
}

#[test]
fn a_semaphore_of_one_permit_keeps_the_laws_of_a_mutex() {
    let named = |laws: &'static [Law]| laws.iter().map(Law::name).collect::<Vec<_>>();
    let mutex = named(Suite::<MemoryBackend>::one_permit().laws());
    // The contract of `Backend` begins with them.
    assert_eq!(named(laws())[..mutex.len()], mutex);
    assert_eq!(mutex.last(), Some(&"a_cut_client_recovers"));
}

#[test]
fn each_law_is_one_sentence() {
    for law in all() {
        let sentence = law.sentence();
        assert!(sentence.ends_with('.') && !sentence.contains(". "), "{sentence}");
        assert!(sentence.starts_with(|first: char| first.is_ascii_uppercase()), "{sentence}");
    }
}

#[test]
fn no_two_laws_have_one_name() {
    let mut names: Vec<_> = all().map(Law::name).collect();
    names.sort_unstable();
    assert!(names.is_sorted_by(|one, next| one < next), "{names:?}");
}

const BACKEND: &str = include_str!("../src/backend.rs");
const SHARED: &str = include_str!("../src/capabilities/shared.rs");
const CONVERT: &str = include_str!("../src/capabilities/convert.rs");
const JOINT: &str = include_str!("../src/capabilities/joint.rs");
const PERMITS: &str = include_str!("../src/capabilities/permits.rs");
const CELL: &str = include_str!("../src/capabilities/cell.rs");
const INSPECT: &str = include_str!("../src/capabilities/inspect.rs");
const QUORUM: &str = include_str!("../src/capabilities/quorum.rs");

fn all() -> impl Iterator<Item = &'static Law> {
    let capabilities = [
        Suite::<MemoryBackend>::shared(),
        Suite::convert(),
        Suite::joint(),
        Suite::permits(),
        Suite::cell(),
        Suite::inspect(),
        Suite::quorum(),
    ];
    laws().iter().chain(capabilities.into_iter().flat_map(|suite| suite.laws()))
}

/// Checks that a text names these laws and no others.
fn check(text: &str, laws: &[Law]) {
    let docs = text.lines().filter(|line| line.trim_start().starts_with("///"));
    let docs: Vec<_> = docs.collect();
    let documented: Vec<_> =
        docs.iter().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(is_law).collect();
    let tested: Vec<_> = laws.iter().map(Law::name).collect();
    assert_eq!(documented, tested);
}

/// Names of laws are sentences. No other code in these docs has so many underscores.
fn is_law(code: &&str) -> bool {
    code.matches('_').count() >= 2
        && code.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
}
