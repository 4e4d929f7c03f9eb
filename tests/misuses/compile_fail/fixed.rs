//! Upgrades a reader over a backend that shares a lock, and does not convert a lease.

use lock_core::{Fixed, SharedBackend};
use lock_sync::{LockError, Locks};

async fn app<B: SharedBackend<Conversion = Fixed>>(locks: &Locks<B>) -> Result<(), LockError> {
    let lock = locks.rwlock("a", ()).unwrap();
    let reading = lock.upgradable_read().await?;
    drop(reading);
    let writing = lock.write().await?;
    drop(writing.downgrade_to_upgradable());
    Ok(())
}

fn main() {}
