//! Clocks: the time that a server reads, and the times that it computes from it.

use std::time::{Duration, Instant};

use lock_tests::{RedisServer, ServerClock, eventually};

const LIMIT: Duration = Duration::from_secs(20);
const HOUR: i64 = 3_600_000;

fn started() -> (ServerClock, RedisServer) {
    let clock = ServerClock::new();
    assert_eq!(clock.is_real(), cfg!(target_os = "linux"), "is there no cc?");
    let server = clock.options(RedisServer::builder()).start();
    (clock, server)
}

/// Sets the clock of a running server, and waits until the server gives the new time.
fn jump(clock: &ServerClock, server: &RedisServer, millis: i64) {
    clock.jump(server, millis);
    eventually("the server has looked at its clock", LIMIT, || clock.is_told_by(server));
}

/// The time that a server gives, between two readings of the true time since `begin`. All in microseconds.
fn between(server: &RedisServer, begin: Instant) -> [i64; 3] {
    let truth = || begin.elapsed().as_micros() as i64;
    let before = truth();
    let told = time(server);
    [before, told, truth()]
}

/// The time in microseconds, as the server gives it.
fn time(server: &RedisServer) -> i64 {
    let reply = server.cli(&["TIME"]);
    let part = |index: usize| reply.array()[index].text().parse::<i64>().unwrap();
    part(0) * 1_000_000 + part(1)
}

fn left(server: &RedisServer, key: &str) -> i64 {
    server.cli(&["PTTL", key]).int()
}

#[test]
fn a_jump_moves_the_ends_of_keys() {
    let (clock, server) = started();
    server.cli(&["SET", "stays", "v"]);
    server.cli(&["SET", "short", "v", "PX", "60000"]);
    jump(&clock, &server, -HOUR);
    let longer = left(&server, "short");
    assert!((HOUR..=HOUR + 60_000).contains(&longer), "{longer}");
    jump(&clock, &server, HOUR);
    let again = left(&server, "short");
    assert!((1..=60_000).contains(&again), "{again}");
    jump(&clock, &server, HOUR);
    assert_eq!(server.keys("*"), ["stays"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_jump_moves_the_time_of_this_server_alone_and_outlasts_it() {
    let (clock, server) = started();
    let (_, other) = started();
    jump(&clock, &server, HOUR);
    // The test may stand still between the readings, so the time of the other server has two bounds.
    let is_ahead = |server: &RedisServer, millis: i64| {
        let (before, told, after) = (time(&other), time(server) - millis * 1_000, time(&other));
        assert!((before - 500_000..=after + 500_000).contains(&told), "{before} {told} {after}");
    };
    is_ahead(&server, HOUR);
    assert_eq!(clock.ahead(), HOUR * 1_000);
    server.restart();
    is_ahead(&server, HOUR);
    jump(&clock, &server, -2 * HOUR);
    is_ahead(&server, -HOUR);
}

#[cfg(target_os = "linux")]
#[test]
fn a_rate_lets_time_pass_faster_or_slower_and_never_jumps() {
    let (clock, server) = started();
    let begin = Instant::now();
    for (rate, least, most) in [(1_000_000, 19, 24), (-500_000, 4, 7)] {
        clock.set_rate(rate);
        let first = between(&server, begin);
        let since = Instant::now();
        eventually("some time has passed", LIMIT, || since.elapsed() > Duration::from_millis(300));
        let last = between(&server, begin);
        // The test may stand still during a reading, so the true time has two bounds.
        let (shortest, longest) = (last[0] - first[2], last[2] - first[0]);
        let tenths = (last[1] - first[1]) * 10;
        let is_so = least * shortest <= tenths && tenths < (most + 1) * longest;
        assert!(is_so, "{first:?} and {last:?} at {rate}");
    }
    // The server keeps what its clock has gained.
    clock.set_rate(1_000_000);
    eventually("the clock is ahead", LIMIT, || clock.ahead() > 100_000);
    let (since, gained) = (Instant::now(), clock.ahead());
    clock.set_rate(0);
    let (kept, most) = (clock.ahead(), gained + since.elapsed().as_micros() as i64);
    assert!((gained - 1_000..=most + 1_000).contains(&kept), "{kept} of {gained}");
    eventually("the server gives that time", LIMIT, || clock.is_told_by(&server));
}

#[test]
fn a_fast_clock_ends_a_key_early() {
    let (clock, server) = started();
    server.cli(&["SET", "k", "v", "PX", "20000"]);
    let begin = Instant::now();
    if clock.is_real() {
        clock.set_rate(9_000_000);
    } else {
        clock.jump(&server, 18_000);
    }
    eventually("the key has expired", LIMIT, || server.cli(&["EXISTS", "k"]).int() == 0);
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}
