//! Over any backend there are only the mutexes.

use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, Owner};

fn main() {
    let locks: Locks = Locks::new(MemoryBackend::new()).erase();
    let _ = locks.mutex("a", ());
    let _ = locks.rwlock("b", ());
    let _ = locks.semaphore("c", 1);
    let _ = locks.reentrant_mutex("d", ());
    let _ = locks.owner(&Owner::new().unwrap().pass());
    let _ = locks.election("e");
    let _ = locks.barrier("f", 2);
}
