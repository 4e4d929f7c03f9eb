use std::process::{Command, Stdio};

use lock_any::lock_sync::Locks;
use lock_tests::{RedisServer, eventually_async};
use serde_json::json;

use crate::program::{client, dlock};

/// Waits until a lock has this many waiters, and its holder has a label.
async fn waited_for(locks: &Locks, name: &str, waiting: u64) {
    eventually_async("the lock is waited for", lock_tests::SOON, async || {
        let seen = locks.inspect(name).await.unwrap();
        seen.waiting == waiting
            && seen.holders.iter().all(|it| it.label.is_some())
            && seen.waiters.iter().all(|it| it.label.is_some())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holders_and_waiters_are_shown_with_label_mode_token_and_time() {
    let server = RedisServer::start();
    let (one, other) =
        (client(&server.url(), "billing").await, client(&server.url(), "refunds").await);
    let guard = one.lock("orders/42").await.unwrap();
    let token = lock_any::lock_sync::LockGuard::lease(&guard).fencing_token().get();
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.lock("orders/42").await.map(drop) }
    });
    waited_for(&one, "orders/42", 1).await;

    let ran = dlock(&server.url(), &["inspect", "orders/42", "--json"]).ends_with(0);
    let mut seen = ran.json_lines().remove(0);
    for (list, time) in
        [("holders", "left_ms"), ("waiters", "place_left_ms"), ("waiters", "waited_ms")]
    {
        let left = seen[list][0][time].take().as_u64().unwrap();
        assert!((1..=30_000).contains(&left), "{left}");
    }
    let expected = json!({
        "lock": "orders/42", "exact": false, "holding": 1, "waiting": 1,
        "holders": [
            {"label": "billing", "mode": "exclusive", "permits": null, "token": token, "left_ms": null},
        ],
        "waiters": [
            {"label": "refunds", "mode": "exclusive", "permits": null, "place_left_ms": null, "waited_ms": null},
        ],
        "queue": true, "late_ms": 20,
    });
    assert_eq!(seen, expected);
    let text = dlock(&server.url(), &["inspect", "orders/42"]).ends_with(0).out();
    for part in ["1 holding, 1 waiting", "billing", "refunds", "exclusive", &token.to_string()] {
        assert!(text.contains(part), "{part}: {text}");
    }

    drop(guard);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_the_locks_of_its_prefix() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    let readers = locks.rwlock("orders/all", ()).unwrap();
    let _reader = readers.read().await.unwrap();
    let _elsewhere = locks.lock("reports").await.unwrap();
    let text = dlock(&server.url(), &["list", "orders/"]).ends_with(0).out();
    let mut lines: Vec<_> = text.lines().collect();
    assert!(lines.remove(0).starts_with("LOCK"), "{text}");
    lines.sort_unstable();
    assert!(lines.len() == 2 && lines[0].starts_with("orders/42 "), "{text}");
    assert!(lines[1].starts_with("orders/all") && lines[1].contains("shared"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_whether_something_was_found() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let _guard = locks.lock("orders/42").await.unwrap();
    for (args, code) in [
        (&["list"][..], 0),
        (&["list", "bills/"], 1),
        (&["list", "--exact", "orders/"], 1),
        (&["inspect", "orders/42"], 0),
        (&["inspect", "orders/43"], 1),
        (&["inspect", "--exact", "orders/42"], 1),
    ] {
        dlock(&server.url(), args).ends_with(code);
    }
    let ran = dlock(&server.url(), &["inspect", "orders/43", "--json"]).ends_with(1);
    assert_eq!(ran.json_lines()[0]["holding"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_comes_in_pages_with_each_lock_once() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let mut guards = Vec::new();
    for number in 0..500 {
        guards.push(locks.lock(format!("lock/{number:03}")).await.unwrap());
    }
    let ran = dlock(&server.url(), &["list", "--json"]).ends_with(0);
    let mut names: Vec<_> =
        ran.json_lines().iter().map(|lock| lock["lock"].as_str().unwrap().to_owned()).collect();
    names.sort_unstable();
    let expected: Vec<_> = (0..500).map(|number| format!("lock/{number:03}")).collect();
    assert_eq!(names, expected);
    assert_eq!(dlock(&server.url(), &["list"]).ends_with(0).out().lines().count(), 501);

    // The reader of the list has enough after one line.
    let mut list = Command::new(env!("CARGO_BIN_EXE_dlock"));
    list.args(["list", "--json"]).env("LOCK_URL", server.url());
    let mut list = list.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(list.stdout.take());
    let ran = list.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), ran.stderr), (Some(0), Vec::new()));
}
