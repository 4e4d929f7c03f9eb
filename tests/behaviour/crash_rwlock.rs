//! Readers and writers that die or stand still: what that costs the others.

use std::time::Duration;

use lock_tests::{RedisServer, Worker, eventually};

use crate::support::{
    AT_ONCE, Fate, LOCK, Lease, Leftovers, ROUNDING, SLACK, SOON, THIRD, TTL, kill_noticed, leases,
    line_up, now, options, ttl_of, until_in_line, workers,
};

/// A lease that is short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(3);

/// A process whose lease stays as it is, for half a minute.
fn steady(server: &RedisServer) -> Worker {
    options(TTL).renewal(false).spawn(&server.url())
}

/// Waits until a lease is over, whether or not the server has noticed.
fn outlive(server: &RedisServer, lease: &Lease) {
    eventually("the lease is over", SOON, || lease.left(server).is_zero());
}

/// The lease of a process that will die, which ends first, and that of a steady process.
fn two_leases(server: &RedisServer) -> [Lease; 2] {
    leases(server).try_into().unwrap()
}

/// The report of a process that has lost its hold.
fn assert_lost(sleeper: &Worker) {
    sleeper.wait_for("lost it", SOON);
    assert!(!sleeper.is_valid("it"));
    sleeper.send("unlock it");
    assert!(sleeper.wait_for("failed it", SOON).text.contains("lost"));
}

#[test]
fn a_reader_costs_a_writer_its_lease() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim] = workers(&server, LEASE);
        let [other, writer] = workers(&server, TTL);
        let read = victim.lock("it read");
        line_up(&server, &[&writer], "lock it write");
        fate.befall(&server, &victim);
        let since = now();
        let left = leases(&server)[0].left(&server);

        // The writer's own lease is half a minute: it knows when this one ends.
        let locked = writer.wait_for("locked it", left + SLACK);
        let waited = locked.at.saturating_duration_since(since);
        assert!(waited + ROUNDING >= left, "{fate:?}: after {waited:?}, with {left:?} to go");
        assert!(locked.token() > read);
        if fate == Fate::Stopped {
            victim.cont();
            assert_lost(&victim);
            assert_eq!(victim.try_lock("it read"), None, "a reader beside the writer");
        }
        assert!(writer.is_valid("it"));
        assert_eq!(other.try_lock("it read"), None);
        writer.unlock("it");
        server.assert_all_free();
    });
}

#[test]
fn a_writer_waits_for_the_lease_of_a_dead_reader_and_not_of_one_that_left() {
    let server = RedisServer::start();
    let [victim] = workers(&server, LEASE);
    let [other, writer] = workers(&server, TTL);
    victim.lock("it read");
    other.lock("it read");
    // The waiter knows when the longer of the two leases ends.
    line_up(&server, &[&writer], "lock it write");
    kill_noticed(&server, &victim);
    let since = now();
    let [lease, _] = two_leases(&server);
    let left = lease.left(&server);
    other.unlock("it");
    let locked = writer.wait_for("locked it", left + SLACK);
    let waited = locked.at.saturating_duration_since(since);
    assert!(waited + ROUNDING >= left, "after {waited:?}, with {left:?} to go");
}

#[test]
fn a_reader_costs_other_readers_nothing() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim] = workers(&server, LEASE);
        let other = steady(&server);
        let [writer] = workers(&server, TTL);
        victim.lock("it read");
        other.lock("it read");
        line_up(&server, &[&writer], "lock it write");
        fate.befall(&server, &victim);
        let [short, long] = two_leases(&server);
        outlive(&server, &short);
        // Neither longer nor shorter than before, and still blocking the writer.
        assert_eq!(leases(&server).last(), Some(&long), "{fate:?}");
        assert!(other.is_valid("it"));
        assert!(writer.poll("locked it").is_none(), "{fate:?}: a writer beside a reader");
        other.unlock("it");
        writer.locked("it", AT_ONCE);
    });
}

#[test]
fn a_writer_costs_readers_its_lease_and_then_they_enter_together() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim] = workers(&server, LEASE);
        let readers: [Worker; 3] = workers(&server, TTL);
        let [writer] = workers(&server, TTL);
        let wrote = victim.lock("it write");
        line_up(&server, &readers.each_ref(), "lock it read");
        line_up(&server, &[&writer], "lock it write");
        fate.befall(&server, &victim);
        let since = now();
        let left = ttl_of(&server, LOCK).unwrap();
        let entered = readers.each_ref().map(|reader| reader.wait_for("locked it", left + SLACK));
        for entered in &entered {
            let waited = entered.at.saturating_duration_since(since);
            assert!(waited + ROUNDING >= left, "{fate:?}: after {waited:?}, with {left:?} to go");
            assert!(entered.token() > wrote);
        }
        assert_eq!(leases(&server).len(), readers.len());
        if fate == Fate::Stopped {
            victim.cont();
            assert_lost(&victim);
        }
        for reader in &readers {
            assert!(reader.is_valid("it"));
            assert!(writer.poll("locked it").is_none(), "{fate:?}: a writer beside a reader");
            reader.unlock("it");
        }
        writer.locked("it", AT_ONCE);
    });
}

#[test]
fn a_dead_waiting_writer_delays_readers_only_for_its_place() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [reader] = workers(&server, TTL);
        // The waiters ask again every third of a place.
        let [victim, late] = workers(&server, LEASE);
        reader.lock("it read");
        line_up(&server, &[&victim], "lock it write");
        line_up(&server, &[&late], "lock it read");
        assert!(late.poll("locked it").is_none(), "it came after a writer");
        fate.befall(&server, &victim);
        late.locked("it", fate.place());
        assert!(reader.is_valid("it"), "they read together");

        if fate == Fate::Stopped {
            // The victim waits again.
            victim.cont();
            until_in_line(&server, 1);
            assert!(victim.poll("locked it").is_none(), "a writer beside readers");
            reader.unlock("it");
            late.unlock("it");
            victim.locked("it", AT_ONCE);
        }
    });
}

#[test]
fn a_dead_writer_at_the_head_is_passed_over_when_the_reader_leaves() {
    let server = RedisServer::start();
    let [reader, victim, next, last] = workers(&server, TTL);
    reader.lock("it read");
    line_up(&server, &[&victim, &next], "lock it write");
    line_up(&server, &[&last], "lock it read");
    kill_noticed(&server, &victim);
    reader.unlock("it");
    let token = next.locked("it", AT_ONCE);
    next.unlock("it");
    assert!(last.locked("it", AT_ONCE) > token);
}

#[test]
fn an_upgrade_ends_with_its_process_and_keeps_no_reader_out() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim, late, heir] = workers(&server, LEASE);
        let other = steady(&server);
        victim.lock("it upgradable");
        other.lock("it read");
        victim.send("upgrade it");
        until_in_line(&server, 1);
        line_up(&server, &[&late], "lock it read");
        assert_eq!(heir.try_lock("it upgradable"), None);
        fate.befall(&server, &victim);
        let [lease, long] = two_leases(&server);

        // A reader that came after the upgrade, and the next upgradable reader.
        late.locked("it", fate.place());
        heir.send("lock it upgradable");
        let wait = lease.left(&server) + THIRD + SLACK;
        heir.locked("it", wait);
        assert!(lease.left(&server).is_zero(), "{fate:?}: two that may upgrade");
        assert_eq!(leases(&server).last(), Some(&long), "{fate:?}");
        assert!(other.is_valid("it"));

        if fate == Fate::Stopped {
            victim.cont();
            victim.wait_for("lost it", SOON);
            assert!(victim.poll("upgraded it").is_none(), "a writer beside readers");
        }
        heir.send("upgrade it");
        other.unlock("it");
        assert!(heir.poll("upgraded it").is_none(), "a writer beside a reader");
        late.unlock("it");
        heir.wait_for("upgraded it", AT_ONCE);
    });
}

#[test]
fn an_upgrade_that_is_granted_to_a_process_that_stands_still_ends_with_its_lease() {
    let server = RedisServer::start();
    let [victim, writer] = workers(&server, LEASE);
    let [other] = workers(&server, TTL);
    victim.lock("it upgradable");
    other.lock("it read");
    victim.send("upgrade it");
    until_in_line(&server, 1);
    line_up(&server, &[&writer], "lock it write");
    victim.stop();
    let [lease, _] = two_leases(&server);
    // There is no other reader: the lock is the victim's alone, or free.
    other.unlock("it");
    let token = writer.locked("it", lease.left(&server) + THIRD + SLACK);
    assert!(lease.left(&server).is_zero(), "two hold the lock");

    victim.cont();
    victim.wait_for("lost it", SOON);
    assert!(victim.poll("upgraded it").is_none(), "two write");
    assert!(writer.is_valid("it"));
    victim.tell("drop it", "dropped");
    writer.unlock("it");
    assert!(victim.lock("it write") > token);
}
