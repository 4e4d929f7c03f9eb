//! Two branches that run side by side cannot both lock as one owner.

use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, Owner};

#[tokio::main]
async fn main() {
    let locks = Locks::new(MemoryBackend::new());
    let mutex = locks.reentrant_mutex("total", ()).unwrap();
    let mut owner = Owner::new().unwrap();
    let _ = tokio::join!(mutex.lock_as(&mut owner), mutex.lock_as(&mut owner));
}
