//! Workers: their reports, and their end.

use std::time::Duration;

use lock_tests::{RedisServer, Worker, eventually, lock_worker, process, processes};

const LIMIT: Duration = Duration::from_secs(20);

fn worker(server: &RedisServer) -> Worker {
    Worker::spawn(lock_worker!(), &server.url())
}

fn with_ttl(server: &RedisServer, ttl: Duration) -> Worker {
    Worker::builder(lock_worker!()).ttl(ttl).spawn(&server.url())
}

#[test]
fn two_workers_contend_for_one_lock() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    let first = one.lock("stock");
    assert!(one.is_valid("stock"));
    assert_eq!(other.try_lock("stock"), None);
    assert!(other.try_lock("elsewhere").is_some());
    other.send("lock stock");
    one.unlock("stock");
    assert!(other.locked("stock", LIMIT) > first);
}

#[test]
fn a_held_lock_outlasts_a_wait_limit() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    one.lock("stock");
    other.send("timeout stock 50");
    other.wait_for("failed stock", LIMIT);
    one.unlock("stock");
    other.lock("stock");
}

#[test]
fn a_wait_can_be_given_up() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    one.lock("stock");
    other.send("lock stock");
    other.send("drop stock");
    other.wait_for("dropped stock", LIMIT);
    one.send("drop stock");
    one.wait_for("dropped stock", LIMIT);
    other.lock("stock");
}

#[test]
fn a_killed_worker_leaves_its_lock_to_the_ttl() {
    // The heir asks while the lease lasts.
    const TTL: Duration = Duration::from_secs(4);
    let server = RedisServer::start();
    let (victim, heir) = (with_ttl(&server, TTL), with_ttl(&server, TTL));
    let token = victim.lock("stock");
    victim.kill();
    assert!(!victim.is_alive());
    assert_eq!(heir.try_lock("stock"), None);
    assert!(heir.lock("stock") > token);
}

#[test]
fn a_stopped_worker_loses_its_lease_and_says_so() {
    let server = RedisServer::start();
    // It stands still long before its lease ends.
    let sleeper = with_ttl(&server, Duration::from_secs(1));
    let token = sleeper.lock("stock");
    sleeper.stop();
    let next = worker(&server).lock("stock");
    assert!(next > token);
    assert!(sleeper.poll("lost").is_none());
    sleeper.cont();
    assert_eq!(sleeper.wait_for("lost stock", LIMIT).token(), token);
    assert!(!sleeper.is_valid("stock"));
}

#[test]
fn a_blocked_executor_answers_later() {
    let server = RedisServer::start();
    let worker = worker(&server);
    let before = lock_core::Clock::boot().now();
    worker.send("block 30");
    worker.send("try stock");
    let unblocked = worker.wait_for("blocked 30", LIMIT).at;
    assert!(unblocked.saturating_duration_since(before) >= Duration::from_millis(30));
    assert!(worker.wait_for("locked stock", LIMIT).at > unblocked);
}

#[test]
fn a_hold_ends_by_itself() {
    let server = RedisServer::start();
    let worker = worker(&server);
    worker.send("hold stock 20");
    let locked = worker.wait_for("locked stock", LIMIT).at;
    let unlocked = worker.wait_for("unlocked stock", LIMIT).at;
    assert!(unlocked.saturating_duration_since(locked) >= Duration::from_millis(20));
}

#[test]
fn an_order_that_makes_no_sense_is_answered() {
    let server = RedisServer::start();
    let worker = worker(&server);
    worker.send("unlock stock");
    worker.wait_for("failed stock not taken", LIMIT);
    worker.send("dance tango");
    worker.wait_for("failed tango", LIMIT);
    worker.lock("stock");
    worker.send("lock stock");
    worker.wait_for("failed stock already taken", LIMIT);
}

#[test]
fn waiting_for_a_dead_worker_fails_at_once() {
    let server = RedisServer::start();
    let worker = worker(&server);
    worker.kill();
    let wait = std::panic::AssertUnwindSafe(|| worker.wait_for("locked stock", LIMIT * 100));
    let panic = std::panic::catch_unwind(wait).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("it has ended"));
}

#[test]
fn a_dropped_worker_is_gone_even_if_it_stood_still() {
    let server = RedisServer::start();
    let worker = worker(&server);
    worker.stop();
    let pid = worker.pid();
    drop(worker);
    eventually("the worker is gone", LIMIT, || !process::is_alive(pid));
}

#[test]
fn a_worker_has_several_guards_of_one_lock() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    one.lock("stock read");
    one.lock("stock#2 read");
    one.lock("stock#3 upgradable");
    assert_eq!(one.try_lock("stock#4 upgradable"), None);
    other.lock("stock read");
    one.unlock("stock#2");
    one.send("try-upgrade stock#3");
    one.wait_for("busy stock#3", LIMIT);
    one.unlock("stock");
    one.send("upgrade stock#3");
    one.send("valid stock#3");
    one.wait_for("valid stock#3 false", LIMIT);
    other.unlock("stock");
    let wrote = one.wait_for("upgraded stock#3", LIMIT).token();
    assert_eq!(other.try_lock("stock read"), None);
    one.tell("downgrade stock#3 upgradable", "downgraded");
    assert!(other.lock("stock read") > wrote);
    one.tell("downgrade stock#3", "downgraded");
    one.send("downgrade stock#3");
    one.wait_for("failed stock#3 cannot be downgraded", LIMIT);
    one.send("upgrade stock#3");
    one.wait_for("failed stock#3 not held", LIMIT);
    other.lock("stock#2 upgradable");
}

#[test]
fn a_worker_takes_permits_and_gives_some_back() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    one.lock("pool permits 3 4");
    assert_eq!(other.try_lock("pool permits 2 4"), None);
    one.tell("give pool 2", "gave");
    other.lock("pool permits 3 4");
    one.send("give pool 2");
    one.wait_for("failed pool has not as many permits", LIMIT);
    one.tell("forget pool", "forgot");
    other.unlock("pool");
    eventually("a permit is gone", LIMIT, || one.try_lock("pool permits 4 4").is_none());
    other.lock("pool permits 3 4");
}

#[test]
fn a_worker_enters_as_another_owner() {
    let server = RedisServer::start();
    let (one, other) = (worker(&server), worker(&server));
    let owner = lock_sync::Owner::new().unwrap().pass().expose();
    let stranger = lock_sync::Owner::new().unwrap().pass().expose();
    let token = one.lock(&format!("stock as {owner}"));
    assert_eq!(other.try_lock(&format!("stock#2 as {stranger}")), None);
    assert_eq!(other.lock(&format!("stock as {owner}")), token);
    one.unlock("stock");
    other.unlock("stock");
    assert!(other.lock(&format!("stock as {stranger}")) > token);
}

#[test]
#[should_panic(expected = "two had the lock at once")]
fn processes_that_do_not_exclude_each_other_are_found_out() {
    // Each on a server of its own.
    let servers = [(); 2].map(|()| RedisServer::start());
    processes::lose_no_update(servers.iter().map(worker).collect());
}
