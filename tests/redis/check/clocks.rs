//! Clocks of servers that are wrong.

use lock_redis::RedisBackend;
use lock_redis::check::{Report, Severity};
use lock_tests::{RedisServer, SOON, ServerClock, eventually, eventually_async};

use super::{examine, only};

const SECOND: i64 = 1_000;
const YEAR: i64 = 365 * 24 * 60 * 60 * SECOND;

async fn report(server: &RedisServer) -> Report {
    examine(RedisBackend::builder(server.url())).await
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_told_with_the_uncertainty() {
    let clock = ServerClock::new();
    assert!(clock.is_real(), "the clock of the server cannot be set here");
    let server = clock.options(RedisServer::builder()).start();
    let right = report(&server).await;
    for code in ["clock-skew", "clock-rate", "clock-unset"] {
        assert_eq!(right.with_code(code).count(), 0, "{right}");
    }
    let offset = right.servers[0].clock.unwrap();
    let possible = offset.uncertainty_micros + 2_000;
    assert!(offset.micros.unsigned_abs() <= possible, "{right}");

    let jump = |millis| {
        clock.jump(&server, millis);
        eventually("the server tells its new time", SOON, || clock.is_told_by(&server));
    };
    jump(-60 * SECOND);
    let behind = report(&server).await;
    let (severity, text) = only(&behind, "clock-skew");
    assert!(severity == Severity::Warning && text.contains("behind (±"), "{text}");
    let offset = behind.servers[0].clock.unwrap();
    assert!((offset.micros + 60_000_000).unsigned_abs() <= offset.uncertainty_micros + 2_000);

    jump(-20 * YEAR);
    let unset = report(&server).await;
    assert_eq!(only(&unset, "clock-unset").0, Severity::Critical);
    assert_eq!(only(&unset, "lock-refused").0, Severity::Critical);
}

#[tokio::test]
async fn a_clock_that_stands_still_is_told() {
    let clock = ServerClock::new();
    assert!(clock.is_real(), "the clock of the server cannot be set here");
    let server = clock.options(RedisServer::builder()).start();
    clock.set_rate(-1_000_000);
    // A check that was fast, or an answer that was slow, leaves it open.
    eventually_async("the clock is found out", SOON, async || {
        report(&server).await.with_code("clock-rate").count() == 1
    })
    .await;
    clock.set_rate(0);
    assert_eq!(report(&server).await.with_code("clock-rate").count(), 0);
}
