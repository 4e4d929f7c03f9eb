//! From writing to reading and back, with other processes around.

use lock_sync::RwLockReadGuard;
use lock_tests::{RedisServer, Worker, lock_worker};

use crate::support::{
    AT_ONCE, Intruders, Leftovers, Pair, SOON, TTL, leases, line_up, rwlock, soon, until_in_line,
    workers,
};

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

#[test]
fn an_upgrade_waits_for_other_readers_and_goes_before_all_waiters() {
    let server = RedisServer::start();
    let [climber, reader, writer, late] = workers(&server, TTL);
    let read = climber.lock("it upgradable");
    reader.lock("it read");
    line_up(&server, &[&writer], "lock it write");
    climber.send("try-upgrade it");
    climber.wait_for("busy it", SOON);
    climber.send("upgrade it");
    until_in_line(&server, 2);
    line_up(&server, &[&late], "lock it read");
    assert!(climber.poll("upgraded").is_none(), "a writer beside a reader");
    reader.unlock("it");
    let wrote = climber.wait_for("upgraded it", AT_ONCE).token();
    assert!(wrote > read);
    assert_eq!(reader.try_lock("it read"), None);
    for waiter in [&writer, &late] {
        assert!(waiter.poll("locked").is_none(), "a holder beside a writer");
    }
    climber.unlock("it");
    let next = writer.locked("it", AT_ONCE);
    assert!(next > wrote);
    assert!(late.poll("locked").is_none(), "a reader beside a writer");
    writer.unlock("it");
    assert!(late.locked("it", AT_ONCE) > next);
}

#[test]
fn an_upgrade_that_is_dropped_lets_go_of_the_lock() {
    let server = RedisServer::start();
    let [climber, reader, late] = workers(&server, TTL);
    climber.lock("it upgradable");
    reader.lock("it read");
    climber.send("upgrade it");
    until_in_line(&server, 1);
    line_up(&server, &[&late], "lock it upgradable");
    climber.tell("drop it", "dropped");
    late.locked("it", AT_ONCE);
    assert!(reader.is_valid("it"));
    reader.unlock("it");
    late.tell("upgrade it", "upgraded");
    late.unlock("it");
    server.assert_all_free();
}
