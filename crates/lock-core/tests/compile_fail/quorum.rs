//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, QuorumNode};

fn quorum(_nodes: Vec<impl QuorumNode>) {}

fn app(backend: Box<dyn Backend>) {
    quorum(vec![backend]);
}

fn main() {}
