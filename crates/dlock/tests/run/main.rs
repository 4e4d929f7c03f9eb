//! `dlock run`, `dlock elect` and `dlock wait-leader` as users run them: the built binary, over real servers.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod codes;
mod leading;
mod losing;
mod program;
mod several;
mod signals;
