//! Everything that can fail does fail, and the promises still hold: see `tests/PROOF.md`.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broken;
mod others;
mod smoke;
mod stored;
mod takeovers;

/// One suite of runs at a time: the checkers compare times, so suites wait for one another.
static STAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());
