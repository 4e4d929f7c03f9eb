//! Scripts of other clients that are slow.

use lock_redis::check::Severity;
use lock_tests::{RedisServer, SOON, eventually_async};

use super::{codes, examine, healthy, only, report};

/// Takes some tens of milliseconds.
const SLOW: &str = "local n = 0 for i = 1, 3000000 do n = n + i end return 1";

#[tokio::test]
async fn scripts_that_are_slow_on_average_are_told() {
    let server = healthy(&[]);
    let mut raw = server.client();
    for _ in 0..40 {
        raw.command::<()>(&["EVAL", "return 1", "0"]);
    }
    assert_eq!(codes(&report(&server).await), [""; 0]);
    raw.command::<()>(&["CONFIG", "RESETSTAT"]);
    for _ in 0..25 {
        raw.command::<()>(&["EVAL", SLOW, "0"]);
    }
    let found = report(&server).await;
    assert_eq!(codes(&found), ["slow-scripts"], "{found}");
    assert_eq!(only(&found, "slow-scripts").0, Severity::Warning);
}

#[tokio::test]
async fn a_server_that_is_busy_with_a_script_is_not_ready() {
    let server = RedisServer::builder()
        .config("lua-time-limit", "10")
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .start();
    let mut other = server.connect().unwrap();
    let looping = std::thread::spawn(move || other.command(&["EVAL", "while true do end", "0"]));
    let client = || lock_redis::RedisBackend::builder(server.url());
    eventually_async("the server is busy", SOON, async || {
        // Until the limit has passed, the server answers nothing.
        let found = client().build().unwrap().check().await;
        found.is_ok_and(|found| codes(&found) == ["not-ready"])
    })
    .await;
    // The kit's own user has to log in first, so it has no connection yet that a busy server serves.
    let mut killer = server.connect().unwrap();
    assert_eq!(killer.command(&["SCRIPT", "KILL"]).unwrap().text(), "OK");
    looping.join().unwrap().unwrap();
    assert_eq!(codes(&examine(client()).await), ["notifications-missing"]);
}
