//! A PostgreSQL database as a store of distributed locks: leases, fencing tokens, a fair queue, and hand-over by
//! message.
//!
//! [`PostgresBackend`] carries the primitives of lock-sync. Its [example](PostgresBackend#examples) takes a lease. A
//! transaction of the app can check the lease: see [`fence`].
//!
//! The README of the crate states what is promised and what is not, which rights a role needs, how the crate works
//! behind a pooler, and why the locks are no advisory locks.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod backend;
mod builder;
mod capabilities;
pub mod check;
mod failure;
pub mod fence;
mod inbox;
mod link;
mod naming;
mod schema;
mod shared;
mod url;
mod voting;

pub use backend::PostgresBackend;
pub use builder::Builder;
pub use schema::SCHEMA;
