//! What a quorum promises, over stores in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod ballots;
mod catching_up;
mod clocks;
mod conformance;
mod debate;
mod ending;
mod executors;
mod few;
mod hearing;
mod keeping;
mod limits;
mod membership;
mod operations;
mod replacing;
mod silent;
mod support;
mod tokens;
mod twins;
mod votes;
mod writing;
