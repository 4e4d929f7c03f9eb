//! Processes that entered a lock as one owner, of which one dies or stands still.

use std::time::Duration;

use lock_sync::Owner;
use lock_tests::{RedisServer, eventually};

use crate::support::{
    AT_ONCE, Fate, Leftovers, ROUNDING, SLACK, SOON, TTL, kill_noticed, leases, line_up, now,
    options, workers,
};

/// A lease that is short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(3);

/// A kind of lock, as a new owner.
fn as_a_new_owner() -> String {
    format!("as {}", Owner::new().unwrap().pass().expose())
}

#[test]
fn the_one_that_is_left_keeps_the_lock() {
    Fate::each(|fate| {
        // Either the victim entered first, or it entered the lock that the other process held.
        for was_first in [false, true] {
            let server = RedisServer::start();
            let [victim] = workers(&server, LEASE);
            let [stranger] = workers(&server, TTL);
            let other = options(TTL).renewal(false).spawn(&server.url());
            let (order, strangers) =
                (format!("it {}", as_a_new_owner()), format!("lock it {}", as_a_new_owner()));
            let (first, second) = if was_first { (&victim, &other) } else { (&other, &victim) };
            let token = first.lock(&order);
            assert_eq!(second.lock(&order), token);
            line_up(&server, &[&stranger], &strangers);
            fate.befall(&server, &victim);
            let [short, long] = leases(&server).try_into().unwrap();

            eventually("the lease is over", SOON, || short.left(&server).is_zero());
            assert!(other.is_valid("it"));
            assert!(leases(&server).contains(&long), "{fate:?}");
            // The owner enters again, in any process, and another owner does not.
            assert_eq!(other.lock(&order.replacen("it", "it#2", 1)), token);
            assert!(stranger.poll("locked it").is_none(), "{fate:?}: two owners");
            other.unlock("it");
            assert!(stranger.poll("locked it").is_none(), "{fate:?}: two owners");
            other.unlock("it#2");
            assert!(stranger.locked("it", AT_ONCE) > token);

            if fate == Fate::Stopped {
                victim.cont();
                assert_eq!(victim.wait_for("lost it", SOON).token(), token);
                victim.send("unlock it");
                assert!(victim.wait_for("failed it", SOON).text.contains("lost"));
                assert_eq!(victim.try_lock(&order), None, "two owners");
            }
            assert!(stranger.is_valid("it"));
            stranger.unlock("it");
            server.assert_all_free();
        }
    });
}

#[test]
fn the_last_to_die_holds_the_others_up_for_its_lease() {
    Fate::each(|fate| {
        let server = RedisServer::start();
        let [victim] = workers(&server, LEASE);
        let [first, stranger] = workers(&server, TTL);
        let order = format!("it {}", as_a_new_owner());
        let token = first.lock(&order);
        victim.lock(&order);
        line_up(&server, &[&stranger], &format!("lock it {}", as_a_new_owner()));
        fate.befall(&server, &victim);
        let since = now();
        let left = leases(&server)[0].left(&server);
        first.unlock("it");
        let locked = stranger.wait_for("locked it", left + SLACK);
        let waited = locked.at.saturating_duration_since(since);
        assert!(waited + ROUNDING >= left, "{fate:?}: after {waited:?}, with {left:?} to go");
        assert!(locked.token() > token);
    });
}

#[test]
fn a_dead_owner_in_line_is_passed_over_at_once() {
    let server = RedisServer::start();
    let [holder, victim, next] = workers(&server, TTL);
    let token = holder.lock(&format!("it {}", as_a_new_owner()));
    line_up(&server, &[&victim], &format!("lock it {}", as_a_new_owner()));
    line_up(&server, &[&next], &format!("lock it {}", as_a_new_owner()));
    kill_noticed(&server, &victim);
    holder.unlock("it");
    assert!(next.locked("it", AT_ONCE) > token);
}
