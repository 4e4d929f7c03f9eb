//! Futures that are dropped at every possible point.
//!
//! With the default lease of half a minute, a lock that leaked would keep the other client waiting
//! longer than any of these tests allows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_redis::{Protocol, RedisBackend};
use lock_sync::{LockError, Locks, Mutex, MutexGuard};
use lock_tests::{Direction, Proxy, RedisServer};

use crate::support::{
    Excluding, Guard, Leftovers, Pair, PolledOut, TheMutex, after_polls, client,
    for_all_that_excludes, give_up_at_every_poll, soon, spin_until,
};

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

fn speaking(protocol: Protocol) -> Pair {
    Pair::with(|redis| redis.protocol(protocol), |locks| locks)
}

for_all_that_excludes! {
    async:
    a_free_lock_is_given_up_after_any_poll
    a_lock_that_passes_between_processes_is_given_up_after_any_poll
    a_lock_that_was_handed_to_a_future_goes_on_when_that_is_dropped_unseen
    a_release_that_was_begun_happens_without_its_future
}

for_all_that_excludes! {
    async on two threads:
    so_it_is_on_a_runtime_of_many_threads
}

/// The other client gets the lock, and no key remains when it is done.
async fn assert_clean<X: Excluding>(pair: &Pair) {
    let (_, there) = pair.locks::<X>();
    soon(there.take()).await.unwrap().release().await.unwrap();
    pair.server.assert_all_free();
}

async fn a_free_lock_is_given_up_after_any_poll<X: Excluding>() {
    const ROUNDS: usize = 300;
    for protocol in PROTOCOLS {
        let pair = speaking(protocol);
        let (here, there) = pair.locks::<X>();
        let (mut dropped, mut had) = (0, 0);
        for round in 0..ROUNDS {
            for polls in 0.. {
                // Alternately from a lock that is free, and from one that is being released.
                if round % 2 == 0 {
                    soon(there.take()).await.unwrap().release().await.unwrap();
                }
                match after_polls(here.take(), polls).await {
                    Err(PolledOut) => dropped += 1,
                    Ok(guard) => {
                        had += 1;
                        drop(guard.unwrap());
                        break;
                    }
                }
            }
        }
        assert!(dropped * 2 >= ROUNDS * 3 && had == ROUNDS, "{protocol:?}: {dropped}, {had} had");
        assert_clean::<X>(&pair).await;
    }
}

async fn a_lock_that_passes_between_processes_is_given_up_after_any_poll<X: Excluding>() {
    const ROUNDS: usize = 64;
    for protocol in PROTOCOLS {
        let pair = speaking(protocol);
        let (dropped, had) = contend::<X>(&pair, ROUNDS).await;
        // Some kinds of lock use up the last poll.
        assert!(dropped > ROUNDS && had > ROUNDS / 2, "{protocol:?}: {dropped} dropped, {had} had");
        assert_clean::<X>(&pair).await;
    }
}

async fn so_it_is_on_a_runtime_of_many_threads<X: Excluding>() {
    const ROUNDS: usize = 32;
    let pair = Pair::new();
    let (dropped, had) = contend::<X>(&pair, ROUNDS).await;
    assert!(dropped > ROUNDS && had > ROUNDS / 2, "{dropped} dropped, {had} had");
    assert_clean::<X>(&pair).await;
}

/// Drops the future after each number of polls, while the other client releases at about that time.
async fn contend<X: Excluding>(pair: &Pair, rounds: usize) -> (usize, usize) {
    let (here, there) = pair.locks::<X>();
    give_up_at_every_poll(rounds, async || {
        let held = soon(there.take()).await.unwrap();
        (held, here.take())
    })
    .await
}

#[tokio::test]
async fn futures_of_every_kind_are_given_up() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    for polls in (0..4).cycle().take(400) {
        let owned = Arc::clone(&here);
        drop(after_polls(here.try_lock(), polls).await);
        drop(after_polls(owned.clone().lock_owned(), polls).await);
        drop(after_polls(owned.try_lock_owned(), polls).await);
        drop(after_polls(here.lock_timeout(Duration::from_secs(60)), polls).await);
        drop(soon(there.lock()).await.unwrap());
    }
    assert_clean::<TheMutex>(&pair).await;
}

#[tokio::test]
async fn a_timeout_at_the_instant_of_the_grant_leaves_nothing() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    // A runtime counts in milliseconds, and so does the proxy before the server here.
    proxy.delay(Direction::ToClient, Duration::from_millis(4));
    let pair = Pair { here: client(proxy.url()), there: client(server.url()), server };
    let (here, there) = pair.mutexes();
    let mut usual = round_trip(&here).await;
    let (mut had, mut late) = (0, 0);
    for round in 0..300 {
        // Here and below, the limits follow a machine that becomes slower or faster.
        let limit = usual.saturating_sub(Duration::from_millis(3));
        let limit = limit + Duration::from_micros(100) * (round % 60);
        match tokio::time::timeout(limit, here.lock()).await {
            Ok(guard) => {
                had += 1;
                usual -= usual / 128;
                drop(guard.unwrap());
            }
            Err(_) => {
                late += 1;
                usual += usual / 128;
            }
        }
        MutexGuard::release(soon(there.lock()).await.unwrap()).await.unwrap();
    }
    assert!(had > 0 && late > 0, "both must have happened: {had} and {late}");
    assert_clean::<TheMutex>(&pair).await;
}

#[tokio::test]
async fn a_select_at_the_instant_of_the_grant_leaves_nothing() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    let mut usual = round_trip(&here).await;
    let (mut had, mut late) = (0, 0);
    for round in 0..2_000 {
        let limit = Instant::now() + usual * (round % 100) / 50;
        tokio::select! {
            guard = here.lock() => {
                had += 1;
                usual -= usual / 128;
                drop(guard.unwrap());
            }
            () = spin_until(limit) => {
                late += 1;
                usual += usual / 128;
            }
        }
        MutexGuard::release(soon(there.lock()).await.unwrap()).await.unwrap();
    }
    assert!(had > 0 && late > 0, "both must have happened: {had} and {late}");
    assert_clean::<TheMutex>(&pair).await;
}

#[tokio::test]
async fn a_select_at_the_instant_when_another_process_hands_over_leaves_nothing() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    let mut usual = round_trip(&here).await;
    let (mut had, mut late) = (0, 0);
    for round in 0..1_000 {
        let held = soon(there.lock()).await.unwrap();
        let mut waiting = Box::pin(here.lock());
        // The future waits for a hint by then, most of the time.
        let asked = spin_until(Instant::now() + usual * 4);
        tokio::select! {
            _ = waiting.as_mut() => panic!("two holders"),
            () = asked => {}
        }
        drop(held);
        let limit = Instant::now() + usual * (round % 100) / 16;
        tokio::select! {
            // If both have come, the lock is dropped unseen, which is the purpose.
            biased;
            () = spin_until(limit) => {
                late += 1;
                usual += usual / 128;
            }
            guard = waiting.as_mut() => {
                had += 1;
                usual -= usual / 128;
                drop(guard.unwrap());
            }
        }
    }
    assert!(had > 0 && late > 0, "both must have happened: {had} and {late}");
    assert_clean::<TheMutex>(&pair).await;
}

async fn a_lock_that_was_handed_to_a_future_goes_on_when_that_is_dropped_unseen<X: Excluding>() {
    let pair = Pair::new();
    let (here, _) = pair.locks::<X>();
    for _ in 0..50 {
        let guard = soon(here.take()).await.unwrap();
        let mut waiting = Box::pin(here.take());
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(guard);
        drop(waiting);
        assert_clean::<X>(&pair).await;
    }
}

#[tokio::test]
async fn a_wait_limit_at_the_instant_of_the_release_leaves_nothing() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    // Long enough for a lock that is released early, on a slow machine too.
    let limit = Duration::from_millis(2).max(round_trip(&here).await * 10);
    let (mut had, mut late) = (0, 0);
    for round in 0..300 {
        let held = soon(there.lock()).await.unwrap();
        let end = Instant::now() + limit * (round % 100) / 40;
        let let_go = async {
            spin_until(end).await;
            drop(held);
        };
        match soon(async { tokio::join!(here.lock_timeout(limit), let_go).0 }).await {
            Ok(guard) => {
                had += 1;
                drop(guard);
            }
            // Either the other client held the lock to the end, or the answer was late.
            Err(LockError::Timeout { .. }) => late += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(had > 0 && late > 0, "both must have happened: {had} and {late}");
    assert_clean::<TheMutex>(&pair).await;
}

async fn a_release_that_was_begun_happens_without_its_future<X: Excluding>() {
    let pair = Pair::new();
    let (here, there) = pair.locks::<X>();
    let mut dropped = 0;
    for polls in (0..4).cycle().take(400) {
        let guard = soon(here.take()).await.unwrap();
        match after_polls(guard.release(), polls).await {
            Err(PolledOut) => dropped += 1,
            Ok(released) => released.unwrap(),
        }
        drop(soon(there.take()).await.unwrap());
    }
    assert!(dropped >= 200, "{dropped}");
    assert_clean::<X>(&pair).await;
}

#[tokio::test]
async fn a_client_whose_every_wait_was_given_up_can_be_dropped() {
    let pair = Pair::new();
    let (_, there) = pair.mutexes();
    for polls in (0..4).cycle().take(100) {
        let short_lived: Locks<RedisBackend> = client(pair.server.url());
        let mutex = short_lived.mutex("it", ()).unwrap();
        drop(after_polls(mutex.lock(), polls).await);
        drop((mutex, short_lived));
        drop(soon(there.lock()).await.unwrap());
    }
    assert_clean::<TheMutex>(&pair).await;
}

/// How long it usually takes to get a lock that is free.
async fn round_trip(mutex: &Mutex<()>) -> Duration {
    let mut times = Vec::new();
    for _ in 0..21 {
        let begin = Instant::now();
        let guard = soon(mutex.lock()).await.unwrap();
        times.push(begin.elapsed());
        MutexGuard::release(guard).await.unwrap();
    }
    times.sort_unstable();
    times[times.len() / 2]
}
