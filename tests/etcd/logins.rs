//! Servers whose users log in.

use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, ErrorKind, Hint, Released};
use lock_sync::MutexGuard;
use lock_tests::{EtcdServer, SOON, eventually_async, soon};

use crate::support::{attempt, builder, claim, granted, locks, long, open, until_ok};

const USERS: [(&str, &str, &str); 2] = [("app", "a secret", "locks/"), ("other", "x", "other/")];

fn server(options: &[&str]) -> EtcdServer {
    let server = EtcdServer::with(&[&["--unsafe-no-fsync"], options].concat());
    server.require_users(&USERS);
    server
}

fn app(server: &EtcdServer) -> lock_etcd::Builder {
    builder(server.url()).user("app", "a secret").prefix("locks")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_logs_in_by_options_or_by_url() {
    let server = server(&[]);
    let by_options = app(&server).build().unwrap();
    let by_url = open(server.url_as("app", "a%20secret") + "/locks");
    let ours = claim("a");
    let mut watch = by_url.watch(&ours.key).await.unwrap();
    granted(&by_options, &ours, long()).await;
    let busy = attempt(&by_url, &claim("a"), long()).await.unwrap();
    assert!(matches!(busy, AcquireOutcome::Busy { .. }), "{busy:?}");
    assert!(matches!(by_options.release(&ours).await.unwrap(), Released::Freed { .. }));
    assert_eq!(soon(watch.next()).await, Some(Hint::Released));
    for store in [by_options, by_url] {
        assert!(!format!("{store:?}").contains("secret"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_the_password_or_the_right_is_denied() {
    let server = server(&[]);
    let wrong = app(&server).user("app", "a guess").build().unwrap();
    let none = builder(server.url()).prefix("locks").build().unwrap();
    let elsewhere = app(&server).prefix("other").build().unwrap();
    for (what, store) in [("a wrong password", wrong), ("no user", none), ("no right", elsewhere)] {
        let error = soon(attempt(&store, &claim("a"), long())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{what}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("guess"), "{what}: {error:?}");
    }
}

/// The tokens of this server live for two seconds after their last use. A lease is renewed after a third of its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_has_expired_is_renewed() {
    let server = server(&["--auth-token-ttl=2"]);
    holds_over(&server, Duration::from_secs(12), async || {
        tokio::time::sleep(Duration::from_secs(13)).await;
    })
    .await;
}

/// The session lives on by renewals, which need no token. The next watch does need one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_with_an_expired_token_is_begun_and_disturbs_no_waiter() {
    let server = server(&["--auth-token-ttl=2"]);
    let (one, other) = (app(&server).build().unwrap(), app(&server).build().unwrap());
    let long_time = Duration::from_secs(60);
    let (here, there) = (locks(one.clone(), long_time), locks(other.clone(), long_time));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = tokio::spawn(async move { behind.lock().await.map(drop) });
    eventually_async("it waits", SOON, async || here.inspect("it").await.unwrap().waiting == 1)
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = server.received();
    let elsewhere = claim("elsewhere");
    let mut watch = soon(other.watch(&elsewhere.key)).await.unwrap();
    let streams = server.received().since(&before).calls("Watch");
    assert!(streams <= 3, "{streams} streams");
    assert!(!waiting.is_finished(), "two holders");
    MutexGuard::release(guard).await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    granted(&one, &elsewhere, long()).await;
    one.release(&elsewhere).await.unwrap();
    while soon(watch.next()).await != Some(Hint::Released) {}
}

/// A server of simple tokens forgets all of them with its process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_the_server_has_forgotten_is_renewed() {
    let server = server(&[]);
    holds_over(&server, Duration::from_secs(6), async || {
        tokio::task::block_in_place(|| server.restart());
    })
    .await;
}

/// A change of the rights makes the tokens of earlier rights void.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_from_before_a_change_of_rights_is_renewed() {
    let server = server(&[]);
    holds_over(&server, Duration::from_secs(6), async || {
        server.ctl(&["user", "add", "new:new"]);
        server.ctl(&["user", "grant-role", "new", "other"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_logs_in_when_the_cluster_gets_users() {
    let server = EtcdServer::with(&["--unsafe-no-fsync"]);
    let nobody = builder(server.url()).prefix("locks").build().unwrap();
    let ours = claim("ours");
    granted(&nobody, &ours, long()).await;
    holds_over(&server, Duration::from_secs(20), async || {
        tokio::task::block_in_place(|| server.require_users(&USERS));
    })
    .await;
    let error = soon(nobody.release(&ours)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.to_string().contains("does not log in"), "{error}");
}

/// Without the bells, a client hears of nothing but its own places. Its waiters ask from time to time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_whose_bell_is_denied_later_ends_and_waiters_go_on() {
    let server = server(&[]);
    let (one, other) = (app(&server).build().unwrap(), app(&server).build().unwrap());
    let long_time = Duration::from_secs(60);
    let (here, there) = (locks(one, long_time), locks(other.clone(), long_time));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = tokio::spawn(async move { behind.lock().await.map(drop) });
    eventually_async("it waits", SOON, async || here.inspect("it").await.unwrap().waiting == 1)
        .await;
    let mut watch = other.watch(&claim("elsewhere").key).await.unwrap();

    tokio::task::block_in_place(|| {
        let role = |right, part| {
            server.ctl(&["role", "grant-permission", "--prefix=true", "app", right, part]);
        };
        server.ctl(&["role", "revoke-permission", "--prefix=true", "app", "locks/"]);
        for part in ["locks/a/", "locks/l/", "locks/s/"] {
            role("readwrite", part);
        }
        role("write", "locks/b/");
    });
    // Another watch needs another login.
    let error = soon(other.watch(&claim("third").key)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    while soon(watch.next()).await.is_some() {}
    MutexGuard::release(guard).await.unwrap();
    tokio::time::timeout(SOON * 2, waiting).await.expect("it passes on").unwrap().unwrap();
}

/// A guard with a lease of this time outlives what happens, and so does a waiter behind the guard.
async fn holds_over(server: &EtcdServer, ttl: Duration, happens: impl AsyncFnOnce()) {
    let (one, other) = (app(server).build().unwrap(), app(server).build().unwrap());
    let (here, there) = (locks(one.clone(), ttl), locks(other.clone(), ttl));
    let (mutex, behind) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    let waiting = tokio::spawn(async move { behind.lock().await.map(drop) });
    happens().await;
    for (store, name) in [(&one, "b"), (&other, "c")] {
        let asked = until_ok("it answers", async || attempt(store, &claim(name), long()).await);
        assert!(matches!(asked.await, AcquireOutcome::Granted(_)));
    }
    assert!(MutexGuard::lease(&guard).is_valid());
    assert!(!waiting.is_finished(), "two holders");
    MutexGuard::release(guard).await.unwrap();
    tokio::time::timeout(SOON * 2, waiting).await.expect("it passes on").unwrap().unwrap();
}
