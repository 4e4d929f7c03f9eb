//! A lock held by a majority of independent backends.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod abilities;
mod acquire;
mod asked;
mod background;
mod backoff;
mod builder;
mod claims;
mod convert;
mod failure;
mod hints;
mod inner;
mod keep;
mod node;
mod owed;
mod quarantine;
mod quorum;
mod redlock;
mod register;
mod release;
mod renew;
mod round;
mod status;
mod tally;
mod tokens;
mod validity;
mod watching;

pub use builder::Builder;
pub use redlock::Redlock;
pub use status::{NodeStatus, Voting};
