//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, JointBackend};

fn enter(_backend: impl JointBackend) {}

fn app(backend: Box<dyn Backend>) {
    enter(backend);
}

fn main() {}
