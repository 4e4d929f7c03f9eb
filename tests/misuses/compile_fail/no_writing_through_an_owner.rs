//! Two guards of one owner reach the data at once: neither can write it.

use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, Owner};

#[tokio::main]
async fn main() {
    let locks = Locks::new(MemoryBackend::new());
    let mutex = locks.reentrant_mutex("total", 0).unwrap();
    let mut owner = Owner::new().unwrap();
    let guard = mutex.lock_as(&mut owner).await.unwrap();
    *guard = 1;
}
