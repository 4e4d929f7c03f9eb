//! What a quorum can do because its nodes can.

mod cell;
mod inspect;

use lock_core::{Fixed, QuorumNode, SharedBackend};

use crate::Redlock;

impl<N: QuorumNode + SharedBackend> SharedBackend for Redlock<N> {
    type Conversion = Fixed;
}
