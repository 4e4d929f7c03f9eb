//! Asks a `dyn Backend` for each capability.

use lock_core::{
    Backend, CellBackend, ConvertBackend, InspectBackend, JointBackend, PermitBackend, QuorumNode,
    SharedBackend,
};

fn read(_backend: impl SharedBackend) {}
fn acquire_many(_backend: impl PermitBackend) {}
fn downgrade(_backend: impl ConvertBackend) {}
fn enter(_backend: impl JointBackend) {}
fn get_or_init(_backend: impl CellBackend) {}
fn holders(_backend: impl InspectBackend) {}
fn quorum(_nodes: Vec<impl QuorumNode>) {}

fn app(backend: fn() -> Box<dyn Backend>) {
    read(backend());
    acquire_many(backend());
    downgrade(backend());
    enter(backend());
    get_or_init(backend());
    holders(backend());
    quorum(vec![backend()]);
}

fn main() {}
