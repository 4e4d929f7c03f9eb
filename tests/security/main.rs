//! What the library keeps secret, what it has to be allowed, and what others can do to it.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod floods;
mod monitor;
mod rights;
mod secrets;
mod tokens;
mod wire;
