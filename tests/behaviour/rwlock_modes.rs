//! From writing to reading and back, with other processes around.

use lock_sync::RwLockReadGuard;
use lock_tests::{RedisServer, Worker, lock_worker};

use crate::support::{AT_ONCE, Intruders, Pair, TTL, leases, line_up, rwlock, soon, workers};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_leaves_no_gap() {
    let pair = Pair::fair();
    let (here, third) = (rwlock(&pair.here), rwlock(&pair.there));
    let writer = Worker::spawn(lock_worker!(), &pair.server.url());
    let intruders = Intruders::begin(&pair.server, &third);
    for _ in 0..100 {
        let mut guard = soon(here.write()).await.unwrap();
        intruders.may_not();
        line_up(&pair.server, &[&writer], "lock it write");
        *guard += 1;
        let value = *guard;
        let guard = guard.downgrade();
        assert_eq!(*guard, value);
        intruders.has_tried().await;
        assert!(writer.poll("locked").is_none(), "a writer beside a reader");
        assert!(RwLockReadGuard::lease(&guard).is_valid());
        let read = RwLockReadGuard::lease(&guard).fencing_token();
        intruders.may();
        RwLockReadGuard::release(guard).await.unwrap();
        assert!(writer.locked("it", AT_ONCE) > read);
        writer.unlock("it");
    }
    intruders.end().await;
}

#[test]
fn a_downgrade_lets_readers_in_and_no_writer() {
    let server = RedisServer::start();
    let [writer, one, two, other] = workers(&server, TTL);
    let token = writer.lock("it write");
    line_up(&server, &[&one, &two], "lock it read");
    line_up(&server, &[&other], "lock it write");
    writer.tell("downgrade it", "downgraded");
    for reader in [&one, &two] {
        assert!(reader.locked("it", AT_ONCE) > token);
    }
    assert!(writer.is_valid("it"));
    assert_eq!(leases(&server).len(), 3);
    for reader in [&writer, &one, &two] {
        assert!(other.poll("locked").is_none(), "a writer beside a reader");
        reader.unlock("it");
    }
    other.locked("it", AT_ONCE);
}

#[test]
fn a_downgrade_may_keep_the_prospect_of_writing() {
    let server = RedisServer::start();
    let [writer, reader, other] = workers(&server, TTL);
    let first = writer.lock("it write");
    line_up(&server, &[&reader], "lock it read");
    line_up(&server, &[&other], "lock it upgradable");
    writer.tell("downgrade it upgradable", "downgraded");
    reader.locked("it", AT_ONCE);
    reader.unlock("it");
    assert!(other.poll("locked").is_none(), "two that may write");
    let again = writer.tell("upgrade it", "upgraded").token();
    assert!(again >= first);
    assert!(other.poll("locked").is_none(), "a reader beside a writer");
    writer.tell("downgrade it upgradable", "downgraded");
    writer.tell("downgrade it", "downgraded");
    // Readers may hold the lock together.
    assert!(other.locked("it", AT_ONCE) > again);
    assert!(writer.is_valid("it"));
}
