//! Holders of permits that die or stand still: their permits come back, and no others.

use std::time::Duration;

use lock_tests::{RedisServer, eventually};

use crate::support::{
    AT_ONCE, Fate, Leftovers, ROUNDING, SLACK, SOON, TTL, kill_noticed, leases, line_up, now,
    options, until_in_line, workers,
};

/// A lease that is short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(3);

#[test]
fn the_permits_of_a_holder_come_back_with_its_lease_and_no_others() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim] = workers(&server, LEASE);
        let [heir] = workers(&server, TTL);
        let other = options(TTL).renewal(false).spawn(&server.url());
        let token = victim.lock("it permits 3 5");
        other.lock("it permits 1 5");
        // All permits except that of the other holder.
        line_up(&server, &[&heir], "lock it permits 4 5");
        fate.befall(&server, &victim);
        let since = now();
        let [short, long] = leases(&server).try_into().unwrap();
        let left = short.left(&server);

        let locked = heir.wait_for("locked it", left + SLACK);
        let waited = locked.at.saturating_duration_since(since);
        assert!(waited + ROUNDING >= left, "{fate:?}: after {waited:?}, with {left:?} to go");
        assert!(locked.token() > token);
        // The other holder keeps its permit, and no permit is free.
        assert!(leases(&server).contains(&long), "{fate:?}");
        assert!(other.is_valid("it"));
        assert_eq!(heir.try_lock("it#2 permits 1 5"), None);

        if fate == Fate::Stopped {
            victim.cont();
            victim.wait_for("lost it", SOON);
            assert!(!victim.is_valid("it"));
            // The victim's late release takes no permit from the present holders.
            victim.send("unlock it");
            assert!(victim.wait_for("failed it", SOON).text.contains("lost"));
            assert_eq!(victim.try_lock("it permits 1 5"), None, "a sixth permit");
        }
        heir.unlock("it");
        assert!(heir.try_lock("it permits 4 5").is_some());
        assert_eq!(heir.try_lock("it#2 permits 1 5"), None);
        heir.unlock("it");
        other.unlock("it");
        server.assert_all_free();
    });
}

#[test]
fn permits_that_were_given_back_before_are_there_at_once() {
    let server = RedisServer::start();
    let [victim] = workers(&server, LEASE);
    let [heir] = workers(&server, TTL);
    victim.lock("it permits 3 3");
    victim.tell("give it 2", "gave");
    heir.lock("it permits 2 3");
    victim.kill();
    let [short, _] = leases(&server).try_into().unwrap();
    assert!(!short.left(&server).is_zero());
    heir.send("lock it#2 permits 1 3");
    heir.locked("it#2", short.left(&server) + SLACK);
    assert!(short.left(&server).is_zero(), "a fourth permit");
}

#[test]
fn permits_that_were_forgotten_do_not_come_back() {
    let server = RedisServer::start();
    let [victim, heir] = workers(&server, LEASE);
    victim.lock("it permits 1 3");
    victim.lock("it#2 permits 1 3");
    victim.tell("forget it", "forgot");
    eventually("it is forgotten", SOON, || leases(&server).len() == 1);
    victim.kill();
    // That of the dead process, and the one that was free.
    heir.lock("it permits 2 3");
    assert_eq!(heir.try_lock("it#2 permits 1 3"), None, "it came back");
}

#[test]
fn a_dead_waiter_for_many_permits_delays_others_only_for_its_place() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [holder] = workers(&server, TTL);
        // The waiters ask again every third of a place.
        let [victim, next] = workers(&server, LEASE);
        holder.lock("it permits 1 2");
        line_up(&server, &[&victim], "lock it permits 2 2");
        line_up(&server, &[&next], "lock it permits 1 2");
        assert!(next.poll("locked it").is_none(), "it came after a waiter for two");
        fate.befall(&server, &victim);
        next.locked("it", fate.place());
        assert!(holder.is_valid("it"));

        if fate == Fate::Stopped {
            // The victim waits again.
            victim.cont();
            until_in_line(&server, 1);
            assert!(victim.poll("locked it").is_none(), "a third permit, and a fourth");
            holder.unlock("it");
            assert!(victim.poll("locked it").is_none(), "a third permit");
            next.unlock("it");
            victim.locked("it", AT_ONCE);
        }
    });
}

#[test]
fn a_dead_waiter_at_the_head_is_passed_over_when_permits_come_back() {
    let server = RedisServer::start();
    let [holder, victim, next, last] = workers(&server, TTL);
    holder.lock("it permits 2 2");
    line_up(&server, &[&victim], "lock it permits 2 2");
    line_up(&server, &[&next, &last], "lock it permits 1 2");
    kill_noticed(&server, &victim);
    holder.unlock("it");
    next.locked("it", AT_ONCE);
    last.locked("it", AT_ONCE);
}
