//! `dlock run`, `dlock elect` and `dlock wait-leader` as users run them: the built binary, over real servers.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod at_terminal;
mod codes;
mod in_shell;
mod leading;
mod losing;
mod nohup;
mod program;
mod several;
mod signals;
mod stores;
#[allow(dead_code, reason = "the tests of `view` use more of it")]
#[path = "../view/terminal.rs"]
mod terminal;
