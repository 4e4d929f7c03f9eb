//! What the locks protect: something that takes writes, checks their fencing tokens, and sees who is inside.
//!
//! It lives in the process of the harness and outlives every worker. A worker has a connection for each task,
//! and asks one question at a time. What it sees is seen even if the history of a worker is lost:
//!
//! - two who are inside at once although the lock excludes that, and both said that their lease is valid: also if
//!   one of them has been killed since;
//! - more permits inside than there are, where their number is fixed;
//! - a write whose token is lower than the highest that was written, which it refuses (Kleppmann, 2016).

mod client;
mod desk;
mod server;
mod words;

pub use client::Client;
pub use desk::{Guest, Meeting, Tally};
pub use server::Resource;
