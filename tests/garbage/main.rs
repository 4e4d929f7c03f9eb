//! How clients react to a server that answers nonsense.
//!
//! A real server answers, and a proxy harms its replies, by a seed: it cuts them short, gives them
//! another type or a wrong length, nests them without end, or inserts messages without a subscription.
//! Whatever the proxy does, nothing panics, no call waits beyond its limit, memory stays bounded, and no
//! client believes to hold a lock that the server has not given to it. When the nonsense ends, the
//! clients recover.
//!
//! `LOCK_GARBAGE_SEED` repeats which replies are harmed and how, and `LOCK_GARBAGE_TIMES` does more harm.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod holders;
mod primitives;
mod support;
