use lock_any::lock_sync::{LockGuard, ReleaseError, StoredMutexGuard};
use lock_tests::{RedisServer, soon};

use crate::program::{client, dlock, labelled};
use crate::terminal::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_release_tells_the_holder_and_names_both_in_the_audit_line() {
    let server = RedisServer::start();
    let (one, other) =
        (client(&server.url(), "billing").await, client(&server.url(), "refunds").await);
    let guard = one.lock("orders/42").await.unwrap();
    let lease = LockGuard::lease(&guard);
    labelled(&one, "orders/42").await;
    let waiting = tokio::spawn(async move {
        // A guard that is dropped releases in the background, and the last command needs a free lock.
        LockGuard::release(other.lock("orders/42").await.unwrap()).await
    });

    let args = ["--label", "ann on call", "release", "orders/42", "--force", "--yes"];
    let ran = dlock(&server.url(), &args).ends_with(0);
    assert_eq!(ran.out(), "orders/42: 1 lease ended\n");
    let audit = ran.err();
    for part in
        ["audit: ", "(ann on call, ", "`orders/42`", "1 lease ended", "held by billing (excl"]
    {
        assert!(audit.contains(part), "{part}: {audit}");
    }
    assert_eq!(audit.lines().count(), 1, "{audit}");
    soon(lease.lost()).await;
    let released = soon(waiting).await.unwrap();
    assert!(matches!(released, Ok(()) | Err(ReleaseError::Lost(_))), "{released:?}");
    let ran = dlock(&server.url(), &args).ends_with(1);
    assert!(ran.err().contains("orders/42: free"), "{}", ran.err());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_and_without_yes_nothing_is_ended() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let guard = locks.lock("orders/42").await.unwrap();
    let ran = dlock(&server.url(), &["release", "orders/42", "--force"]).ends_with(2);
    assert!(ran.err().contains("--yes") && ran.err().lines().count() == 1, "{}", ran.err());
    let ran = dlock(&server.url(), &["release", "orders/42", "--yes"]).ends_with(2);
    assert!(ran.err().contains("--force") && ran.err().lines().count() == 1, "{}", ran.err());
    dlock(&server.url(), &["destroy", "free"]).ends_with(2);
    assert_eq!(locks.inspect("orders/42").await.unwrap().holding, 1);
    LockGuard::release(guard).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_terminal_the_user_is_asked() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let guard = locks.lock("orders/42").await.unwrap();
    labelled(&locks, "orders/42").await;
    let mut no = Terminal::run(&server.url(), &["release", "orders/42", "--force"]);
    no.shows(&["orders/42 is held by billing", "End 1 lease? [y/N]"]);
    no.press("\n");
    assert_eq!(no.end().0.code(), Some(1));
    assert_eq!(locks.inspect("orders/42").await.unwrap().holding, 1);

    let mut yes = Terminal::run(&server.url(), &["release", "orders/42", "--force"]);
    yes.shows(&["[y/N]"]);
    yes.press("yes\n");
    let (status, text) = yes.end();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(text.contains("audit: ") && text.contains("1 lease ended"), "{text}");
    soon(LockGuard::lease(&guard).lost()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_is_about_the_holders_that_were_shown() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let guard = locks.lock("orders/42").await.unwrap();
    let mut asked = Terminal::run(&server.url(), &["release", "orders/42", "--force"]);
    asked.shows(&["[y/N]"]);
    LockGuard::release(guard).await.unwrap();
    let other = client(&server.url(), "refunds").await;
    let guard = other.lock("orders/42").await.unwrap();
    asked.press("y\n");
    let (status, text) = asked.end();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("the holders have changed"), "{text}");
    LockGuard::release(guard).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_in_use_is_not_destroyed_and_a_free_one_begins_anew() {
    let server = RedisServer::start();
    let locks = client(&server.url(), "billing").await;
    let stock = locks.stored_mutex("stock", 3).unwrap();
    let mut guard = stock.lock().await.unwrap();
    *guard = 7;
    labelled(&locks, "stock").await;
    for args in [&["destroy", "stock", "--yes"][..], &["destroy", "stock"]] {
        let ran = dlock(&server.url(), args).ends_with(1);
        assert!(ran.err().contains("held by billing"), "{}", ran.err());
        assert_eq!(ran.err().lines().count(), 1);
    }
    StoredMutexGuard::commit(guard).await.unwrap();
    // A guard that is dropped releases in the background, and the next command needs a free lock.
    assert_eq!(stock.snapshot().await.unwrap().value, 7);

    let mut no = Terminal::run(&server.url(), &["destroy", "stock"]);
    no.shows(&["Remove what stock keeps", "[y/N]"]);
    no.press("n\n");
    assert_eq!(no.end().0.code(), Some(1));
    assert_eq!(stock.snapshot().await.unwrap().value, 7);
    let ran = dlock(&server.url(), &["destroy", "stock", "--yes"]).ends_with(0);
    assert_eq!(ran.out(), "stock: destroyed\n");
    assert_eq!(*stock.lock().await.unwrap(), 3);
}
