//! Asks a quorum for what it lacks.

use lock_core::memory::MemoryBackend;
use lock_redlock::Redlock;
use lock_sync::{LockError, Locks, Owner};

async fn upgrades(locks: &Locks<Redlock<MemoryBackend>>) -> Result<(), LockError> {
    let lock = locks.rwlock("a", ())?;
    drop(lock.read().await?);
    drop(lock.upgradable_read().await?);
    Ok(())
}

fn enters_in_another_process(locks: &Locks<Redlock<MemoryBackend>>, owner: &Owner) {
    let _ = locks.reentrant_mutex("b", ());
    let _ = locks.owner(&owner.pass());
}

fn counts(locks: &Locks<Redlock<MemoryBackend>>) {
    let _ = locks.slot_semaphore("c", 2);
    let _ = locks.semaphore("d", 2);
}

fn main() {}
