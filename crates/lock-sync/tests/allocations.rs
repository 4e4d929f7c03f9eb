//! How often a pass allocates.

use std::alloc::System;

use std::sync::Arc;

use lock_core::memory::MemoryBackend;
use lock_core::observer::Observer;
use lock_sync::{Locks, Mutex, MutexGuard};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::task::yield_now;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The passes before counting begins: in them, buffers grow.
const WARM_UP: usize = 100;
const PASSES: usize = 1_000;
/// Two for each of the two requests: the future of the request, and the future of the backend's verb.
const MOST: usize = 4;
/// The tests count one after the other.
static COUNTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::test]
async fn a_pass_without_contention_allocates_for_its_requests_alone() -> Outcome {
    let _alone = COUNTING.lock().await;
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

/// Hears of everything, and allocates nothing.
struct Deaf;

impl Observer for Deaf {}

/// So many passes of a task that finds the lock held, and holds it while another task comes.
async fn passes(mutex: &Mutex<()>, passes: usize) -> Outcome {
    for _ in 0..passes {
        let guard = mutex.lock().await?;
        yield_now().await;
        drop(guard);
    }
    Ok(())
}

async fn allocations_among_waiters(
    locks: &Locks<MemoryBackend>,
) -> Result<usize, lock_core::Error> {
    let mutex = locks.mutex("it", ())?;
    let both = async |count| {
        let (one, other) = tokio::join!(passes(&mutex, count), passes(&mutex, count));
        assert!(one.is_ok() && other.is_ok());
    };
    both(WARM_UP).await;
    let region = Region::new(HEAP);
    both(PASSES).await;
    Ok(region.change().allocations)
}

#[tokio::test]
async fn a_pass_among_waiters_allocates_twice_if_observers_hear_of_it() -> Outcome {
    let _alone = COUNTING.lock().await;
    let plain = Locks::new(MemoryBackend::new());
    let observed = || Locks::builder(MemoryBackend::new()).observer(Arc::new(Deaf));
    let unheard = observed().observe_one_in(u32::MAX).build()?;
    let heard = observed().observe_one_in(1).build()?;
    for (locks, each) in [(plain, 0), (unheard, 0), (heard, 2)] {
        let allocations = allocations_among_waiters(&locks).await?;
        // Both tasks make all passes. The driver and the runtime allocate now and then.
        let most = 2 * PASSES * each + PASSES / 5;
        assert!(
            allocations < most,
            "{allocations} for {PASSES} passes of two tasks, at most {most}"
        );
    }
    Ok(())
}
