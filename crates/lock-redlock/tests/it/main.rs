//! What a quorum promises, over stores in this process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod conformance;
mod debate;
mod executors;
mod hearing;
mod keeping;
mod membership;
mod support;
mod votes;
