//! The protected resource: it accepts writes, checks their fencing tokens, and knows which tasks are inside.
//!
//! It lives in the process of the harness and outlives every worker. A worker has a connection for each task, and
//! sends one request at a time. The findings of the resource remain even if the history of a worker is lost:
//!
//! - two tasks inside at once although the lock excludes that, and both reported a valid lease: also if one of
//!   them has been killed since;
//! - more permits inside than there are, where their number is fixed;
//! - a write whose token is lower than the highest that was written, which it refuses (Kleppmann, 2016).

mod client;
mod desk;
mod server;
mod words;

pub use client::Client;
pub use desk::{Guest, Meeting, Tally};
pub use server::Resource;
