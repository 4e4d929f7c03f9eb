//! The contract in the documentation of `Backend` and the laws of the suite are the same.
#![cfg(feature = "conformance")]

use lock_core::conformance::laws;

const SOURCE: &str = include_str!("../src/backend.rs");

#[test]
fn the_docs_name_each_law_once_and_in_order() {
    let (_, contract) = SOURCE.split_once("/// # Contract").expect("the trait has a contract");
    let (contract, _) = contract.split_once("/// # Examples").expect("examples follow it");
    let documented: Vec<_> = contract.split('`').skip(1).step_by(2).filter(is_law).collect();
    let tested: Vec<_> = laws().iter().map(|law| law.name()).collect();
    assert_eq!(documented, tested);
}

/// The names of laws are sentences; no other code in the contract has so many underscores.
fn is_law(code: &&str) -> bool {
    code.matches('_').count() >= 2
        && code.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
}

#[test]
fn each_law_is_one_sentence() {
    for law in laws() {
        let sentence = law.sentence();
        assert!(sentence.ends_with('.') && !sentence.contains(". "), "{sentence}");
        assert!(sentence.starts_with(|first: char| first.is_ascii_uppercase()), "{sentence}");
    }
}
