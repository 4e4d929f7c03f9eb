//! The commands over any store with a queue.

use std::time::Duration;

use lock_any::lock_sync::LockGuard;
use lock_tests::soon;

use crate::program::{client, dlock, labelled};
use crate::terminal::Terminal;

/// One client holds a lock, and another one waits for it. The store may show either for so many milliseconds after its
/// end.
pub(crate) async fn the_commands_work(url: &str, late_ms: u64) {
    let (one, other) = (client(url, "billing").await, client(url, "refunds").await);
    let guard = soon(one.lock("orders/42")).await.unwrap();
    labelled(&one, "orders/42").await;
    let waiting = tokio::spawn(async move { other.lock("orders/42").await.map(drop) });
    let mut top = Terminal::run(url, &["top", "--interval", "0.2"]);
    top.shows(&["orders/42", "billing", "1 locks"]);
    top.shows(&["1 waiters on 1 locks", "waits  refunds (exclusive, for "]);
    top.press("q");
    assert_eq!(top.end().0.code(), Some(0));

    let seen = dlock(url, &["inspect", "orders/42", "--json"]).ends_with(0).json_lines().remove(0);
    assert_eq!((&seen["holding"], &seen["waiting"]), (&1.into(), &1.into()), "{seen}");
    assert!(seen["waiters"][0]["waited_ms"].as_u64().is_some(), "{seen}");
    assert_eq!((&seen["late_ms"], &seen["queue"]), (&late_ms.into(), &true.into()), "{seen}");
    let ran = dlock(url, &["inspect", "orders/42"]).ends_with(0);
    // A store that is hardly late needs no words for it.
    let words = format!("may show a lease or a place for {:?}", Duration::from_millis(late_ms));
    assert_eq!(ran.out().contains(&words), late_ms > 20, "{}", ran.out());
    let lines = dlock(url, &["list", "orders/", "--json"]).ends_with(0).json_lines();
    assert_eq!((lines.len(), &lines[0]["lock"]), (1, &"orders/42".into()), "{lines:?}");
    dlock(url, &["destroy", "orders/42", "--yes"]).ends_with(1);
    let ran = dlock(url, &["release", "orders/42", "--force", "--yes"]).ends_with(0);
    assert!(ran.err().contains("held by billing"), "{}", ran.err());
    soon(LockGuard::lease(&guard).lost()).await;
    soon(waiting).await.unwrap().unwrap();
    drop(guard);
    dlock(url, &["bench", "load", "--clients", "2", "--requests", "6"]).ends_with(0);
    dlock(url, &["bench", "--seconds", "1", "--no-svg", "--json"]).ends_with(0);
}
