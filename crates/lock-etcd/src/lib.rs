//! An etcd cluster as a store of distributed locks: leases, fencing tokens, a fair queue, and hand-over by message.
//!
//! [`EtcdBackend`] carries the primitives of lock-sync. Its [example](EtcdBackend#examples) takes a lease.
//!
//! The README of the crate states what is promised and what is not, which versions of etcd are safe, which rights a
//! user needs, and what a lock costs.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod builder;
mod capabilities;
pub mod check;
mod core;
mod decide;
mod failure;
mod hub;
mod inspect;
mod labels;
mod leases;
mod link;
mod member;
mod naming;
mod news;
mod shared;
mod sweep;
mod url;
mod verbs;
mod voting;

use std::time::Duration;

use lock_core::{Limits, Ttl};

pub use backend::EtcdBackend;
pub use builder::Builder;

/// The limits of every etcd cluster with its usual settings.
pub(crate) fn limits() -> Limits {
    let seconds = |count| Ttl::new(Duration::from_secs(count)).unwrap_or(Ttl::DEFAULT);
    Limits::default()
        .with_min_ttl(seconds(2))
        .with_step(Duration::from_secs(1))
        .with_claim(seconds(3))
        .with_lag(Duration::from_secs(4))
}
