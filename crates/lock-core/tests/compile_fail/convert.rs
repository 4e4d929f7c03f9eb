//! Asks a `dyn Backend` for a capability.

use lock_core::{Backend, ConvertBackend};

fn downgrade(_backend: impl ConvertBackend) {}

fn app(backend: Box<dyn Backend>) {
    downgrade(backend);
}

fn main() {}
