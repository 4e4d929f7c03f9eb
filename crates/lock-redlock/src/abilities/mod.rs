//! What a quorum can do because its nodes can.

mod cell;
mod inspect;

use lock_core::{JointBackend, QuorumNode, SharedBackend};

use crate::Redlock;

impl<N: QuorumNode + SharedBackend> SharedBackend for Redlock<N> {}

/// Members of a group have the tokens that a quorum of nodes knows it by. A node that the first of them has
/// not reached knows it by others; if too few know it by the same, who comes then gets higher ones.
impl<N: QuorumNode + JointBackend> JointBackend for Redlock<N> {}
