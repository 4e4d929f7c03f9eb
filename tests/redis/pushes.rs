//! Messages about grants: late, twice, forged, and not at all.

use std::time::{Duration, SystemTime};

use lock_core::{Acquire, AcquireOutcome, Backend, Grant, Hint, Renew, Renewal};
use lock_redis::{Protocol, RedisBackend};
use lock_tests::Direction;

use crate::support::{
    Client, Server, Waiter, claim, granted, long, millis, open, proxy_before, soon,
};

const LOCK: &str = "lock:{a}";

/// The channel of the only client that watches.
fn inbox(raw: &mut Client) -> String {
    let mut channels = raw.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:inbox:*"]);
    assert_eq!(channels.len(), 1);
    channels.remove(0)
}

fn owner(waiter: &Waiter) -> String {
    String::from_utf8(waiter.claim().owner.expose().to_vec()).unwrap()
}

/// The server's clock, which is also the client's.
fn micros() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()
}

fn is_over(grant: &Grant, backend: &RedisBackend) -> bool {
    grant.valid_until <= backend.clock().now()
}

#[tokio::test]
async fn a_message_that_comes_too_late_is_asked_about() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let proxy = proxy_before(&server);
        let slow = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        let holder = open(&server);
        let held = claim("a");
        granted(&holder, &held).await;
        let mut waiter = Waiter::queue(&slow, claim("a")).await;
        // A lease that is handed over may lose half a second on the way.
        proxy.delay(Direction::ToClient, Duration::from_millis(600));
        holder.release(&held).await.unwrap();
        assert_eq!(waiter.told().await, None, "{protocol:?}");
        proxy.pass();
        let grant = waiter.asks_and_has().await;
        assert!(!is_over(&grant, &slow));
        waiter.release().await;
    }
}

#[tokio::test]
async fn a_message_that_is_a_little_late_counts_from_when_it_was_sent() {
    // If a message comes too late on a busy machine, the next one is another try.
    for _ in 0..10 {
        if a_late_message_counts_from_when_it_was_sent().await {
            return;
        }
    }
    panic!("no message came while most of the lease was left");
}

/// Returns whether the message came while most of the lease was left.
async fn a_late_message_counts_from_when_it_was_sent() -> bool {
    let server = Server::start();
    let proxy = proxy_before(&server);
    let (slow, holder) = (RedisBackend::open(proxy.url()).unwrap(), open(&server));
    let (held, mut raw) = (claim("a"), server.client());
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&slow, claim("a")).await;
    proxy.delay(Direction::ToClient, Duration::from_millis(200));
    let (before, clock) = (slow.clock().now(), slow.clock());
    holder.release(&held).await.unwrap();
    // The server has sent the message before this instant.
    let sent = clock.now();
    let has_it = raw.command::<String>(&["GETRANGE", LOCK, "0", "31"]);
    let left = raw.command::<i64>(&["PTTL", LOCK]);
    let asked = clock.now();
    let Some(grant) = waiter.told().await else { return false };
    assert!(clock.now() >= before + Duration::from_millis(200));
    assert!(grant.valid_until < sent + Duration::from_millis(1_000));
    // The lease still exists in the store when the holder lets go.
    let ends = asked + Duration::from_millis(left.unsigned_abs());
    assert!(grant.valid_until < ends, "{grant:?} {asked:?} {left:?}");
    assert_eq!(has_it, owner(&waiter));
    true
}

#[tokio::test]
async fn a_forged_message_is_not_heard() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&other, claim("a")).await;
    let mut raw = server.client();
    let inbox = inbox(&mut raw);
    let (owner, now) = (owner(&waiter), micros());
    let stranger = "0".repeat(32);
    for forged in [
        String::new(),
        "granted".into(),
        format!("granted {owner}"),
        format!("granted {stranger} 7 7 1000 {now} 0 {LOCK}"),
        format!("granted {owner} 7 7 1000 {now} 0 lock:{{b}}"),
        format!("granted {owner} 7 7 1000 {now} 0 "),
        format!("granted {owner} 9 7 1000 {now} 0 {LOCK}"),
        format!("granted {owner} 7 7 -1 {now} 0 {LOCK}"),
        format!("granted {owner} 7 7 1000 {now}.5 0 {LOCK}"),
        "wanted lock:{b}".to_owned(),
    ] {
        assert_eq!(raw.command::<u64>(&["PUBLISH", &inbox, &forged]), 1);
    }
    // An earlier hint would come first.
    holder.release(&held).await.unwrap();
    assert!(
        matches!(waiter.hint().await, Hint::Granted { grant: Some(grant), .. } if grant.tokens.first().get() > 7)
    );
}

/// A reader of the server's memory knows the token, and could do worse. But a forged message must
/// claim something possible.
#[tokio::test]
async fn a_message_that_claims_the_impossible_is_asked_about() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&other, claim("a")).await;
    let mut raw = server.client();
    let (inbox, owner) = (inbox(&mut raw), owner(&waiter));
    let hour = Duration::from_secs(3_600).as_micros();
    for at in [0, 1, micros() - hour, micros() + hour, u128::from(u64::MAX)] {
        let forged = format!("granted {owner} 7 7 1000 {at} 0 {LOCK}");
        raw.command::<()>(&["PUBLISH", &inbox, &forged]);
        assert_eq!(waiter.told().await, None, "{at}");
        assert!(matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    }
    // A lease that is longer than any handed-over lease ends as one of those would.
    let grant = soon(async {
        loop {
            let forged = format!("granted {owner} 7 7 3600000 {} 0 {LOCK}", micros());
            raw.command::<()>(&["PUBLISH", &inbox, &forged]);
            // On a busy machine a message may come too late.
            if let Some(grant) = waiter.told().await {
                return grant;
            }
        }
    })
    .await;
    assert!(grant.valid_until < other.clock().now() + Duration::from_secs(1));
}

#[tokio::test]
async fn a_message_that_comes_twice_is_told_once() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let mut held = claim("a");
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&other, claim("a")).await;
    let (inbox, owner) = (inbox(&mut raw), owner(&waiter));
    let before = micros();
    holder.release(&held).await.unwrap();
    let grant = waiter.gets_it().await;
    let (first, last) = (grant.tokens.first(), grant.tokens.last());
    let copy = format!("granted {owner} {first} {last} 1000 {before} 0 {LOCK}");
    raw.command::<()>(&["PUBLISH", &inbox, &copy]);
    waiter.release().await;
    assert_eq!(waiter.hint().await, Hint::Released);

    // The message is not believed when that owner waits again, either.
    held = claim("a");
    granted(&holder, &held).await;
    assert!(matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    raw.command::<()>(&["PUBLISH", &inbox, &copy]);
    assert_eq!(waiter.told().await, None);
    assert!(matches!(waiter.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
}

#[tokio::test]
async fn a_grant_whose_message_was_lost_is_found_by_asking() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let proxy = proxy_before(&server);
        let deaf = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        let holder = open(&server);
        let held = claim("a");
        granted(&holder, &held).await;
        let mut waiter = Waiter::queue(&deaf, claim("a")).await;
        // The message is on its way when the connection goes.
        proxy.silence(Direction::ToClient);
        holder.release(&held).await.unwrap();
        proxy.cut();
        proxy.pass();
        assert_eq!(waiter.hint().await, Hint::Resync, "{protocol:?}");
        let grant = soon(async {
            loop {
                match waiter.ask().await {
                    Ok(AcquireOutcome::Granted(grant)) => return grant,
                    Ok(other) => panic!("{other:?}"),
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(!is_over(&grant, &deaf));
        waiter.release().await;
    }
}

#[tokio::test]
async fn a_grant_that_no_client_claims_passes_on_in_time() {
    let server = Server::start();
    let (holder, sleeper, other) = (open(&server), open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let mut asleep = Waiter::queue(&sleeper, claim("a")).await;
    let awake = Waiter::queue_for(&other, claim("a"), millis(3_000)).await;
    holder.release(&held).await.unwrap();
    // To ask for the lease would be to claim it.
    let first = asleep.told().await;
    let begin = other.clock().now();
    let second = soon(async {
        loop {
            match awake.ask().await.unwrap() {
                AcquireOutcome::Granted(grant) => return grant,
                AcquireOutcome::Queued { retry_after } => {
                    tokio::time::sleep(retry_after.unwrap()).await
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    let took = other.clock().now().saturating_duration_since(begin);
    assert!(took < Duration::from_secs(5), "{took:?}");
    // On a busy machine the message may come too late to bring the grant.
    if let Some(first) = first {
        assert!(second.tokens.first() > first.tokens.last());
        assert!(is_over(&first, &sleeper));
    }
    let renewal = sleeper.renew(&Renew::new(asleep.claim().clone(), long())).await;
    assert!(matches!(renewal, Renewal::Lost));
}

#[tokio::test]
async fn a_handed_over_lease_is_kept_by_renewing_or_by_asking_again() {
    for renews in [true, false] {
        let mut is_kept = false;
        // If a message comes too late on a busy machine, the next one is another try.
        for _ in 0..10 {
            is_kept = is_kept || a_handed_over_lease_is_kept(renews).await;
        }
        assert!(is_kept, "no message came while most of the lease was left");
    }
}

/// Returns whether the message came while most of the lease was left.
async fn a_handed_over_lease_is_kept(renews: bool) -> bool {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    granted(&holder, &held).await;
    let mut waiter = Waiter::queue(&other, claim("a")).await;
    holder.release(&held).await.unwrap();
    let Some(pushed) = waiter.told().await else { return false };
    assert!(pushed.valid_until < other.clock().now() + Duration::from_secs(1));
    let until = if renews {
        match other.renew(&Renew::new(waiter.claim().clone(), long())).await {
            Renewal::Renewed { valid_until, .. } => valid_until,
            Renewal::Lost if is_over(&pushed, &other) => return false,
            other => panic!("{other:?}"),
        }
    } else {
        let grant = waiter.asks_and_has().await;
        if grant.tokens != pushed.tokens && is_over(&pushed, &other) {
            return false;
        }
        assert_eq!(grant.tokens, pushed.tokens);
        grant.valid_until
    };
    assert!(until > other.clock().now() + Duration::from_secs(50));
    assert!(server.client().command::<u64>(&["PTTL", LOCK]) > 50_000);
    waiter.release().await;
    let request = Acquire::new(held.clone(), long());
    assert!(matches!(holder.try_acquire(&request).await.unwrap(), AcquireOutcome::Granted(_)));
    true
}
