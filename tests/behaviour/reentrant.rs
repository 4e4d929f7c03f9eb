//! A lock that several processes hold as one owner.

use std::time::Duration;

use lock_sync::{LockError, Owner, ReentrantGuard, owner_scope};
use lock_tests::{RedisServer, Worker, lock_worker};

use crate::support::{AT_ONCE, Leftovers, Pair, TTL, leases, line_up, soon, workers};

/// A kind of lock, as a new owner.
fn as_a_new_owner() -> String {
    format!("as {}", Owner::new().unwrap().pass().expose())
}

#[test]
fn a_process_enters_the_lock_of_its_owner_before_all_waiters() {
    let server = RedisServer::start();
    let [service, called, stranger] = workers(&server, TTL);
    let order = format!("it {}", as_a_new_owner());
    let token = service.lock(&order);
    line_up(&server, &[&stranger], &format!("lock it {}", as_a_new_owner()));
    assert_eq!(called.lock(&order), token, "it is one turn");
    assert_eq!(called.lock(&order.replacen("it", "it#2", 1)), token);
    // One for each process.
    assert_eq!(leases(&server).len(), 2);

    // The first process to enter may leave first.
    service.unlock("it");
    assert!(called.is_valid("it"));
    assert!(stranger.poll("locked").is_none(), "two owners");
    called.unlock("it");
    assert!(stranger.poll("locked").is_none(), "two owners");
    called.unlock("it#2");
    let next = stranger.locked("it", AT_ONCE);
    assert!(next > token);
    stranger.unlock("it");
    // It is another turn when the owner comes again.
    assert!(called.lock(&order) > next);
    called.unlock("it");
    server.assert_all_free();
}

#[test]
fn all_of_one_name_are_served_together() {
    let server = RedisServer::start();
    let [holder, one, between, other] = workers(&server, TTL);
    let token = holder.lock(&format!("it {}", as_a_new_owner()));
    let order = format!("lock it {}", as_a_new_owner());
    line_up(&server, &[&one], &order);
    line_up(&server, &[&between], &format!("lock it {}", as_a_new_owner()));
    line_up(&server, &[&other], &order);
    holder.unlock("it");
    let entered = one.locked("it", AT_ONCE);
    assert!(entered > token);
    assert_eq!(other.locked("it", AT_ONCE), entered);
    assert!(between.poll("locked").is_none(), "two owners");
    one.unlock("it");
    other.unlock("it");
    assert!(between.locked("it", AT_ONCE) > entered);
}

#[test]
fn a_mutex_and_a_reader_are_strangers_to_every_owner() {
    let server = RedisServer::start();
    let [one, other] = workers(&server, TTL);
    let order = format!("it {}", as_a_new_owner());
    let token = one.lock(&order);
    assert_eq!(other.try_lock("it"), None);
    assert_eq!(other.try_lock("it read"), None);
    one.unlock("it");
    assert!(other.lock("it") > token);
    assert_eq!(one.try_lock(&order), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_calls_another_while_it_holds_a_lock_does_not_wait_for_itself() {
    let pair = Pair::new();
    let called = Worker::spawn(lock_worker!(), &pair.server.url());
    let mutex = pair.here.reentrant_mutex("it", ()).unwrap();
    let theirs = pair.there.reentrant_mutex("it", ()).unwrap();
    owner_scope(async {
        let guard = soon(mutex.lock()).await.unwrap();
        let owner = lock_sync::current_owner().unwrap().pass().expose();
        assert_eq!(
            called.lock(&format!("it as {owner}")),
            ReentrantGuard::lease(&guard).fencing_token()
        );
        let again = soon(mutex.lock()).await.unwrap();
        drop(guard);
        // The task here may end before the process that it called.
        drop(again);
        assert!(!mutex.is_held());
        assert!(called.is_valid("it"));
        // And it may come back meanwhile.
        drop(soon(mutex.lock()).await.unwrap());
    })
    .await;
    let limit = Duration::from_secs(1);
    let waited = soon(owner_scope(theirs.lock_timeout(limit))).await;
    assert!(matches!(waited, Err(LockError::Timeout { source: None })), "{waited:?}");
    called.unlock("it");
    drop(soon(owner_scope(theirs.lock())).await.unwrap());
    pair.server.assert_all_free();
}
