//! The tests of the laws of the contract and of each capability, in their groups.
//!
//! Each test takes a [`Scene`](super::scene::Scene) and is listed in one of the [tables](super::tables).

pub(super) mod arena;
pub(super) mod cell;
pub(super) mod committing;
pub(super) mod confirming;
pub(super) mod converting;
pub(super) mod counting;
pub(super) mod declaring;
pub(super) mod ending;
pub(super) mod failing;
pub(super) mod fencing;
pub(super) mod granting;
pub(super) mod guarding;
pub(super) mod handing;
pub(super) mod inspect;
pub(super) mod joint;
pub(super) mod listing;
pub(super) mod permits;
pub(super) mod queueing;

pub(super) mod renewing;
pub(super) mod shared;
pub(super) mod sharing;
pub(super) mod slow;
pub(super) mod together;
pub(super) mod undeclaring;
pub(super) mod voting;
pub(super) mod watching;
