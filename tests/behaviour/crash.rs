//! Waiters, holders and servers that die while claims wait, and how long the others then wait: the
//! bounds are those in `support/crashes.rs`.

use std::time::Duration;

use lock_tests::{Crew, RedisServer, Worker, eventually};

use crate::support::{
    AT_ONCE, CLAIM, LOCK, Leftovers, QUEUE, ROUNDING, SLACK, SOON, THIRD, TTL, kill_noticed,
    line_up, now, options, ttl_of, until_in_line, workers,
};

/// A lease that is short enough to wait for its end.
const LEASE: Duration = Duration::from_secs(3);

#[test]
fn the_first_in_line_is_passed_over_at_once_when_it_is_dead() {
    let server = RedisServer::start();
    let [holder, victim, next, last] = workers(&server, TTL);
    let token = holder.lock("it");
    line_up(&server, &[&victim, &next, &last], "lock it");
    kill_noticed(&server, &victim);
    holder.unlock("it");
    let newer = next.locked("it", AT_ONCE);
    assert!(newer > token);
    assert_eq!(server.cli(&["LLEN", QUEUE]).int(), 1, "the dead is out, the last still waits");
    next.unlock("it");
    assert!(last.locked("it", AT_ONCE) > newer);
}

/// Hands the lock to a process that stands still and does not hear of it. Returns the lease and the
/// holder's token.
fn handed_to_a_sleeper(server: &RedisServer, holder: &Worker, sleeper: &Worker) {
    sleeper.stop();
    let before = server.cli(&["GET", LOCK]).text();
    let waiting = server.cli(&["LLEN", QUEUE]).int();
    holder.unlock("it");
    assert_eq!(server.cli(&["LLEN", QUEUE]).int(), waiting - 1);
    assert_ne!(server.cli(&["GET", LOCK]).text(), before, "it was handed over");
    assert!(ttl_of(server, LOCK).is_some_and(|left| left <= CLAIM), "for a short time");
}

#[test]
fn a_waiter_that_is_killed_in_its_turn_costs_a_short_lease() {
    let server = RedisServer::start();
    let [holder, victim, next] = workers(&server, LEASE);
    let token = holder.lock("it");
    line_up(&server, &[&victim, &next], "lock it");
    handed_to_a_sleeper(&server, &holder, &victim);
    victim.kill();
    assert!(next.locked("it", CLAIM + THIRD + SLACK) > token);
}

#[test]
fn a_waiter_that_sleeps_through_its_turn_waits_again() {
    let server = RedisServer::start();
    // The sleeper has nothing else to do when it goes on, so the first thing it finds is the message of
    // its grant, which is over by then.
    let [holder, sleeper] = workers(&server, TTL);
    let [next] = workers(&server, LEASE);
    let token = holder.lock("it");
    line_up(&server, &[&sleeper, &next], "lock it");
    handed_to_a_sleeper(&server, &holder, &sleeper);
    let newer = next.locked("it", CLAIM + THIRD + SLACK);
    assert!(newer > token);

    sleeper.cont();
    until_in_line(&server, 1);
    assert!(sleeper.poll("locked it").is_none(), "two hold the lock");
    assert!(next.is_valid("it"));
    let released = now();
    next.unlock("it");
    let locked = sleeper.wait_for("locked it", AT_ONCE);
    assert!(locked.at > released && locked.token() > newer);
    assert!(sleeper.is_valid("it"));
    assert_eq!(next.try_lock("it"), None);
}

#[test]
fn the_end_of_a_killed_holder_lets_exactly_one_of_many_in_and_then_all_in_order() {
    let server = RedisServer::start();
    let [holder] = workers(&server, LEASE);
    let waiters: [Worker; 8] = workers(&server, TTL);
    let token = holder.lock("it");
    line_up(&server, &waiters.each_ref(), "lock it");
    holder.kill();
    let killed = now();
    let left = ttl_of(&server, LOCK).unwrap();

    // A third of their own lease is ten seconds: they know when this one ends.
    let first = waiters[0].wait_for("locked it", left + SLACK);
    let waited = first.at.saturating_duration_since(killed);
    assert!(waited + ROUNDING >= left, "after {waited:?}, with {left:?} to go");
    let mut last = first.token();
    assert!(last > token);
    for (number, waiter) in waiters.iter().enumerate() {
        if number > 0 {
            let token = waiter.locked("it", AT_ONCE);
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        let behind = waiters.len() - number - 1;
        assert_eq!(server.cli(&["LLEN", QUEUE]).int(), behind as i64);
        let others = &waiters[number + 1..];
        assert!(others.iter().all(|other| other.poll("locked it").is_none()), "two hold the lock");
        assert!(waiter.is_valid("it"));
        waiter.unlock("it");
    }
    server.assert_all_free();
}

#[test]
fn a_server_that_comes_back_empty_makes_all_waiters_ask_at_once() {
    const HOLD: Duration = Duration::from_millis(20);
    let server = RedisServer::start();
    let [holder, waiters @ ..]: [Worker; 5] = workers(&server, TTL);
    let token = holder.lock("it");
    line_up(&server, &waiters.each_ref(), &format!("hold it {}", HOLD.as_millis()));
    server.restart();

    // A new connection takes a moment; a third of the lease would take longer.
    let limit = AT_ONCE * 2;
    assert_eq!(holder.wait_for("lost it", limit).token(), token);
    let mut turns = waiters.each_ref().map(|waiter| waiter.wait_for("locked it", limit));
    turns.sort_by_key(|turn| turn.at);
    for pair in turns.windows(2) {
        assert!(pair[0].token() < pair[1].token());
        assert!(pair[0].at + HOLD <= pair[1].at, "two held the lock: {pair:?}");
    }
    assert!(turns[0].token() > token);
    for waiter in &waiters {
        waiter.wait_for("unlocked it", AT_ONCE);
    }
    server.assert_all_free();
}

#[test]
fn a_server_that_comes_back_with_its_data_has_the_line_still() {
    let server = RedisServer::builder().append_only().config("appendfsync", "always").start();
    let [holder, waiters @ ..]: [Worker; 5] = workers(&server, TTL);
    let mut last = holder.lock("it");
    line_up(&server, &waiters.each_ref(), "lock it");
    // One channel for each client, including the holder, and the common channel of the releases.
    let all_listen = || server.cli(&["PUBSUB", "CHANNELS"]).array().len() == 5 + 1;
    eventually("all listen", SOON, all_listen);
    server.restart();
    assert_eq!(server.cli(&["LLEN", QUEUE]).int(), 4);
    eventually("all listen again", SOON, all_listen);

    assert!(holder.is_valid("it"));
    assert!(holder.poll("lost").is_none());
    holder.unlock("it");
    for waiter in &waiters {
        let token = waiter.locked("it", AT_ONCE);
        assert!(token > last, "{token} after {last}");
        last = token;
        waiter.unlock("it");
    }
}

/// Does something to the server over and over while four processes contend. Each process gets a turn
/// again within the bound: the time of a grant that was lost with a connection, and of the request of
/// the next claim.
fn while_they_contend(server: &RedisServer, times: usize, act: impl Fn(&RedisServer)) {
    for fair in [true, false] {
        let crew = Crew::start(&options(LEASE).fair(fair), &server.url(), 4, 2);
        for _ in 0..times {
            act(server);
            crew.goes_on(CLAIM + THIRD + SLACK);
        }
        crew.rest();
        server.assert_all_free();
    }
}

#[test]
fn scripts_may_be_flushed_while_processes_contend() {
    while_they_contend(&RedisServer::start(), 50, |server| {
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]).text(), "OK");
    });
}

#[test]
fn connections_may_be_killed_while_processes_contend() {
    while_they_contend(&RedisServer::start(), 8, |server| {
        eventually("there is a connection to kill", SOON, || server.client_kill_all() > 0);
    });
}

#[test]
fn a_server_may_be_restarted_with_its_data_while_processes_contend() {
    let server = RedisServer::builder().append_only().config("appendfsync", "always").start();
    while_they_contend(&server, 2, RedisServer::restart);
}
