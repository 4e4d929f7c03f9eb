//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, PermitBackend};

fn acquire_many(_backend: impl PermitBackend) {}

fn app(backend: Box<dyn Backend>) {
    acquire_many(backend);
}

fn main() {}
