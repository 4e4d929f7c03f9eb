//! Code that the compiler refuses, with its messages: those of lock-core too, because each crate with such a test would
//! check its dependencies once more.

/// The compiler lists the types with a capability, so its messages depend on the features of `lock-core`.
#[test]
fn the_errors_are_pointed() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
