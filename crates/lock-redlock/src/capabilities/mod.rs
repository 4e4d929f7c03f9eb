//! The capabilities that a quorum has if its nodes have them.

mod cell;
mod inspect;
mod listing;

use lock_core::{Fixed, QuorumNode, SharedBackend};

use crate::Redlock;

pub(crate) use inspect::introduce;

impl<N: QuorumNode + SharedBackend> SharedBackend for Redlock<N> {
    type Conversion = Fixed;
}
