//! What waiting and passing on cost the server, by its own count.

use std::time::Duration;

use lock_core::Backend;
use lock_etcd::EtcdBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{CommandStats, EtcdServer, SOON, eventually_async, soon};
use tokio::task::JoinSet;

use crate::support::{Part, builder, claim, granted, locks, long};

/// A lease that is renewed after no test is over.
const LONG: Duration = Duration::from_secs(120);

/// The requests that read or write a key, or begin or end a lease.
const REQUESTS: [&str; 6] = ["Txn", "Range", "Put", "DeleteRange", "LeaseGrant", "LeaseRevoke"];

fn requests(stats: &CommandStats) -> u64 {
    REQUESTS.iter().map(|method| stats.calls(method)).sum()
}

async fn until_waiting(locks: &Locks<EtcdBackend>, count: u64) {
    eventually_async("all wait", SOON * 6, async || {
        locks.inspect("it").await.unwrap().waiting == count
    })
    .await;
}

/// Waits until the server knows the labels of so many clients. Each client tells its own once, a moment after it began.
async fn until_labelled(server: &EtcdServer, count: u64) {
    eventually_async("all labels are there", SOON * 6, async || {
        tokio::task::block_in_place(|| server.keys("lock/l/")).len() as u64 == count
    })
    .await;
}

/// Lets so many clients wait for a lock, lets each have it once, and returns what the server received meanwhile.
async fn hand_over_to(server: &EtcdServer, waiters: u64) -> CommandStats {
    // One for the holder, and one for each waiter. A hundred waiters share them. Each has a place of its own in the
    // queue.
    let stores = [(); 25].map(|()| builder(server.url()).build().unwrap());
    let labels = tokio::task::block_in_place(|| server.keys("lock/l/")).len() as u64;
    let here = locks(stores[0].clone(), LONG);
    let mutex = here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let mut waiting = JoinSet::new();
    for store in stores[1..].iter().cycle().take(waiters as usize) {
        let client = locks(store.clone(), LONG);
        waiting.spawn(async move {
            let mutex = client.mutex("it", ()).unwrap();
            let guard = mutex.lock().await.unwrap();
            MutexGuard::release(guard).await.unwrap();
            // So that closing the client counts as nothing here.
            client
        });
    }
    until_waiting(&here, waiters).await;
    until_labelled(server, labels + 1 + waiters).await;
    let before = server.received();
    MutexGuard::release(guard).await.unwrap();
    let mut clients = Vec::new();
    while let Some(client) = soon(waiting.join_next()).await {
        clients.push(client.unwrap());
    }
    server.received().since(&before)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_costs_no_more_if_more_clients_wait() {
    let server = EtcdServer::start();
    let mut each = Vec::new();
    for waiters in [2, 10, 100] {
        let cost = hand_over_to(&server, waiters).await;
        let requests = requests(&cost);
        // Releasing, claiming, and a lease for the next holder. A few requests are made again, because the document has
        // changed.
        assert!(requests <= 4 * waiters + 8, "{requests} requests for {waiters}: {cost:?}");
        each.push(requests as f64 / waiters as f64);
    }
    println!("requests for each hand-over with 2, 10 and 100 waiters: {each:.2?}");
    let growth = each.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(growth.clone().all(|more| more < 1.0), "requests for each hand-over: {each:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_free_lock_costs_two_transactions() {
    let server = EtcdServer::start();
    let here = locks(builder(server.url()).build().unwrap(), LONG);
    let mutex = here.mutex("it", ()).unwrap();
    let pair = async || MutexGuard::release(mutex.lock().await.unwrap()).await.unwrap();
    soon(pair()).await;
    until_labelled(&server, 1).await;
    let before = server.received();
    for _ in 0..50 {
        soon(pair()).await;
    }
    let cost = server.received().since(&before);
    assert_eq!((cost.calls("Txn"), cost.total()), (100, 100), "{cost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_waiters_cost_keep_alives_alone() {
    let server = EtcdServer::start();
    let here = locks(builder(server.url()).build().unwrap(), LONG);
    let mutex = here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let waiters = 20;
    let mut waiting = JoinSet::new();
    for _ in 0..waiters {
        let client = locks(builder(server.url()).build().unwrap(), LONG);
        waiting.spawn(
            async move { client.mutex("it", ()).unwrap().lock_timeout(LONG).await.map(drop) },
        );
    }
    until_waiting(&here, waiters).await;
    until_labelled(&server, 1 + waiters).await;
    let during = async |window| {
        let before = server.received();
        tokio::time::sleep(window).await;
        server.received().since(&before)
    };
    // On a loaded machine, some waiters are still about to ask again what they may have missed.
    eventually_async("all waiters are idle", SOON, async || {
        requests(&during(Duration::from_secs(1)).await) == 0
    })
    .await;
    let cost = during(Duration::from_secs(6)).await;
    assert_eq!(requests(&cost), 0, "{cost:?}");
    let streams: u64 = cost.calls("LeaseKeepAlive");
    // A session of five seconds is kept alive three times in its time at most, and the holder's lease is another one.
    assert!(streams <= (waiters + 1) * 6, "{cost:?}");
    assert_eq!(cost.total(), streams, "{cost:?}");
    assert!(waiting.try_join_next().is_none());
    MutexGuard::release(guard).await.unwrap();
    while let Some(outcome) = soon(waiting.join_next()).await {
        outcome.unwrap().unwrap();
    }
}

/// A program that takes a lock once leaves no key for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_lives_for_a_moment_leaves_no_key_without_a_lease() {
    let part = Part::new();
    let store = part.open();
    let ours = claim("once");
    granted(&store, &ours, long()).await;
    store.release(&ours).await.unwrap();
    drop(store);
    tokio::task::block_in_place(|| {
        assert!(!part.keys().is_empty(), "the document is there for a while");
        assert_eq!(part.server.keys_without_lease(&part.folder()), 0);
    });
}
