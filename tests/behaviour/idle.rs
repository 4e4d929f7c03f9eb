//! Many waiters cost the server nothing.

use std::time::{Duration, Instant};

use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::eventually_async;
use tokio::task::JoinSet;

use crate::support::{Leftovers, Pair, QUEUE, SOON, asked_within, client_with, soon, until_quiet};

const WINDOW: Duration = Duration::from_secs(2);

/// Tasks of one client, each waiting for the lock of one name.
fn wait_for(locks: &Locks<RedisBackend>, names: impl Iterator<Item = String>) -> JoinSet<u64> {
    let mut waiting = JoinSet::new();
    for name in names {
        let mutex = locks.mutex(name, ()).unwrap();
        waiting.spawn(async move {
            let guard: MutexGuard<'_, ()> = mutex.lock().await.unwrap();
            MutexGuard::lease(&guard).fencing_token().get()
        });
    }
    waiting
}

#[tokio::test]
async fn waiters_ask_nothing_while_they_wait() {
    let pair = Pair::new();
    let keys = (0..50).map(|number| format!("key {number}"));
    let names: Vec<String> = keys.chain(["it".to_owned()]).collect();
    let mutexes: Vec<_> =
        names.iter().map(|name| pair.there.mutex(name.as_str(), ()).unwrap()).collect();
    let mut held = Vec::new();
    for mutex in &mutexes {
        held.push(soon(mutex.lock()).await.unwrap());
    }
    let many = std::iter::repeat_n("it".to_owned(), 200);
    let mut waiting = wait_for(&pair.here, many.chain(names.into_iter().take(50)));
    // A busy client may tell its label late.
    pair.server.until_labels(2).await;
    until_quiet(&pair.server).await;

    // The leases are long: not even a renewal is due.
    let asked = asked_within(&pair.server, WINDOW).await;
    assert_eq!(asked.total(), 0, "{asked:?}");

    // All of them were waiting.
    assert_eq!(waiting.try_join_next().map(drop), None);
    drop(held);
    let mut served = 0;
    while let Some(token) = soon(waiting.join_next()).await {
        token.unwrap();
        served += 1;
    }
    assert_eq!(served, 250);
    pair.server.assert_all_free();
}

#[tokio::test]
async fn beside_waiters_the_server_sees_renewals_alone() {
    // The holder renews every second. The waiters know a lease that lasts. At its end they ask
    // whether it was renewed: once for all of them.
    let lease = Duration::from_secs(3);
    let pair = Pair::new();
    let holder = client_with(pair.server.url(), |redis| redis, |locks| locks.ttl(lease));
    let mutex = holder.mutex("it", ()).unwrap();
    let held = soon(mutex.lock()).await.unwrap();
    let mut waiting = wait_for(&pair.here, std::iter::repeat_n("it".to_owned(), 200));
    let before = pair.server.commandstats();
    tokio::time::sleep(lease * 2).await;
    let asked = pair.server.commandstats().since(&before);
    // The holder renews once a second or a little sooner. The waiters ask when they come, once they
    // listen, and at each end of a lease.
    let scripts = asked.calls("evalsha");
    assert!((4..=18).contains(&scripts), "{asked:?}");

    assert!(MutexGuard::lease(&held).is_valid());
    drop(held);
    while let Some(token) = soon(waiting.join_next()).await {
        token.unwrap();
    }
}

#[tokio::test]
async fn a_process_keeps_one_place_in_line_however_many_wait_in_it() {
    // A place lives for this long and is kept by one request in a third of that time.
    const PLACE: Duration = Duration::from_secs(3);
    const PROCESSES: u64 = 21;
    let pair = Pair::new();
    let (_, there) = pair.mutexes();
    let held = soon(there.lock()).await.unwrap();
    let clients: Vec<Locks<RedisBackend>> = (0..PROCESSES)
        .map(|_| client_with(pair.server.url(), |redis| redis, |locks| locks.ttl(PLACE)))
        .collect();
    let mut waiting = JoinSet::new();
    for (number, locks) in clients.iter().enumerate() {
        // A hundred wait in the first, and one in each of the others.
        let tasks = if number == 0 { 100 } else { 1 };
        let names = std::iter::repeat_n("it".to_owned(), tasks);
        waiting.spawn(wait_for(locks, names).join_all());
    }
    let in_line = async || pair.server.cli(&["LLEN", QUEUE]).int() == PROCESSES as i64;
    eventually_async("all stand in line", SOON, in_line).await;
    pair.server.until_labels(PROCESSES as usize + 1).await;

    let begin = Instant::now();
    let asked = asked_within(&pair.server, PLACE).await;
    // All processes ask three times each, and once more for the part of a second. A busy machine measures longer.
    let times = 3 * begin.elapsed().as_millis() as u64 / PLACE.as_millis() as u64 + 1;
    let scripts = asked.calls("evalsha");
    assert!(scripts >= PROCESSES, "{asked:?}");
    assert!(scripts <= times * PROCESSES, "{asked:?}");
    // No waiter got a message, and none got in.
    assert_eq!(asked.calls("publish"), 0, "{asked:?}");
    assert!(MutexGuard::lease(&held).is_valid());
    assert_eq!(pair.server.cli(&["LLEN", QUEUE]).int(), PROCESSES as i64, "each has one place");

    drop(held);
    let served = soon(waiting.join_all()).await;
    assert_eq!(served.iter().map(Vec::len).sum::<usize>(), 120);
    pair.server.assert_all_free();
}
