//! Four processes that hold one lock in many modes, and a check of their notes: no two hold it at once in
//! modes that exclude each other.

use std::time::Duration;

use lock_tests::{RedisServer, Worker};

use crate::support::{History, Leftovers, Mixers, SLACK, SOON, THIRD, TTL, Way, options, workers};

/// A lease that is short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(1);

const EVERY_STEP: &str = "read write read climb read descend read look";

/// Four processes; the end of one of them does not end the wait of the others.
fn four(server: &RedisServer, fair: bool) -> Vec<Worker> {
    (0..4).map(|_| options(LEASE).fair(fair).spawn(&server.url())).collect()
}

#[test]
fn readers_and_writers_never_meet() {
    for fair in [true, false] {
        let server = RedisServer::start();
        let mixers = Mixers::start(four(&server, fair), 3, EVERY_STEP);
        mixers.until(2_500);
        let history = mixers.rest();
        let beside = history.assert_readers_and_writers();
        // The modes that may be held at once were held at once.
        for pair in [(Way::Read, Way::Read), (Way::Read, Way::Upgradable)] {
            assert!(beside.contains(&pair), "fair: {fair}: {pair:?} in {beside:?}");
        }
        assert_eq!(history.processes().len(), 4);
        server.assert_all_free();
    }
}

#[test]
fn permits_are_never_more_than_there_are() {
    for fair in [true, false] {
        let server = RedisServer::start();
        let mixers = Mixers::start(four(&server, fair), 3, "permits 3 5");
        mixers.until(2_500);
        mixers.until_all_are_held(5);
        mixers.rest().assert_permits(5);
        // Afterwards all permits are free, and not one more.
        let [one, other] = workers(&server, TTL);
        one.lock("it permits 5 5");
        assert_eq!(other.try_lock("it permits 1 5"), None);
        one.unlock("it");
        server.assert_all_free();
    }
}

/// Kills one of the processes while it runs, and lets another stand still for longer than its lease.
fn with_a_dead_and_a_sleeper(server: &RedisServer, how: &str) -> History {
    // The holds of a dead process, and then the place in the queue that it has.
    let limit = LEASE + SOON + THIRD + SLACK;
    let mixers = Mixers::start(four(server, true), 3, how);
    for _ in 0..2 {
        let sleeper = mixers.worker(1);
        sleeper.stop();
        std::thread::sleep(LEASE + LEASE / 2);
        mixers.goes_on(limit);
        sleeper.cont();
        mixers.goes_on(limit);
    }
    mixers.worker(0).kill();
    mixers.goes_on(limit);
    mixers.until(mixers.count() + 200);
    mixers.rest()
}

#[test]
fn readers_and_writers_never_meet_when_processes_die_and_stand_still() {
    let server = RedisServer::start();
    let history = with_a_dead_and_a_sleeper(&server, EVERY_STEP);
    history.assert_readers_and_writers();
    server.assert_all_free();
}

#[test]
fn permits_are_never_more_than_there_are_when_processes_die_and_stand_still() {
    let server = RedisServer::start();
    let history = with_a_dead_and_a_sleeper(&server, "permits 3 5");
    history.assert_permits(5);
    let [one, other] = workers(&server, TTL);
    one.lock("it permits 5 5");
    assert_eq!(other.try_lock("it permits 1 5"), None);
    one.unlock("it");
    server.assert_all_free();
}
