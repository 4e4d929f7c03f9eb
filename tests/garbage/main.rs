//! How clients bear a server that talks nonsense.
//!
//! A real server answers, and on the way its words are harmed, by a seed: cut short, of another type,
//! with a length that nobody has, nested without end, with messages in between that nobody asked for.
//! Whatever is done to them, nothing panics, nothing waits beyond its time, memory stays bounded, and
//! nobody believes to hold a lock that the server has not given to it. When the nonsense ends, so does
//! the trouble.
//!
//! `LOCK_GARBAGE_SEED` repeats what is done to whose replies, and with `LOCK_GARBAGE_TIMES` more is done.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod holders;
mod primitives;
mod support;
