//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, InspectBackend};

fn holders(_backend: impl InspectBackend) {}

fn app(backend: Box<dyn Backend>) {
    holders(backend);
}

fn main() {}
