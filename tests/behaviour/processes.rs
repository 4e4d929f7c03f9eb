//! Processes that die, or stand still.

use std::time::Duration;

use lock_core::Clock;
use lock_tests::{RedisServer, Worker, lock_worker};

use crate::support::{LOCK, SOON, ttl_of};

/// The server counts in whole milliseconds.
const ROUNDING: Duration = Duration::from_millis(2);

fn worker(server: &RedisServer) -> Worker {
    Worker::spawn(lock_worker!(), &server.url())
}

fn worker_with(server: &RedisServer, lease: Duration) -> Worker {
    Worker::builder(lock_worker!()).ttl(lease).spawn(&server.url())
}

#[test]
fn the_lock_of_a_killed_process_is_free_after_its_lease_and_not_before() {
    let server = RedisServer::start();
    let victim = worker_with(&server, Duration::from_secs(2));
    let (heir, other) = (worker(&server), worker(&server));
    let token = victim.lock("it");
    heir.send("lock it");
    victim.kill();

    let seen = Clock::boot().now();
    let left = ttl_of(&server, LOCK).unwrap();
    assert_eq!(other.try_lock("it"), None, "the holder is dead, its lease is not");
    let locked = heir.wait_for("locked it", left + SOON);
    let waited = locked.at.saturating_duration_since(seen);
    assert!(waited + ROUNDING >= left, "after {waited:?}, with {left:?} to go");
    assert!(locked.token() > token);
    assert_eq!(other.try_lock("it"), None);
}

#[test]
fn a_process_that_stood_still_beyond_its_lease_has_lost_it() {
    // One lock is released by a call, the other by dropping the guard.
    let server = RedisServer::start();
    let sleeper = worker_with(&server, Duration::from_millis(700));
    let tokens = ["it", "other"].map(|key| (key, sleeper.lock(key)));
    sleeper.stop();

    let next = worker(&server);
    let newer = tokens.map(|(key, token)| {
        let newer = next.lock(key);
        assert!(newer > token, "{key}");
        (key, newer)
    });
    let owners = tokens.map(|(key, _)| server.cli(&["GET", &format!("lock:{{{key}}}")]).text());

    // The process finds these commands first when it goes on.
    sleeper.send("valid it");
    sleeper.send("valid other");
    sleeper.cont();
    for (key, token) in tokens {
        assert_eq!(sleeper.wait_for(&format!("valid {key}"), SOON).word(2), "false");
        assert_eq!(sleeper.wait_for(&format!("lost {key}"), SOON).token(), token);
    }

    sleeper.send("unlock it");
    let failed = sleeper.wait_for("failed it", SOON);
    assert!(failed.text.contains("lost"), "{failed:?}");
    sleeper.send("drop other");
    sleeper.wait_for("dropped other", SOON);
    // The process has sent everything once it was refused, as every release takes that way.
    for (key, _) in tokens {
        assert_eq!(sleeper.try_lock(key), None);
    }
    let now = tokens.map(|(key, _)| server.cli(&["GET", &format!("lock:{{{key}}}")]).text());
    assert_eq!(now, owners, "the late release touched the new holder's lock");
    for (key, newer) in newer {
        assert!(next.is_valid(key));
        next.unlock(key);
        assert!(sleeper.lock(key) > newer);
    }
}

#[test]
fn a_process_that_stood_still_for_less_than_its_lease_keeps_it() {
    let server = RedisServer::start();
    let (sleeper, other) = (worker_with(&server, Duration::from_secs(20)), worker(&server));
    let token = sleeper.lock("it");
    sleeper.stop();
    assert_eq!(other.try_lock("it"), None);
    other.send("lock it");
    sleeper.cont();
    assert!(sleeper.is_valid("it"));
    sleeper.unlock("it");
    assert!(other.locked("it", SOON) > token);
    assert!(sleeper.poll("lost").is_none());
}

#[test]
fn a_killed_waiter_delays_no_other_waiter() {
    let server = RedisServer::start();
    let [holder, victim, other] = [(); 3].map(|()| worker(&server));
    let token = holder.lock("it");
    victim.send("lock it");
    other.send("lock it");
    victim.kill();
    holder.unlock("it");
    assert!(other.locked("it", SOON) > token);
}
