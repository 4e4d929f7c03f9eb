//! Acquisitions, holds and leases, with one server.

use std::sync::Arc;
use std::time::Duration;

use lock_core::Ttl;
use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, LossReason, Mutex, OwnedMutexGuard};
use lock_tests::{RedisServer, SOON, eventually, soon};

use crate::diary::Diary;

/// Two clients of one server, of which the first is observed. Both know the lock "it".
struct Pair {
    server: RedisServer,
    diary: Arc<Diary>,
    here: Arc<Mutex<()>>,
    there: Arc<Mutex<()>>,
}

impl Pair {
    fn new(ttl: Duration) -> Self {
        let (server, diary) = (RedisServer::start(), Diary::new());
        let observed = RedisBackend::builder(server.url()).observer(diary.clone()).build().unwrap();
        // The hand-offs of the observed client do not depend on the time.
        let handoff = Handoff::Budget { handoffs: 1_000, time: LONG };
        let observed = Locks::builder(observed).observer(diary.clone()).ttl(ttl).handoff(handoff);
        let observed = observed.build().unwrap();
        let other = RedisBackend::open(server.url()).unwrap();
        let other = Locks::builder(other).ttl(ttl).build().unwrap();
        let lock = |locks: &Locks<RedisBackend>| Arc::new(locks.mutex("it", ()).unwrap());
        Self { server, diary, here: lock(&observed), there: lock(&other) }
    }

    /// Waits until so many claims have a place in the queue of the server.
    fn until_in_line(&self, count: i64) {
        let line = || self.server.cli(&["LLEN", "lock:{it}:queue"]).int() == count;
        eventually("the claims are in the queue", SOON, line);
    }
}

/// What was said, without the renewals: a client may renew a lease at any time.
fn but_renewals(mut said: Vec<String>) -> Vec<String> {
    said.retain(|it| it != "renewed");
    said
}

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_lock_passes_within_the_process_and_between_processes() {
    let pair = Pair::new(LONG);
    let lock = |lock: &Arc<Mutex<()>>| tokio::spawn(Arc::clone(lock).lock_owned());
    let first = soon(lock(&pair.here)).await.unwrap().unwrap();
    assert_eq!(but_renewals(pair.diary.of_locks()), ["begun", "granted free", "holds"]);

    let theirs = lock(&pair.there);
    pair.until_in_line(1);
    // The answer to a renewal says that another process waits.
    let longer = Ttl::new(LONG * 2).unwrap();
    soon(OwnedMutexGuard::lease(&first).extend(longer)).await.unwrap();
    pair.diary.until_lock("renewed").await;
    soon(OwnedMutexGuard::release(first)).await.unwrap();
    let theirs = soon(theirs).await.unwrap().unwrap();
    assert_eq!(but_renewals(pair.diary.until_lock("given").await), ["hold released", "given"]);

    let second = lock(&pair.here);
    assert_eq!(pair.diary.until_lock("waits").await, ["begun", "waits"]);
    let third = lock(&pair.here);
    assert_eq!(pair.diary.until_lock("waits").await, ["begun", "waits"]);
    assert_eq!(pair.diary.open(), (2, 0));
    pair.until_in_line(1);
    soon(OwnedMutexGuard::release(theirs)).await.unwrap();
    let second = soon(second).await.unwrap().unwrap();
    // The message of the grant may overtake the reply that gave the place. Then the process asks.
    let said = but_renewals(pair.diary.of_locks());
    let pushed = ["granted granted", "holds"];
    assert!(said == pushed || said == ["granted free", "holds"], "{said:?}");
    assert_eq!(pair.diary.open(), (1, 1));
    drop(second);
    let third = soon(third).await.unwrap().unwrap();
    // Two threads tell of the end of one hold and of the begin of the next.
    let mut said = but_renewals(pair.diary.of_locks());
    said.sort();
    assert_eq!(said, ["granted handoff", "hold dropped", "holds"]);
    soon(OwnedMutexGuard::release(third)).await.unwrap();
    assert_eq!(but_renewals(pair.diary.of_locks())[0], "hold released");
    assert_eq!(pair.diary.open(), (0, 0));
}

#[tokio::test]
async fn a_deleted_key_is_a_lost_lease_and_its_hold_ends_with_the_guard() {
    let pair = Pair::new(LONG);
    let guard = soon(Arc::clone(&pair.here).lock_owned()).await.unwrap();
    // A process that watches the key hears of the deletion. Otherwise it would find out in its next renewal.
    let lease = OwnedMutexGuard::lease(&guard);
    pair.diary.of_locks();
    pair.server.cli(&["DEL", "lock:{it}"]);
    let extended = soon(lease.extend(Ttl::new(LONG * 2).unwrap())).await;
    assert_eq!(extended.unwrap_err().reason(), LossReason::Revoked);
    let said = pair.diary.until_lock("lost").await;
    assert!(said.contains(&"lost revoked".into()), "{said:?}");
    assert_eq!(pair.diary.open(), (0, 1), "the guard lives");
    drop(guard);
    assert_eq!(pair.diary.of_locks(), ["hold lost"]);
    assert_eq!(pair.diary.open(), (0, 0));
    assert!(soon(pair.there.lock()).await.is_ok());
}

#[tokio::test]
async fn renewals_are_reported_until_the_server_stands_still_and_the_lease_ends() {
    let pair = Pair::new(Duration::from_secs(2));
    let guard = soon(Arc::clone(&pair.here).lock_owned()).await.unwrap();
    let said = pair.diary.until_lock("renewed").await;
    assert!(!said.contains(&"failed".into()), "{said:?}");
    pair.server.stop();
    let lease = OwnedMutexGuard::lease(&guard);
    assert_eq!(soon(lease.lost()).await.reason(), LossReason::Expired);
    let said = pair.diary.until_lock("lost expired").await;
    assert!(said.contains(&"failed".into()), "{said:?}");
    pair.server.cont();
    drop(guard);
    assert_eq!(pair.diary.of_locks().last(), Some(&"hold lost".into()));
    assert_eq!(pair.diary.open(), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_is_complete_after_a_crowd_of_callers_that_come_and_go() {
    const TASKS: u32 = 8;
    const TURNS: u32 = 40;
    let pair = Pair::new(LONG);
    let task = |lock: Arc<Mutex<()>>, task: u32| async move {
        for turn in 0..TURNS {
            let limit = Duration::from_micros(u64::from((task * 31 + turn * 17) % 50) * 40);
            // Some callers give up, at any point.
            if (task + turn).is_multiple_of(3) {
                drop(tokio::time::timeout(limit, lock.lock()).await);
            } else {
                let guard = lock.lock().await.unwrap();
                tokio::task::yield_now().await;
                drop(guard);
            }
        }
    };
    let locks = [&pair.here, &pair.there];
    let tasks: Vec<_> = (0..TASKS)
        .map(|number| tokio::spawn(task(Arc::clone(locks[number as usize % 2]), number)))
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(pair.diary.open(), (0, 0));
    let said = pair.diary.of_locks();
    let count = |what: &str| said.iter().filter(|it| it.starts_with(what)).count();
    assert_eq!(count("begun"), (TASKS / 2 * TURNS) as usize);
    assert_eq!(count("holds"), count("granted"));
    assert_eq!(count("begun"), count("granted") + count("abandoned"), "{said:?}");
}
