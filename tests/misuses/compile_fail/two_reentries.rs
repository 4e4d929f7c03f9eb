//! Two branches that run side by side cannot both be under one guard.

use lock_core::memory::MemoryBackend;
use lock_sync::{LeaseLost, Locks, Reentry};

async fn add(total: Result<Reentry<'_, u32>, LeaseLost>) {
    *total.unwrap() += 1;
}

#[tokio::main]
async fn main() {
    let locks = Locks::new(MemoryBackend::new());
    let mutex = locks.mutex("total", 0).unwrap();
    let mut guard = mutex.lock().await.unwrap();
    tokio::join!(add(guard.reenter()), add(guard.reenter()));
}
