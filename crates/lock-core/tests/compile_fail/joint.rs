//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, JointBackend};

fn enter(_backend: impl JointBackend) {}

fn app(backend: Box<dyn Backend>) {
    enter(backend);
}

fn main() {}
