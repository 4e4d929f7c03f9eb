//! Clients that get no hints: they have no place in the queue of the store, and ask at intervals.

use std::sync::Arc;
use std::time::Duration;

use lock_core::ErrorKind;
use lock_core::memory::{MemoryBackend, Verb};
use lock_sync::{Locks, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::support::poll_once;

const MILLI: Duration = Duration::from_millis(1);

/// A process and its connection to the store.
fn process(store: &MemoryBackend, ttl: Duration) -> (Locks<MemoryBackend>, MemoryBackend) {
    let client = store.client();
    client.faults().delay_requests(MILLI);
    client.faults().delay_replies(MILLI);
    let locks = Locks::builder(client.clone()).ttl(ttl).on_runtime(Handle::current());
    (locks.build().unwrap(), client)
}

/// A process that gets no hints from the store.
fn deaf(store: &MemoryBackend, ttl: Duration) -> (Locks<MemoryBackend>, MemoryBackend) {
    let (locks, client) = process(store, ttl);
    client.faults().on(Verb::Watch).fail(ErrorKind::Unsupported);
    (locks, client)
}

/// How often a task had the lock, and its longest wait for the lock.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    count: u32,
    longest_wait: Duration,
}

/// Takes the lock again and again for `time`, and holds it for `hold` each time.
fn taker(locks: &Locks<MemoryBackend>, time: Duration, hold: Duration) -> JoinHandle<Turns> {
    let mutex = Arc::new(locks.mutex("it", ()).unwrap());
    tokio::spawn(async move {
        let begin = Instant::now();
        let mut turns = Turns::default();
        while let Some(left) = time.checked_sub(begin.elapsed()) {
            let asked = Instant::now();
            let guard = timeout(left, mutex.lock()).await;
            turns.longest_wait = turns.longest_wait.max(asked.elapsed());
            let Ok(guard) = guard else { break };
            turns.count += 1;
            sleep(hold).await;
            drop(guard);
        }
        turns
    })
}

#[tokio::test(start_paused = true)]
async fn processes_that_hear_nothing_share_the_turns() {
    for (ttl, longest) in [(30, 5_000), (3, 1_000)] {
        let (store, ttl) = (MemoryBackend::new(), Duration::from_secs(ttl));
        let (one, _) = deaf(&store, ttl);
        let (other, _) = deaf(&store, ttl);
        let time = ttl * 4;
        let tasks = [&one, &other].map(|locks| taker(locks, time, MILLI * 5));
        let mut turns = Vec::new();
        for task in tasks {
            turns.push(task.await.unwrap());
        }
        let all: u32 = turns.iter().map(|turns| turns.count).sum();
        for Turns { count, longest_wait } in &turns {
            // Then half a second, in which the other process certainly asks.
            assert!(*longest_wait < MILLI * (longest + 1_000), "{turns:?}");
            assert!(*count > all / 5, "{turns:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hears_nothing_soon_sees_that_a_lock_is_free() {
    let (store, ttl) = (MemoryBackend::new(), Duration::from_secs(3600));
    let (one, _) = deaf(&store, ttl);
    let (other, _) = deaf(&store, ttl);
    let (one, other) = (one.mutex("it", ()).unwrap(), other.mutex("it", ()).unwrap());
    for after in [0, 150, 5_000, 60_000] {
        let guard = one.lock().await.unwrap();
        let mut waiting = Box::pin(other.lock());
        assert!(poll_once(waiting.as_mut()).await.is_pending());
        sleep(MILLI * after).await;
        MutexGuard::release(guard).await.unwrap();
        let begin = Instant::now();
        MutexGuard::release(waiting.await.unwrap()).await.unwrap();
        assert!(begin.elapsed() < MILLI * 510, "{:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_hears_nothing_soon_sees_that_it_is_alone() {
    let (store, ttl) = (MemoryBackend::new(), Duration::from_secs(3600));
    let (one, _) = deaf(&store, ttl);
    let (other, _) = deaf(&store, ttl);
    let (one, other) = (one.rwlock("it", ()).unwrap(), other.rwlock("it", ()).unwrap());
    let reader = one.read().await.unwrap();
    let mut upgrade = Box::pin(other.upgradable_read().await.unwrap().upgrade());
    assert!(poll_once(upgrade.as_mut()).await.is_pending());
    sleep(MILLI * 5_000).await;
    RwLockReadGuard::release(reader).await.unwrap();
    let begin = Instant::now();
    assert!(RwLockWriteGuard::lease(&upgrade.await.unwrap()).is_valid());
    assert!(begin.elapsed() < MILLI * 510, "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_hears_nothing_asks_now_and_then_and_not_all_at_once() {
    const FLEET: u64 = 100;
    let (store, ttl) = (MemoryBackend::new(), Duration::from_secs(3600));
    let (holder, _) = deaf(&store, ttl);
    let holder = holder.mutex("it", ()).unwrap();
    let _guard = holder.lock().await.unwrap();
    let mut fleet = Vec::new();
    let tasks: Vec<_> = (0..FLEET)
        .map(|_| {
            let (locks, client) = deaf(&store, ttl);
            fleet.push(client);
            let mutex = Arc::new(locks.mutex("it", ()).unwrap());
            tokio::spawn(async move { mutex.lock().await.map(drop) })
        })
        .collect();
    let asked = || fleet.iter().map(|client| client.stats().acquires).sum::<u64>();
    sleep(MILLI * 2_000).await;
    let (begin, mut most) = (asked(), 0);
    for _ in 0..1_000 {
        let before = asked();
        sleep(MILLI * 10).await;
        most = most.max(asked() - before);
    }
    let rate = (asked() - begin) / 10;
    assert!((FLEET * 2..=FLEET * 4).contains(&rate), "{rate} requests in a second");
    assert!(most < FLEET / 5, "{most} requests in ten milliseconds");
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_can_hear_is_not_held_up() {
    let store = MemoryBackend::new();
    let (locks, client) = process(&store, Duration::from_secs(30));
    let turns = taker(&locks, MILLI * 30_000, MILLI * 5).await.unwrap();
    assert!(turns.longest_wait < MILLI * 30, "{turns:?}");
    assert_eq!(client.stats().watches, 1);
}
