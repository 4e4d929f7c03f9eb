//! The secrets of the library, the rights that it needs, and attacks on it.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod floods;
mod monitor;
mod rights;
mod secrets;
mod tokens;
mod wire;
