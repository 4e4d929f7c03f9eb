//! Asking a backend for what it cannot do is a compile error that says what to do.
//!
//! The compiler lists who has the ability, so what it says depends on the features.
#![cfg(feature = "memory")]

#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
