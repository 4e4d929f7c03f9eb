//! Hints from the server's tracking of the keys that its clients have read.

use lock_core::{Backend, ErrorKind, Hint, Released, Renew, Renewal, Watch};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};

use crate::support::{Server, Waiter, claim, granted, long, soon};

/// Tracking and nothing else.
fn alone(server: &Server) -> Builder {
    RedisBackend::builder(server.url())
        .release_messages(false)
        .notifications(Notifications::Off)
        .tracking(true)
}

async fn next(watch: &mut Watch) -> Option<Hint> {
    soon(watch.next()).await
}

#[tokio::test]
async fn each_change_of_a_key_is_told() {
    let server = Server::start();
    let (holder, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let mut raw = server.client();
    for (name, end, hint) in [
        ("deleted", &["DEL", "lock:{deleted}"][..], Hint::Released),
        ("renamed", &["RENAME", "lock:{renamed}", "elsewhere"], Hint::Released),
        ("expired", &["PEXPIRE", "lock:{expired}", "5"], Hint::Released),
        ("set", &["SET", "lock:{set}", "theirs"], Hint::Changed),
        ("appended", &["APPEND", "lock:{appended}", "theirs"], Hint::Changed),
        ("replaced", &["COPY", "spare", "lock:{replaced}", "REPLACE"], Hint::Changed),
    ] {
        raw.command::<()>(&["RPUSH", "spare", "no lock"]);
        let held = claim(name);
        granted(&holder, &held).await;
        let mut own = holder.watch(&held.key).await.unwrap();
        let mut watch = other.watch(&held.key).await.unwrap();
        raw.command::<()>(end);
        if name == "expired" {
            soon(async {
                while raw.command::<bool>(&["EXISTS", "lock:{expired}"]) {
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            })
            .await;
        }
        for watch in [&mut own, &mut watch] {
            assert_eq!(next(watch).await.as_ref(), Some(&hint), "{name}");
        }
        let renewal = holder.renew(&Renew::new(held, long())).await;
        assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
    }
}

#[tokio::test]
async fn a_key_is_tracked_on_and_on() {
    let server = Server::start();
    let (one, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let held = claim("a");
    let mut watches = Vec::new();
    for backend in [&one, &other, &other] {
        watches.push(backend.watch(&held.key).await.unwrap());
    }
    for _ in 0..5 {
        granted(&one, &held).await;
        // Until the key was read again, a further change is not reported separately.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        one.release(&held).await.unwrap();
        for watch in &mut watches {
            assert_eq!(next(watch).await, Some(Hint::Released));
        }
    }
}

#[tokio::test]
async fn acquiring_and_renewing_wake_no_client() {
    let server = Server::start();
    let (holder, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let held = claim("a");
    let mut watch = other.watch(&held.key).await.unwrap();
    granted(&holder, &held).await;
    for _ in 0..3 {
        let renewal = holder.renew(&Renew::new(held.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }));
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    server.client().command::<()>(&["DEL", "lock:{a}"]);
    // Another hint would come first.
    assert_eq!(next(&mut watch).await, Some(Hint::Released));
}

/// No keyspace notification reports it.
#[tokio::test]
async fn a_flushed_server_makes_all_clients_ask() {
    let server = Server::start();
    let (holder, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let mut raw = server.client();
    for _ in 0..3 {
        let held = claim("a");
        granted(&holder, &held).await;
        let mut waiter = Waiter::queue(&other, claim("a")).await;
        let mut watch = holder.watch(&held.key).await.unwrap();
        raw.command::<()>(&["FLUSHALL"]);
        for watch in [&mut watch, &mut waiter.watch] {
            // Earlier hints may still be on their way.
            while next(watch).await.expect("the watch has ended") != Hint::Resync {}
        }
        waiter.asks_and_has().await;
        assert!(matches!(waiter.release().await, Released::Freed { .. }));
    }
}

#[tokio::test]
async fn a_line_is_served_beside_it() {
    let server = Server::start();
    let (holder, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let held = claim("a");
    granted(&holder, &held).await;
    let mut line = Vec::new();
    for backend in [&other, &holder, &other] {
        line.push(Waiter::queue(backend, claim("a")).await);
    }
    holder.release(&held).await.unwrap();
    for waiter in &mut line {
        waiter.gets_it().await;
        waiter.release().await;
    }
}

#[tokio::test]
async fn tracking_outlives_a_connection() {
    let server = Server::start();
    let (holder, other) = (alone(&server).build().unwrap(), alone(&server).build().unwrap());
    let held = claim("a");
    granted(&holder, &held).await;
    let mut watch = other.watch(&held.key).await.unwrap();
    let mut raw = server.client();
    assert!(raw.command::<u64>(&["CLIENT", "KILL", "SKIPME", "yes"]) > 0);
    assert_eq!(next(&mut watch).await, Some(Hint::Resync));
    raw.command::<()>(&["DEL", "lock:{a}"]);
    assert_eq!(next(&mut watch).await, Some(Hint::Released));
}

#[tokio::test]
async fn where_it_is_not_to_be_had_it_is_done_without() {
    let server = Server::start();
    let mut raw = server.client();
    let rules = ["ACL", "SETUSER", "plain", "on", "nopass", "~*", "&*", "+@all", "-client"];
    raw.command::<()>(&rules);
    let url = format!("redis://plain:x@127.0.0.1:{}", server.port());
    let build = |builder: Builder| builder.tracking(true).build().unwrap();
    let backend = build(RedisBackend::builder(&url));
    let held = claim("a");
    let mut watch = backend.watch(&held.key).await.unwrap();
    granted(&backend, &held).await;
    backend.release(&held).await.unwrap();
    assert_eq!(next(&mut watch).await, Some(Hint::Released));
    let report = backend.check().await.unwrap();
    assert_eq!(report.with_code("tracking-refused").count(), 1, "{report}");

    let mute = alone(&server);
    let backend = build(RedisBackend::builder(&url).release_messages(false));
    let error = backend.watch(&held.key).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    let error = mute.protocol(Protocol::Resp2).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
}

/// Longer than any reply may be, so it cannot be read as a whole.
#[tokio::test]
async fn what_others_keep_at_a_key_may_be_of_any_length() {
    let server = Server::start();
    let backend = alone(&server).build().unwrap();
    let (mut raw, far) = (server.client(), (70 << 20).to_string());
    raw.command::<()>(&["SETRANGE", "lock:{a}", &far, "theirs"]);
    let mut connections = {
        let mut raw = server.client();
        move || {
            let stats: String = raw.command(&["INFO", "stats"]);
            let mut lines = stats.lines();
            lines.find(|it| it.starts_with("total_connections_received:")).unwrap().to_owned()
        }
    };
    let mut watch = backend.watch(&claim("a").key).await.unwrap();
    let before = connections();
    for (change, hint) in [
        (&["APPEND", "lock:{a}", "more"][..], Hint::Changed),
        (&["SETRANGE", "lock:{a}", "0", "begin"], Hint::Changed),
        (&["DEL", "lock:{a}"], Hint::Released),
    ] {
        raw.command::<()>(change);
        assert_eq!(next(&mut watch).await, Some(hint));
    }
    assert_eq!(connections(), before);
}
