//! Many who wait cost the server nothing.

use std::time::Duration;

use lock_sync::{Locks, MutexGuard};
use lock_tests::{CommandStats, RedisServer};
use tokio::task::JoinSet;

use crate::support::{Leftovers, Pair, client_with, soon};

const WINDOW: Duration = Duration::from_secs(2);

/// Waits until the server is asked nothing any more.
async fn until_quiet(server: &RedisServer) {
    soon(async {
        let mut before = server.commandstats();
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = server.commandstats();
            if now.since(&before).total() == 0 {
                return;
            }
            before = now;
        }
    })
    .await;
}

async fn asked_within_the_window(server: &RedisServer) -> CommandStats {
    let before = server.commandstats();
    tokio::time::sleep(WINDOW).await;
    server.commandstats().since(&before)
}

/// Tasks of one client, each waiting for the lock of one name.
fn wait_for(locks: &Locks, names: impl Iterator<Item = String>) -> JoinSet<u64> {
    let mut waiting = JoinSet::new();
    for name in names {
        let mutex = locks.mutex(name, ()).unwrap();
        waiting.spawn(async move {
            let guard: MutexGuard<'_, ()> = mutex.lock().await.unwrap();
            guard.fencing_token().get()
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
    until_quiet(&pair.server).await;

    // The leases are long: not even a renewal is due.
    let asked = asked_within_the_window(&pair.server).await;
    assert_eq!(asked.total(), 0, "{asked:?}");

    // All of them were waiting indeed.
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
    // Renewed every second by the holder. The waiters are told of a lease that lasts, and look at
    // its end whether it was renewed: once for all of them.
    let lease = Duration::from_secs(3);
    let pair = Pair::new();
    let holder = client_with(pair.server.url(), |redis| redis, |locks| locks.ttl(lease));
    let mutex = holder.mutex("it", ()).unwrap();
    let held = soon(mutex.lock()).await.unwrap();
    let mut waiting = wait_for(&pair.here, std::iter::repeat_n("it".to_owned(), 200));
    let before = pair.server.commandstats();
    tokio::time::sleep(lease * 2).await;
    let asked = pair.server.commandstats().since(&before);
    let (renewals, scripts) = (asked.calls("pexpire"), asked.calls("evalsha"));
    assert!((1..=10).contains(&renewals), "{asked:?}");
    // Asking when it came, once it listened, and at each end of a lease.
    assert!(scripts <= renewals + 8, "{asked:?}");

    assert!(held.is_valid());
    drop(held);
    while let Some(token) = soon(waiting.join_next()).await {
        token.unwrap();
    }
}
