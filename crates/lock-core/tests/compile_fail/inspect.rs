//! Asks a `dyn Backend` for an ability.

use lock_core::{Backend, InspectBackend};

fn holders(_backend: impl InspectBackend) {}

fn app(backend: Box<dyn Backend>) {
    holders(backend);
}

fn main() {}
