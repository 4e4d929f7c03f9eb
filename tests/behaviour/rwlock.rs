//! Readers and writers of several processes.

use lock_sync::{LockGuard, OwnedRwLockReadGuard, RwLockReadGuard};
use std::sync::Arc;
use std::time::Duration;

use lock_tests::{RedisServer, Worker, WorkerBuilder, eventually_async, lock_worker};

use crate::support::{
    AT_ONCE, Leftovers, Mixers, Pair, SOON, TTL, leases, line_up, now, options, rwlock, soon,
    until_in_line, workers, would_block,
};

#[tokio::test]
async fn readers_of_a_process_are_one_holder() {
    const READERS: usize = 20;
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    // The process sends its label now, so that the count below has no label in it.
    let other = soon(pair.here.lock("other")).await.unwrap();
    soon(LockGuard::release(other)).await.unwrap();
    pair.server.until_labels(1).await;
    let start = pair.server.commandstats();
    let first = soon(here.read()).await.unwrap();
    // A lease that is held for a while is watched, and renewed when the watch begins. Then the process knows that
    // no other process waits.
    let knows = async || pair.server.commandstats().since(&start).calls("evalsha") > 1;
    eventually_async("the lease is renewed", SOON, knows).await;
    let before = pair.server.commandstats();
    let mut guards = Vec::new();
    for _ in 1..READERS {
        guards.push(soon(here.read()).await.unwrap());
    }
    // None of these readers sent a request. The answer to the renewal may make the process ask once more.
    assert!(pair.server.commandstats().since(&before).calls("evalsha") <= 1);
    assert_eq!(leases(&pair.server).len(), 1);
    let theirs = soon(there.read()).await.unwrap();
    assert_eq!(leases(&pair.server).len(), 2);
    // The lease stays as long as one of them reads.
    drop(first);
    while guards.pop().is_some() {
        assert!(would_block(&soon(there.try_write()).await));
    }
    drop(theirs);
    pair.server.assert_all_free();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_do_not_share_any_more_when_a_writer_waits_elsewhere() {
    let pair = Pair::fair();
    let here = rwlock(&pair.here);
    let writer = Worker::spawn(lock_worker!(), &pair.server.url());
    let first = soon(here.read()).await.unwrap();
    let second = soon(here.read()).await.unwrap();
    line_up(&pair.server, &[&writer], "lock it write");
    let knows = async || would_block(&soon(here.try_read()).await);
    eventually_async("the readers' process knows", AT_ONCE, knows).await;
    let late = tokio::spawn(Arc::clone(&here).read_owned());
    // The late reader has a place in the queue.
    until_in_line(&pair.server, 2);
    drop(first);
    assert!(RwLockReadGuard::lease(&second).is_valid());
    assert!(writer.poll("locked").is_none(), "a writer beside a reader");
    drop(second);
    let wrote = writer.locked("it", AT_ONCE);
    assert!(!late.is_finished(), "a reader beside a writer");
    writer.unlock("it");
    assert!(
        OwnedRwLockReadGuard::lease(&soon(late).await.unwrap().unwrap()).fencing_token() > wrote
    );
}

/// What readers could spend if they passed the lease on while a writer waits: much more than a busy machine adds to the
/// wait of the writer.
const BUDGET: Duration = Duration::from_secs(2);

/// Readers of three processes that never cease. A process hears of the writer at some time, and then lets no further
/// reader in.
fn a_writer_comes_in_at_once_among_readers(options: &WorkerBuilder) {
    let server = RedisServer::start();
    let readers = (0..3).map(|_| options.clone().spawn(&server.url())).collect();
    let [writer] = workers(&server, TTL);
    let mixers = Mixers::start(readers, 4, "read");
    let mut waits = Vec::new();
    for _ in 0..20 {
        let asked = now();
        writer.send("lock it write");
        let locked = writer.wait_for("locked it", SOON);
        waits.push(locked.at.saturating_duration_since(asked));
        writer.unlock("it");
        mixers.goes_on(SOON);
    }
    mixers.rest().assert_readers_and_writers();
    // The readers hear of waiting writers once they have held the lock for a moment: so not of the first writer.
    assert!(waits[1..].iter().all(|wait| *wait < BUDGET), "{waits:?}");
}

#[test]
fn readers_that_never_cease_let_a_writer_in_and_spend_no_budget() {
    a_writer_comes_in_at_once_among_readers(&options(TTL).budget(BUDGET));
}

#[test]
fn in_fair_mode_readers_that_never_cease_let_a_writer_in_when_those_there_have_left() {
    // If this mode were ignored, the readers would have the budget.
    a_writer_comes_in_at_once_among_readers(&options(TTL).budget(BUDGET).fair(true));
}
