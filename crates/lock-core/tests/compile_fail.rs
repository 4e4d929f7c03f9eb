//! Asking a backend for an ability that it lacks is a compile error that says what to do.
//!
//! The compiler lists the types that have the ability, so its message depends on the features.
#![cfg(feature = "memory")]

#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
