//! Asks a backend for an ability of which it is only known that it is a backend.

use lock_core::{Backend, SharedBackend};

fn read(_backend: impl SharedBackend) {}

fn app(backend: Box<dyn Backend>) {
    read(backend);
}

fn main() {}
