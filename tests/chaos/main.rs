//! Everything that can fail does fail, and the promises still hold: see `tests/PROOF.md`.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broken;
mod machine;
mod others;
mod smoke;
mod stored;
mod takeovers;

/// The seed with which a test begins: `CHAOS_SEED`, or else its own, which is fixed. So a failure shows what a change
/// breaks, and nothing else. To look for unknown bugs, use new seeds: see `tests/PROOF.md`.
fn first_seed(fixed: u64) -> u64 {
    std::env::var("CHAOS_SEED").map_or(fixed, |text| text.parse().expect("CHAOS_SEED is a number"))
}
