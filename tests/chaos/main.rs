//! Everything fails that can, and what was promised holds all the same: see `tests/PROOF.md`.

#![forbid(unsafe_code)]
// The helpers of tests may panic as tests do.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broken;
mod smoke;

/// One suite of runs at a time: they wait for one another, for times are looked at.
static STAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());
