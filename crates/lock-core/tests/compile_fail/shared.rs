//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, SharedBackend};

fn read(_backend: impl SharedBackend) {}

fn app(backend: Box<dyn Backend>) {
    read(backend);
}

fn main() {}
