//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, ConvertBackend};

fn downgrade(_backend: impl ConvertBackend) {}

fn app(backend: Box<dyn Backend>) {
    downgrade(backend);
}

fn main() {}
