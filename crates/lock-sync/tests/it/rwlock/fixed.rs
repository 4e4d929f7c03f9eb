//! The lock over a backend that does not convert leases.

use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Fixed, InspectBackend, Kind};
use lock_sync::{Handoff, Locks, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use tokio::runtime::Handle;

use super::{begin, soon, still_waits};
use crate::support::{Basic, eventually};

/// Two processes, and their store.
struct World {
    store: MemoryBackend,
    here: RwLock<u32, Fixed>,
    there: RwLock<u32, Fixed>,
}

impl World {
    fn new(handoff: Handoff) -> Self {
        let store = MemoryBackend::new();
        let lock = |client| {
            let locks = Locks::builder(Basic::over(client)).handoff(handoff);
            locks.on_runtime(Handle::current()).build().unwrap().rwlock("it", 0).unwrap()
        };
        Self { here: lock(store.client()), there: lock(store.client()), store }
    }

    /// The modes of the leases on the key.
    async fn kinds(&self) -> Vec<Kind> {
        let holders = self.store.inspect(self.here.key()).await.unwrap().holders;
        holders.iter().map(|holder| holder.kind).collect()
    }

    async fn all_released(&self) {
        eventually("all leases are released", || self.store.live_leases() == 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_admits_the_readers_of_this_process_under_the_exclusive_lease() {
    for handoff in [Handoff::default(), Handoff::Fair, Handoff::Never] {
        let world = World::new(handoff);
        let mut writing = world.here.write().await.unwrap();
        *writing = 1;
        let mut waiting = Box::pin(world.here.read());
        begin(waiting.as_mut()).await;
        // Longer than any budget of hand-offs.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let reading = writing.downgrade();
        let waited = soon(waiting).await.unwrap();
        let later = soon(world.here.read()).await.unwrap();
        assert_eq!((*reading, *waited, *later), (1, 1, 1));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(
            RwLockReadGuard::lease(&reading).is_valid()
                && RwLockReadGuard::lease(&waited).is_valid()
                && RwLockReadGuard::lease(&later).is_valid()
        );
        assert_eq!(world.kinds().await, [Kind::Exclusive]);
        drop((reading, waited, later));
        world.all_released().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_process_enters_until_the_last_reader_has_gone() {
    let world = World::new(Handoff::default());
    let writing = world.here.write().await.unwrap();
    let token = RwLockWriteGuard::lease(&writing).fencing_token();
    let mut local = Box::pin(world.here.read());
    begin(local.as_mut()).await;
    let (mut reader, mut writer) = (Box::pin(world.there.read()), Box::pin(world.there.write()));
    begin(reader.as_mut()).await;
    begin(writer.as_mut()).await;
    still_waits(reader.as_mut()).await;

    let reading = writing.downgrade();
    let local = soon(local).await.unwrap();
    assert!(matches!(world.there.try_read().await, Err(TryLockError::WouldBlock)));
    still_waits(reader.as_mut()).await;
    // After a while, a new reader waits until the other processes have had their turn.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut late = Box::pin(world.here.read());
    begin(late.as_mut()).await;
    still_waits(late.as_mut()).await;
    drop(reading);
    still_waits(reader.as_mut()).await;
    assert_eq!(world.kinds().await, [Kind::Exclusive]);

    drop(local);
    let remote = soon(reader).await.unwrap();
    assert!(RwLockReadGuard::lease(&remote).fencing_token() > token);
    still_waits(writer.as_mut()).await;
    drop(remote);
    let others = async { tokio::join!(async { drop(writer.await) }, async { drop(late.await) }) };
    soon(others).await;
    world.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_stays_exclusive_takes_no_more_readers_after_a_second() {
    let world = World::new(Handoff::default());
    let reading = world.here.write().await.unwrap().downgrade();
    let beside = soon(world.here.read()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut late = Box::pin(world.here.read());
    begin(late.as_mut()).await;
    still_waits(late.as_mut()).await;
    drop((reading, beside));
    // Later readers share the lock with the readers of other processes.
    let reading = soon(late).await.unwrap();
    let remote = soon(world.there.read()).await.unwrap();
    assert_eq!(world.kinds().await, [Kind::Shared, Kind::Shared]);
    drop((reading, remote));
    world.all_released().await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_here_comes_after_the_readers_without_a_request() {
    let world = World::new(Handoff::default());
    let reading = world.here.write().await.unwrap().downgrade();
    let mut writer = Box::pin(world.here.write());
    begin(writer.as_mut()).await;
    still_waits(writer.as_mut()).await;
    let acquired = world.store.stats().acquires;
    drop(reading);
    let writing = soon(writer).await.unwrap();
    assert_eq!(world.store.stats().acquires, acquired);
    assert_eq!(world.kinds().await, [Kind::Exclusive]);
    drop(writing);
    world.all_released().await;
}
