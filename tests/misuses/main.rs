//! Code that the compiler refuses, with its messages: misuses of lock-sync and lock-core, and what a quorum lacks.
//!
//! One package tests all of it, because each package with such a test checks its dependencies once more. No other test
//! runs beside this one, because the compiler takes all cores.

#![forbid(unsafe_code)]

/// The compiler lists the types with a capability, so its messages depend on the features of the crates.
/// `TRYBUILD=overwrite` writes the messages again.
#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("compile_fail/*.rs");
}
