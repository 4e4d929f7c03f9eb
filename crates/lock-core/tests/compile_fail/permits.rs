//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, PermitBackend};

fn acquire_many(_backend: impl PermitBackend) {}

fn app(backend: Box<dyn Backend>) {
    acquire_many(backend);
}

fn main() {}
