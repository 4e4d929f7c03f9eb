//! How often a pass allocates.

use std::alloc::System;

use lock_core::memory::MemoryBackend;
use lock_sync::{Locks, MutexGuard};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The passes before counting begins: in them, buffers grow.
const WARM_UP: usize = 100;
const PASSES: usize = 1_000;
/// Two for each of the two requests: the future of the request, and the future of the backend's verb.
const MOST: usize = 4;

#[tokio::test]
async fn a_pass_without_contention_allocates_for_its_requests_alone()
-> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::new(MemoryBackend::new());
    let mutex = locks.mutex("it", ())?;
    for _ in 0..WARM_UP {
        MutexGuard::release(mutex.lock().await?).await?;
    }
    let region = Region::new(HEAP);
    for _ in 0..PASSES {
        MutexGuard::release(mutex.lock().await?).await?;
    }
    let allocations = region.change().allocations;
    // The driver and the runtime allocate now and then.
    assert!(allocations < MOST * PASSES + PASSES / 2, "{allocations} for {PASSES} passes");
    Ok(())
}
