use lock_any::lock_sync::LockGuard;
use lock_tests::{RedisServer, soon};

use crate::program::{client, dlock, labelled};
use crate::terminal::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_over_a_quorum() {
    let servers = [0; 3].map(|_| RedisServer::start());
    let hosts = servers.each_ref().map(|server| server.addr().to_string());
    let url = format!("redlock+redis://{}", hosts.join(","));
    // A new quorum grants nothing until an operator says that it is new.
    let report = dlock(&url, &["doctor"]).ends_with(13).json_lines().remove(0);
    assert_eq!(report["findings"][0]["code"], "quorum-lost", "{report}");
    lock_any::init(&url).await.unwrap();
    let report = dlock(&url, &["doctor"]).json_lines().remove(0);
    assert!(["info", "unknown"].contains(&report["worst"].as_str().unwrap()), "{report}");

    let locks = client(&url, "billing").await;
    let guard = soon(locks.lock("orders/42")).await.unwrap();
    labelled(&locks, "orders/42").await;
    let lines = dlock(&url, &["list", "orders/", "--json"]).ends_with(0).json_lines();
    assert_eq!((lines.len(), &lines[0]["lock"]), (1, &"orders/42".into()), "{lines:?}");
    assert_eq!(lines[0]["holders"][0]["label"], "billing", "{lines:?}");
    assert_eq!(lines[0]["queue"], false, "{lines:?}");
    assert!(lines[0]["waiting"].is_null(), "{lines:?}");
    let text = dlock(&url, &["inspect", "orders/42"]).ends_with(0).out();
    assert!(text.contains("1 holding, waiters unknown\n"), "{text}");
    assert!(text.contains("no waiter is shown"), "{text}");
    let mut top = Terminal::run(&url, &["top"]);
    top.shows(&["1 holders  waiters unknown", "orders/42: 1 hold, waiters unknown"]);
    top.press("q");
    assert_eq!(top.end().0.code(), Some(0));
    dlock(&url, &["destroy", "orders/42", "--yes"]).ends_with(1);
    let ran = dlock(&url, &["release", "orders/42", "--force", "--yes"]).ends_with(0);
    assert!(ran.err().contains("held by billing"), "{}", ran.err());
    soon(LockGuard::lease(&guard).lost()).await;
    dlock(&url, &["bench", "load", "--clients", "2", "--requests", "6"]).ends_with(0);
    dlock(&url, &["bench", "--seconds", "1", "--no-svg", "--json"]).ends_with(0);
}
