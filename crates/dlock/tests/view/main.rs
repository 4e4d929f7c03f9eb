//! The program as users run it: the built binary, over real servers.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod bench;
mod deployments;
mod doctor;
mod ending;
mod etcd;
mod everything;
mod listing;
mod page;
mod postgres;
mod program;
mod quorum;
mod terminal;
mod top;
mod unanswered;
mod usage;
