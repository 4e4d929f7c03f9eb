//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, CellBackend};

fn get_or_init(_backend: impl CellBackend) {}

fn app(backend: Box<dyn Backend>) {
    get_or_init(backend);
}

fn main() {}
