//! What a quorum lacks does not compile, and the compiler says what to do instead.
//!
//! `lock-sync` has such a test for a store of one's own, and must not know the quorum. No other test runs beside this
//! one, because the compiler takes all cores.

#![forbid(unsafe_code)]

/// `TRYBUILD=overwrite` writes the messages again.
#[test]
fn what_a_quorum_lacks_does_not_compile() {
    trybuild::TestCases::new().compile_fail("compile_fail/*.rs");
}
