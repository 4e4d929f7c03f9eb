//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, QuorumNode};

fn quorum(_nodes: Vec<impl QuorumNode>) {}

fn app(backend: Box<dyn Backend>) {
    quorum(vec![backend]);
}

fn main() {}
