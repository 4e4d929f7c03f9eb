//! Asking a backend for a capability that it lacks is a compile error that says what to do.
//!
//! The compiler lists the types that have the capability, so its message depends on the features.
#![cfg(feature = "memory")]

#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
