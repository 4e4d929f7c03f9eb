//! Watches: each source alone, and how much it costs the server.

use std::time::Duration;

use lock_core::{Acquire, Backend, ErrorKind, Hint, Key, Mode, Released, Renew, Renewal, Watch};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};

use crate::support::{
    Client, Server, Waiter, claim, claim_of, granted, long, millis, proxy_before, refused, sever,
    soon,
};

const LOCK: &str = "lock:{a}";
const RELEASED: &str = "lock:{a}:released@0";
const KEYSPACE: &str = "__keyspace@0__:lock:{a}";
const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

fn builder(server: &Server) -> Builder {
    RedisBackend::builder(server.url())
}

fn key() -> Key {
    Key::new("a").unwrap()
}

async fn next(watch: &mut Watch) -> Option<Hint> {
    soon(watch.next()).await
}

fn subscribers(client: &mut Client, channel: &str) -> u64 {
    client.command::<(String, u64)>(&["PUBSUB", "NUMSUB", channel]).1
}

/// The number of messages so far.
fn published(client: &mut Client) -> u64 {
    let stats = client.command::<String>(&["INFO", "commandstats"]);
    let calls = stats.split_once("cmdstat_publish:calls=").map(|(_, rest)| rest);
    let digits = calls.and_then(|rest| rest.split(',').next());
    digits.map_or(0, |digits| digits.parse().unwrap())
}

async fn until_subscribers(client: &mut Client, channel: &str, count: u64) {
    soon(async {
        while subscribers(client, channel) != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Expiry is reported when a client looks, or when the server finds it.
async fn until_gone(client: &mut Client, key: &str) {
    soon(async {
        while client.command::<bool>(&["EXISTS", key]) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_message_of_a_release_wakes_alone() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let setup = || builder(&server).protocol(protocol).notifications(Notifications::Off);
        let (holder, waiter) = (setup().build().unwrap(), setup().build().unwrap());
        let claim = claim("a");
        granted(&holder, &claim).await;
        let mut watch = waiter.watch(&key()).await.unwrap();
        holder.release(&claim).await.unwrap();
        assert_eq!(next(&mut watch).await, Some(Hint::Released));
        assert_eq!(subscribers(&mut server.client(), KEYSPACE), 0);
    }
}

#[tokio::test]
async fn the_notification_of_a_release_wakes_alone() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    for protocol in PROTOCOLS {
        let setup = || {
            let builder = builder(&server).protocol(protocol).release_messages(false);
            builder.notifications(Notifications::Require)
        };
        let (holder, waiter) = (setup().build().unwrap(), setup().build().unwrap());
        let claim = claim("a");
        granted(&holder, &claim).await;
        let mut watch = waiter.watch(&key()).await.unwrap();
        holder.release(&claim).await.unwrap();
        assert_eq!(next(&mut watch).await, Some(Hint::Released));
        let stats = server.client().command::<String>(&["INFO", "commandstats"]);
        assert!(!stats.contains("cmdstat_publish"), "a message was sent, too");
    }
}

#[tokio::test]
async fn notifications_tell_of_deletion_renaming_and_expiry_by_others() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    let backend = builder(&server).build().unwrap();
    let exact = Key::raw("theirs").unwrap();
    let mut watch = backend.watch(&exact).await.unwrap();
    let mut theirs = server.client();
    for (end, hint) in [
        (&["DEL", "theirs"][..], Hint::Released),
        (&["UNLINK", "theirs"], Hint::Released),
        (&["RENAME", "theirs", "elsewhere"], Hint::Released),
        (&["PEXPIRE", "theirs", "5"], Hint::Expired),
    ] {
        theirs.command::<()>(&["SET", "theirs", "x", "NX", "PX", "60000"]);
        assert_eq!(next(&mut watch).await, Some(Hint::Changed));
        theirs.command::<()>(end);
        // Expiry is reported when a client looks, or when the server finds it.
        until_gone(&mut theirs, "theirs").await;
        assert_eq!(next(&mut watch).await, Some(hint), "{end:?}");
    }
}

#[tokio::test]
async fn acquiring_and_renewing_wake_no_client() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    for protocol in PROTOCOLS {
        let backend = builder(&server).protocol(protocol).build().unwrap();
        let mut watch = backend.watch(&key()).await.unwrap();
        let claim = claim("a");
        granted(&backend, &claim).await;
        assert!(matches!(
            backend.renew(&Renew::new(claim.clone(), long())).await,
            Renewal::Renewed { .. }
        ));
        // Another hint would come first.
        let mut raw = server.client();
        raw.command::<()>(&["PEXPIRE", LOCK, "5"]);
        until_gone(&mut raw, LOCK).await;
        assert_eq!(next(&mut watch).await, Some(Hint::Expired));
    }
}

#[tokio::test]
async fn without_hints_a_refusal_says_when_the_lease_ends() {
    let server = Server::start();
    let mute = builder(&server).notifications(Notifications::Off).release_messages(false);
    let backend = mute.build().unwrap();
    assert_eq!(backend.watch(&key()).await.unwrap_err().kind(), ErrorKind::Unsupported);

    // A rival has to ask before it ends.
    let lease = millis(5_000);
    let held = lock_core::Acquire::new(claim("a"), lease);
    assert!(matches!(
        backend.try_acquire(&held).await.unwrap(),
        lock_core::AcquireOutcome::Granted(_)
    ));
    let rival = claim("a");
    let left = refused(&backend, &rival).await.unwrap();
    assert!(left <= lease.duration());
    // A timer alone: the waiter sleeps for the given time, asks, and gets the lock.
    tokio::time::sleep(left + Duration::from_millis(1)).await;
    granted(&backend, &rival).await;
}

#[tokio::test]
async fn notifications_that_a_server_does_not_send_are_not_waited_for() {
    let server = Server::start();
    let builder = builder(&server).release_messages(false);
    let backend = builder.notifications(Notifications::IfPresent).build().unwrap();
    assert_eq!(backend.watch(&key()).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn required_notifications_must_be_complete() {
    let server = Server::with(&["--notify-keyspace-events", "Kg"]);
    let backend = builder(&server).notifications(Notifications::Require).build().unwrap();
    let error = backend.watch(&key()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("notify-keyspace-events"), "{error}");
    // Locks work all the same, and so does watching once the server is set up.
    granted(&backend, &claim("a")).await;
    server.client().command::<()>(&["CONFIG", "SET", "notify-keyspace-events", "KEA"]);
    backend.watch(&key()).await.unwrap();
}

#[tokio::test]
async fn enabling_notifications_keeps_what_others_need() {
    let server = Server::with(&["--notify-keyspace-events", "El"]);
    let backend = builder(&server).notifications(Notifications::Enable).build().unwrap();
    let mut watch = backend.watch(&key()).await.unwrap();
    let mut raw = server.client();
    let (_, flags) = raw.command::<(String, String)>(&["CONFIG", "GET", "notify-keyspace-events"]);
    for flag in "ElKg$xe".chars() {
        assert!(flags.contains(flag), "{flags}");
    }
    raw.command::<()>(&["SET", LOCK, "x"]);
    assert_eq!(next(&mut watch).await, Some(Hint::Changed));
    raw.command::<()>(&["DEL", LOCK]);
    assert_eq!(next(&mut watch).await, Some(Hint::Released));
}

#[tokio::test]
async fn off_and_if_present_change_nothing_on_the_server() {
    let server = Server::start();
    for mode in [Notifications::Off, Notifications::IfPresent] {
        let backend = builder(&server).notifications(mode).build().unwrap();
        backend.watch(&key()).await.unwrap();
    }
    let get = ["CONFIG", "GET", "notify-keyspace-events"];
    assert_eq!(server.client().command::<(String, String)>(&get).1, "");
}

#[tokio::test]
async fn many_watchers_are_one_subscription_and_go_with_the_last() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let backend = builder(&server).protocol(protocol).build().unwrap();
        let mut raw = server.client();
        let mut watches = Vec::new();
        for _ in 0..50 {
            watches.push(backend.watch(&key()).await.unwrap());
        }
        assert_eq!(subscribers(&mut raw, RELEASED), 1);
        let claim = claim("a");
        granted(&backend, &claim).await;
        backend.release(&claim).await.unwrap();
        for watch in &mut watches {
            assert_eq!(next(watch).await, Some(Hint::Released));
        }
        watches.truncate(1);
        granted(&backend, &claim).await;
        backend.release(&claim).await.unwrap();
        assert_eq!(next(&mut watches[0]).await, Some(Hint::Released));
        watches.clear();
        until_subscribers(&mut raw, RELEASED, 0).await;
        // The channel is allowed again.
        let mut watch = backend.watch(&key()).await.unwrap();
        raw.command::<()>(&["PUBLISH", RELEASED, ""]);
        assert_eq!(next(&mut watch).await, Some(Hint::Released));
    }
}

/// Like proxies that speak only RESP2.
#[tokio::test]
async fn a_server_without_subscriptions_is_asked_once_per_connection() {
    let server = Server::with(&["--rename-command", "SUBSCRIBE", ""]);
    for (protocol, connections) in [(Protocol::Resp3, 1), (Protocol::Resp2, 2)] {
        let proxy = proxy_before(&server);
        let backend = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        let mut raw = server.client();
        let mut errors = || raw.command::<String>(&["INFO", "errorstats"]);
        for round in 1..3 {
            let error = backend.watch(&key()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let refused = errors();
            for _ in 0..5 {
                let error = backend.watch(&key()).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                let claim = claim("a");
                granted(&backend, &claim).await;
                backend.release(&claim).await.unwrap();
            }
            assert_eq!(errors(), refused, "{protocol:?}");
            assert_eq!(proxy.connections(), round * connections, "{protocol:?}");
            // Another server may be behind the address by now.
            sever(&proxy);
            soon(async {
                while backend.try_acquire(&Acquire::new(claim("b"), millis(10))).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_watch_that_is_dropped_before_it_began_leaves_nothing() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let backend = builder(&server).protocol(protocol).build().unwrap();
        let mut raw = server.client();
        for polls in 1..20 {
            let key = key();
            let mut watch = std::pin::pin!(backend.watch(&key));
            for _ in 0..polls {
                if futures::poll!(watch.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // By then every message about the earlier ones has been heard.
        let probe = backend.watch(&Key::new("b").unwrap()).await.unwrap();
        until_subscribers(&mut raw, RELEASED, 0).await;
        drop(probe);
    }
}

#[tokio::test]
async fn watching_many_keys_takes_no_more_connections() {
    let server = Server::start();
    for (protocol, connections) in [(Protocol::Resp3, 1), (Protocol::Resp2, 2)] {
        let proxy = proxy_before(&server);
        let backend = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        let mut watches = Vec::new();
        for number in 0..300 {
            let claim = claim(format!("{number}"));
            granted(&backend, &claim).await;
            watches.push((backend.watch(&claim.key).await.unwrap(), claim));
        }
        for (watch, claim) in &mut watches {
            backend.release(claim).await.unwrap();
            assert_eq!(next(watch).await, Some(Hint::Released));
        }
        assert_eq!(proxy.connections(), connections);
    }
}

#[tokio::test]
async fn a_release_says_whether_a_client_heard_it() {
    let server = Server::start();
    let (holder, waiter) = (builder(&server).build().unwrap(), builder(&server).build().unwrap());
    for told in [0, 1] {
        let watch = if told > 0 { Some(waiter.watch(&key()).await.unwrap()) } else { None };
        let claim = claim("a");
        granted(&holder, &claim).await;
        let released = holder.release(&claim).await.unwrap();
        assert_eq!(released, Released::Freed { told });
        drop(watch);
    }
}

#[tokio::test]
async fn a_reader_tells_when_it_leaves_an_upgradable_one_alone() {
    let server = Server::start();
    for release_messages in [true, false] {
        let setup = || builder(&server).release_messages(release_messages).tracking(true);
        let (holder, others) = (setup().build().unwrap(), setup().build().unwrap());
        let [upgradable, first, second, third] =
            [Mode::Upgradable, Mode::Shared, Mode::Shared, Mode::Shared]
                .map(|mode| claim("a").in_mode(mode));
        let _watch = holder.watch(&key()).await.unwrap();
        let mut raw = server.client();
        let before = published(&mut raw);
        for claim in [&upgradable, &first, &second] {
            granted(&holder, claim).await;
        }
        // A client that hears does not count as waiting.
        for (reader, messages) in [(&first, 0), (&second, 1)] {
            let released = holder.release(reader).await.unwrap();
            assert_eq!(released, Released::Freed { told: 0 });
            assert_eq!(published(&mut raw) - before, messages);
        }
        // A writer in the queue would wake for nothing.
        granted(&holder, &third).await;
        let writer = Waiter::queue(&others, claim("a")).await;
        let before = published(&mut raw);
        holder.release(&third).await.unwrap();
        assert_eq!(published(&mut raw), before);
        writer.release().await;
        holder.release(&upgradable).await.unwrap();
    }
}

#[tokio::test]
async fn after_a_lost_connection_watchers_are_told_and_hear_again() {
    let server = Server::start();
    for (protocol, kind) in
        [(Protocol::Resp3, "normal"), (Protocol::Resp2, "normal"), (Protocol::Resp2, "pubsub")]
    {
        let backend = builder(&server).protocol(protocol).build().unwrap();
        let mut watches = Vec::new();
        for _ in 0..3 {
            watches.push(backend.watch(&key()).await.unwrap());
        }
        let mut raw = server.client();
        // Of a connection that subscribes in RESP3 the server also says that it is of this type.
        let kind = if protocol == Protocol::Resp3 { "pubsub" } else { kind };
        let killed = raw.command::<u64>(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
        assert!(killed > 0, "{protocol:?} {kind}");
        for watch in &mut watches {
            assert_eq!(next(watch).await, Some(Hint::Resync), "{protocol:?} {kind}");
        }
        assert_eq!(subscribers(&mut raw, RELEASED), 1);
        raw.command::<()>(&["PUBLISH", RELEASED, ""]);
        for watch in &mut watches {
            assert_eq!(next(watch).await, Some(Hint::Released));
        }
    }
}

#[tokio::test]
async fn watchers_outlive_a_restart_of_the_server() {
    let server = Server::start();
    for protocol in PROTOCOLS {
        let backend = builder(&server).protocol(protocol).build().unwrap();
        let mut watch = backend.watch(&key()).await.unwrap();
        server.restart();
        assert_eq!(next(&mut watch).await, Some(Hint::Resync));
        server.client().command::<()>(&["PUBLISH", RELEASED, ""]);
        assert_eq!(next(&mut watch).await, Some(Hint::Released));
    }
}

#[tokio::test]
async fn a_watch_ends_when_the_server_comes_back_with_other_sources() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    let backend = builder(&server).release_messages(false).build().unwrap();
    let mut watch = backend.watch(&key()).await.unwrap();
    let mut raw = server.client();
    raw.command::<()>(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    raw.command::<u64>(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(next(&mut watch).await, None);
    assert_eq!(backend.watch(&key()).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn channels_of_another_database_are_other_channels() {
    let server = Server::start();
    let zero = builder(&server).build().unwrap();
    let one = RedisBackend::open(format!("{}/1", server.url())).unwrap();
    let beside = builder(&server).build().unwrap();
    let mut watch = zero.watch(&key()).await.unwrap();
    // A client that hears only itself has no claim to make way for.
    for (backend, told) in [(&one, 0), (&zero, 0), (&beside, 1)] {
        let claim = claim("a");
        granted(backend, &claim).await;
        let released = backend.release(&claim).await.unwrap();
        assert_eq!(released, Released::Freed { told });
    }
    assert_eq!(next(&mut watch).await, Some(Hint::Released));
}

#[tokio::test]
async fn odd_keys_are_watched_too() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    for protocol in PROTOCOLS {
        let builder = builder(&server).protocol(protocol).release_messages(false);
        let backend = builder.build().unwrap();
        for key in [Key::new(b"\0\r\n\xff{}"), Key::new(""), Key::raw(b"\0}\r\n\xff{")] {
            let claim = claim_of(key.unwrap());
            let mut watch = backend.watch(&claim.key).await.unwrap();
            granted(&backend, &claim).await;
            backend.release(&claim).await.unwrap();
            assert_eq!(next(&mut watch).await, Some(Hint::Released), "{claim:?}");
        }
    }
}
