//! The tests of the laws, in the groups of the contract.
//!
//! Each takes a [`Scene`](super::scene::Scene) and is listed in the [table](super::table). Laws of
//! further traits get a module and a table of their own beside these.

pub(super) mod arena;
pub(super) mod converting;
pub(super) mod counting;
pub(super) mod ending;
pub(super) mod failing;
pub(super) mod fencing;
pub(super) mod granting;
pub(super) mod handing;
pub(super) mod queueing;
pub(super) mod renewing;
pub(super) mod sharing;
pub(super) mod slow;
pub(super) mod watching;
