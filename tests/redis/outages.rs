//! The queue when rights, memory, connections, clients or data fail.

use lock_core::{
    Acquire, AcquireOutcome, Backend, ErrorKind, Hint, Mode, Released, Renew, Renewal,
};
use lock_redis::{Builder, Notifications, Protocol, RedisBackend};

use crate::support::{
    Server, Waiter, attempt, claim, granted, long, millis, open, proxy_before, soon,
};

const LOCK: &str = "lock:{a}";
const QUEUE: &str = "lock:{a}:queue";

fn user(server: &Server, name: &str, rules: &[&str]) -> Builder {
    let words = [&["ACL", "SETUSER", name, "on", "nopass", "~*", "&*", "+@all"], rules].concat();
    server.client().command::<()>(&words);
    RedisBackend::builder(format!("redis://{name}:x@127.0.0.1:{}", server.port()))
}

/// Asks whenever a hint says so, until there is a grant.
async fn by_its_timer(waiter: &Waiter) -> lock_core::Grant {
    soon(async {
        loop {
            match waiter.ask().await.unwrap() {
                AcquireOutcome::Granted(grant) => return grant,
                AcquireOutcome::Queued { retry_after } => {
                    tokio::time::sleep(retry_after.unwrap()).await
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await
}

#[tokio::test]
async fn without_the_right_to_publish_a_release_frees_the_key_and_timers_do_the_rest() {
    let server = Server::start();
    let mute = user(&server, "mute", &["-publish"]).build().unwrap();
    let other = open(&server);
    let held = claim("a");
    granted(&mute, &held).await;
    let first = Waiter::queue_for(&other, claim("a"), millis(3_000)).await;
    let second = Waiter::queue_for(&other, claim("a"), millis(3_000)).await;
    assert_eq!(mute.release(&held).await.unwrap(), Released::Freed { told: 0 });
    let mut raw = server.client();
    assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
    // No claim lost its place.
    assert_eq!(raw.command::<u64>(&["LLEN", QUEUE]), 2);
    assert!(matches!(attempt(&mute, &claim("a")).await.unwrap(), AcquireOutcome::Busy { .. }));
    by_its_timer(&first).await;
    first.release().await;
    second.asks_and_has().await;
}

#[tokio::test]
async fn without_an_inbox_all_works_but_for_the_queue() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let rules = ["resetchannels", "&lock:{a}:released@0", "&lock:{b}:released@0"];
        let build = || user(&server, "open", &rules).protocol(protocol).build().unwrap();
        let (one, other) = (build(), build());
        let held = claim("a");
        granted(&one, &held).await;
        let mut watch = other.watch(&held.key).await.unwrap();
        let _second = other.watch(&claim("b").key).await.unwrap();
        let request = Acquire::new(claim("a"), long()).queued();
        assert!(matches!(other.try_acquire(&request).await.unwrap(), AcquireOutcome::Busy { .. }));
        // In some versions of the protocol a client also hears of its own releases.
        assert!(matches!(one.release(&held).await.unwrap(), Released::Freed { .. }));
        assert_eq!(soon(watch.next()).await, Some(Hint::Released), "{protocol:?}");
        assert!(matches!(other.try_acquire(&request).await.unwrap(), AcquireOutcome::Granted(_)));
        other.release(&request.claim).await.unwrap();
    }
}

#[tokio::test]
async fn without_memory_holders_release_and_waiters_are_served() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let held = claim("a");
    let reader = || claim("a").in_mode(Mode::Shared);
    granted(&holder, &held).await;
    let mut first = Waiter::queue(&other, claim("a")).await;
    let mut readers =
        [Waiter::queue(&other, reader()).await, Waiter::queue(&holder, reader()).await];
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = attempt(&holder, &claim("b")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let request = Acquire::new(claim("a"), long()).queued();
    assert_eq!(other.try_acquire(&request).await.unwrap_err().kind(), ErrorKind::OutOfMemory);
    // The place is kept.
    for waiter in [&first, &readers[0]] {
        assert!(matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    }

    assert!(matches!(holder.release(&held).await.unwrap(), Released::Freed { .. }));
    first.gets_it().await;
    let renew = Renew::new(first.claim().clone(), long()).reserving(8);
    let renewal = other.renew(&renew).await;
    assert!(matches!(renewal, Renewal::Renewed { tokens: Some(_), .. }), "{renewal:?}");
    assert!(matches!(first.release().await, Released::Freed { .. }));
    for reader in &mut readers {
        reader.gets_it().await;
    }
    let renewal = holder.renew(&Renew::new(readers[1].claim().clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    for reader in &readers {
        assert!(matches!(reader.release().await, Released::Freed { .. }));
    }
    assert_eq!(raw.command::<Vec<String>>(&["KEYS", "*"]), ["lock:{a}:state"]);
    raw.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    granted(&holder, &claim("b")).await;
}

#[tokio::test]
async fn a_waiter_whose_connection_is_gone_is_passed_over() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let proxy = proxy_before(&server);
        let gone = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (open(&server), open(&server));
        let held = claim("a");
        granted(&holder, &held).await;
        let mut lost = Vec::new();
        for _ in 0..40 {
            lost.push(Waiter::queue(&gone, claim("a")).await);
        }
        let mut alive = Waiter::queue(&other, claim("a")).await;
        proxy.cut_off();
        let mut raw = server.client();
        let inboxes = |raw: &mut crate::support::Client| {
            raw.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:inbox:*"]).len()
        };
        soon(async {
            while inboxes(&mut raw) > 1 {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        // More claims are dead than one call may clear away.
        holder.release(&held).await.unwrap();
        assert_eq!(raw.command::<u64>(&["LLEN", QUEUE]), 9);
        assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
        alive.asks_and_has().await;
        alive.release().await;
        while alive.hint().await != Hint::Released {}
    }
}

#[tokio::test]
async fn waiters_outlive_a_server_that_forgets_everything() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let held = claim("a");
    let before = granted(&holder, &held).await;
    let first = Waiter::queue(&other, claim("a")).await;
    let second = Waiter::queue(&other, claim("a")).await;
    raw.command::<()>(&["FLUSHALL"]);
    raw.command::<()>(&["SCRIPT", "FLUSH"]);
    // The claim whose client asks first is now the first.
    let grant = second.asks_and_has().await;
    assert!(grant.tokens.first() > before.tokens.last());
    assert!(matches!(first.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    assert_eq!(holder.release(&held).await.unwrap(), Released::NotHeld);
    raw.command::<()>(&["SCRIPT", "FLUSH"]);
    second.release().await;
    first.asks_and_has().await;
    first.release().await;
}

/// Places without an order, or an order without places.
#[tokio::test]
async fn half_a_queue_that_was_lost_is_made_good_by_asking() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    for mode in [Mode::Exclusive, Mode::Upgradable] {
        for key in [QUEUE, "lock:{a}:places"] {
            let held = claim("a");
            granted(&holder, &held).await;
            let mut line = Vec::new();
            for _ in 0..3 {
                line.push(Waiter::queue(&other, claim("a").in_mode(mode)).await);
            }
            raw.command::<()>(&["DEL", key]);
            for waiter in &line {
                assert!(
                    matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }),
                    "{key}"
                );
            }
            holder.release(&held).await.unwrap();
            for waiter in &mut line {
                waiter.gets_it().await;
                waiter.release().await;
            }
            assert_eq!(raw.command::<Vec<String>>(&["KEYS", "*"]), ["lock:{a}:state"]);
        }
    }
}

#[tokio::test]
async fn nonsense_at_the_keys_of_the_queue_does_not_keep_a_lock_from_being_released() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    for key in [QUEUE, "lock:{a}:places"] {
        let held = claim("a");
        granted(&holder, &held).await;
        let _waiter = Waiter::queue(&other, claim("a")).await;
        raw.command::<()>(&["SET", key, "nonsense"]);
        assert!(matches!(holder.release(&held).await.unwrap(), Released::Freed { .. }), "{key}");
        assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
        raw.command::<()>(&["DEL", QUEUE, "lock:{a}:places"]);
    }
}

#[tokio::test]
async fn waiters_outlive_a_restart_of_the_server() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let build = || RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (build(), build());
        let held = claim("a");
        granted(&holder, &held).await;
        let mut waiter = Waiter::queue(&other, claim("a")).await;
        server.restart();
        assert_eq!(waiter.hint().await, Hint::Resync);
        soon(async {
            while !matches!(waiter.ask().await, Ok(AcquireOutcome::Granted(_))) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        })
        .await;
        // The client hears again, and can be told again.
        let mut next = Waiter::queue(&other, claim("a")).await;
        waiter.release().await;
        next.gets_it().await;
        next.release().await;
    }
}

/// A waiter that hears of the end of a lease only from the server itself.
#[tokio::test]
async fn notifications_reach_the_queued_clients() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let build = || {
            let builder = RedisBackend::builder(server.url()).protocol(protocol);
            builder.release_messages(false).notifications(Notifications::Require).build().unwrap()
        };
        let (holder, other) = (build(), build());
        let mut raw = server.client();
        raw.command::<()>(&["SET", "spare", "theirs"]);
        let dump = raw.command::<Vec<u8>>(&["DUMP", "spare"]);
        for (name, end, hint) in [
            ("deleted", &[&b"DEL"[..], b"lock:{deleted}"][..], Hint::Released),
            ("renamed", &[b"RENAME", b"lock:{renamed}", b"elsewhere"], Hint::Released),
            ("set", &[b"SET", b"lock:{set}", b"theirs"], Hint::Changed),
            ("restored", &[b"RESTORE", b"lock:{restored}", b"0", &dump, b"REPLACE"], Hint::Changed),
        ] {
            let held = claim(name);
            let mut watch = holder.watch(&held.key).await.unwrap();
            granted(&holder, &held).await;
            let mut waiter = Waiter::queue(&other, claim(name)).await;
            assert_eq!(soon(watch.next()).await, Some(Hint::Contended));
            raw.raw::<(), &[u8]>(end);
            assert_eq!(waiter.hint().await, hint, "{name}");
            // The holder hears it, too, and knows once it has asked.
            assert_eq!(soon(watch.next()).await, Some(hint), "{name}");
            let renewal = holder.renew(&Renew::new(held.clone(), long())).await;
            assert!(matches!(renewal, Renewal::Lost), "{renewal:?}");
            raw.command::<()>(&["DEL", &format!("lock:{{{name}}}")]);
            waiter.asks_and_has().await;
        }
        raw.command::<()>(&["FLUSHALL"]);
    }
}

#[tokio::test]
async fn waiters_hear_of_an_evicted_lock() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let notified = RedisBackend::builder(server.url()).release_messages(false);
    let tracked = notified.clone().notifications(Notifications::Off).tracking(true);
    let mut raw = server.client();
    for (builder, hint) in [(notified, Hint::Expired), (tracked, Hint::Released)] {
        let (holder, other) = (builder.clone().build().unwrap(), builder.build().unwrap());
        let held = claim("a");
        granted(&holder, &held).await;
        let mut waiter = Waiter::queue(&other, claim("a")).await;
        raw.command::<()>(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        raw.command::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(waiter.hint().await, hint);
        raw.command::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
        // All other keys have gone with the lock.
        waiter.asks_and_has().await;
        waiter.release().await;
    }
}
