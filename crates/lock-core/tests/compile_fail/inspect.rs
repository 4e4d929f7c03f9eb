//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, InspectBackend};

fn holders(_backend: impl InspectBackend) {}

fn app(backend: Box<dyn Backend>) {
    holders(backend);
}

fn main() {}
