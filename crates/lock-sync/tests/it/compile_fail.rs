//! What the compiler refuses, and what it says.

/// The compiler lists who has an ability, so what it says depends on the features of `lock-core`.
#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
