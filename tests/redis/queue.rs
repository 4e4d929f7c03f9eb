//! The queue on the server: which claim is served, when, and what stays behind.

use lock_core::{
    Acquire, AcquireOutcome, Backend, Contention, ErrorKind, Hint, Key, Mode, Released,
};
use lock_core::{Renew, Renewal};
use lock_redis::{Notifications, Protocol, RedisBackend};

use crate::support::{
    Client, Server, Waiter, attempt, calls, claim, granted, keys, long, millis, open, refused, soon,
};

const LOCK: &str = "lock:{a}";
const QUEUE: &str = "lock:{a}:queue";
/// The keys of an unused semaphore.
const LEFT: [&str; 2] = ["lock:{a}:limit", "lock:{a}:state"];

fn length(raw: &mut Client) -> usize {
    raw.command(&["LLEN", QUEUE])
}

/// The first hint that is about neither a grant to the waiter nor its lease.
async fn news_of_others(waiter: &mut Waiter) -> Hint {
    loop {
        match waiter.hint().await {
            Hint::Granted { .. } | Hint::Contended => {}
            other => return other,
        }
    }
}

#[tokio::test]
async fn a_line_is_served_with_one_command_and_one_message_each() {
    let server = Server::with(&["--notify-keyspace-events", "AK"]);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let build = || RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (build(), build());
        let first = claim("a");
        let mut before = granted(&holder, &first).await.tokens;
        let mut line = Vec::new();
        for backend in [&other, &holder, &other] {
            line.push(Waiter::queue(backend, claim("a")).await);
        }
        let mut raw = server.client();
        let channels = raw.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:inbox:*"]);
        assert_eq!(channels.len(), 2);
        let before_line = calls(&mut raw, "evalsha");
        let mut late = 0;
        assert_eq!(holder.release(&first).await.unwrap(), Released::Freed { told: 0 });
        for (index, waiter) in line.iter_mut().enumerate() {
            let told = waiter.told().await;
            // On a busy machine a message may come too late to bring the grant.
            late += u64::from(told.is_none());
            let grant = match told {
                Some(grant) => grant,
                None => waiter.asks_and_has().await,
            };
            assert!(grant.tokens.first() > before.last());
            before = grant.tokens;
            let expected = if index == 2 { Contention::Quiet } else { Contention::Contended };
            assert_eq!(grant.contention, expected);
            waiter.release().await;
        }
        let asked = calls(&mut raw, "evalsha") - before_line;
        assert_eq!(asked, 4 + late, "one release for each holder, and nothing else");
        assert!(late <= 1, "{late} messages brought no grant");
        // No client heard that the lock was free before it was.
        for waiter in &mut line {
            assert_eq!(soon(news_of_others(waiter)).await, Hint::Released, "{protocol:?}");
        }
        assert_eq!(keys(&mut raw), ["lock:{a}:state"]);
    }
}

#[tokio::test]
async fn only_the_fence_and_the_limit_stay_behind() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let permits = |take| Mode::Permits { take, of: 3 };
    let writer = claim("a");
    granted(&one, &writer).await;
    let mut readers = Vec::new();
    for mode in [Mode::Shared, Mode::Upgradable, Mode::Shared] {
        readers.push(Waiter::queue(&other, claim("a").in_mode(mode)).await);
    }
    let mut workers = Vec::new();
    for take in [2, 1, 3] {
        workers.push(Waiter::queue(&one, claim("a").in_mode(permits(take))).await);
    }
    one.release(&writer).await.unwrap();
    for reader in &mut readers {
        // The workers still wait.
        assert_eq!(reader.gets_it().await.contention, Contention::Contended);
    }
    assert_eq!(length(&mut raw), 3);
    for reader in &readers {
        assert!(matches!(reader.release().await, Released::Freed { .. }));
    }
    // A script for readers knows nothing of permits, so it makes the first claim that wants some ask.
    assert_eq!(workers[0].told().await, None);
    workers[0].asks_and_has().await;
    workers[1].gets_it().await;
    assert_eq!(length(&mut raw), 1);
    for worker in &workers[..2] {
        worker.release().await;
    }
    workers[2].gets_it().await;
    workers[2].release().await;
    // A claim that gives up leaves nothing either.
    granted(&one, &writer).await;
    let waiter = Waiter::queue(&other, claim("a")).await;
    assert_eq!(waiter.release().await, Released::NotHeld);
    one.release(&writer).await.unwrap();
    assert_eq!(keys(&mut raw), LEFT);
}

#[tokio::test]
async fn everything_ends_by_itself() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let shared = claim("a").in_mode(Mode::Shared);
    granted(&one, &shared).await;
    let _waiter = Waiter::queue(&other, claim("a")).await;
    let mut raw = server.client();
    let all = keys(&mut raw);
    assert_eq!(all.len(), 6, "{all:?}");
    for key in all {
        let left = raw.command::<i64>(&["PTTL", &key]);
        assert!(left > 0 && left < 2 * 60 * 60 * 1000, "{key} lives for {left} ms");
    }
}

#[tokio::test]
async fn a_queue_that_is_full_says_so() {
    let server = Server::start();
    let holder = open(&server);
    let waiter = RedisBackend::builder(server.url()).queue_limit(2).build().unwrap();
    granted(&holder, &claim("a")).await;
    let _first = Waiter::queue(&waiter, claim("a")).await;
    let second = Waiter::queue(&waiter, claim("a")).await;
    let request = Acquire::new(claim("a"), long()).queued();
    let error = waiter.try_acquire(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueueFull);
    assert!(error.to_string().contains("2 wait for the key already"), "{error}");
    // The existing claims stay, and a place that becomes free can be taken.
    assert!(matches!(second.ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    second.release().await;
    assert!(matches!(waiter.try_acquire(&request).await.unwrap(), AcquireOutcome::Queued { .. }));
}

#[tokio::test]
async fn a_client_without_a_queue_is_refused_and_does_not_overtake() {
    let server = Server::start();
    let (holder, polite) = (open(&server), open(&server));
    let mute = RedisBackend::builder(server.url()).queue_limit(0).build().unwrap();
    let held = claim("a");
    granted(&holder, &held).await;
    let _watch = mute.watch(&held.key).await.unwrap();
    let request = Acquire::new(claim("a"), long()).queued();
    assert!(matches!(mute.try_acquire(&request).await.unwrap(), AcquireOutcome::Busy { .. }));
    let mut waiter = Waiter::queue(&polite, claim("a")).await;
    server.client().command::<()>(&["DEL", LOCK]);
    // The key is free, but it is the turn of a waiting claim. So that claim gets the lock.
    assert!(matches!(mute.try_acquire(&request).await.unwrap(), AcquireOutcome::Busy { .. }));
    waiter.gets_it().await;
}

#[tokio::test]
async fn all_waiters_respect_a_foreign_holder() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let mut raw = server.client();
    let mut line = Vec::new();
    granted(&one, &claim("a")).await;
    for backend in [&one, &other] {
        line.push(Waiter::queue(backend, claim("a")).await);
    }
    raw.command::<()>(&["DEL", LOCK]);
    raw.command::<()>(&["SET", LOCK, "theirs", "NX", "PX", "60000"]);
    for waiter in &line {
        let AcquireOutcome::Queued { retry_after } = waiter.ask().await.unwrap() else { panic!() };
        assert!(retry_after.unwrap() <= long().for_place().duration() / 3);
    }
    refused(&one, &claim("a")).await;
    assert_eq!(raw.command::<String>(&["GET", LOCK]), "theirs");
    raw.command::<()>(&["DEL", LOCK]);
    // Whichever client asks next, the first claim in the queue gets the lock.
    assert!(matches!(line[1].ask().await.unwrap(), AcquireOutcome::Queued { .. }));
    line[0].gets_it().await;
}

#[tokio::test]
async fn a_holder_learns_of_contention_and_of_its_end() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let held = claim("a");
    let mut watch = holder.watch(&held.key).await.unwrap();
    let contention_of = |renewal| match renewal {
        Renewal::Renewed { contention, .. } => contention,
        other => panic!("{other:?}"),
    };
    assert_eq!(granted(&holder, &held).await.contention, Contention::Quiet);
    let waiter = Waiter::queue(&other, claim("a")).await;
    assert_eq!(soon(watch.next()).await, Some(Hint::Contended));
    assert_eq!(
        contention_of(holder.renew(&Renew::new(held.clone(), long())).await),
        Contention::Contended
    );
    waiter.release().await;
    // Another client renews, so that it hears from now on; and a client that does not watch does not
    // hear.
    let mut beside = other.watch(&held.key).await.unwrap();
    assert_eq!(
        contention_of(other.renew(&Renew::new(held.clone(), long())).await),
        Contention::Quiet
    );
    let third = open(&server);
    assert_eq!(
        contention_of(third.renew(&Renew::new(held.clone(), long())).await),
        Contention::Unknown
    );
    let _waiter = Waiter::queue(&holder, claim("a")).await;
    assert_eq!(soon(beside.next()).await, Some(Hint::Contended));
}

#[tokio::test]
async fn the_fence_of_a_lease_that_is_renewed_for_long_stays() {
    let server = Server::start();
    let holder = open(&server);
    let held = claim("a");
    let _watch = holder.watch(&held.key).await.unwrap();
    granted(&holder, &held).await;
    let mut raw = server.client();
    raw.command::<()>(&["PEXPIRE", "lock:{a}:state", "5000"]);
    assert!(matches!(
        holder.renew(&Renew::new(held.clone(), long())).await,
        Renewal::Renewed { contention: Contention::Quiet, .. }
    ));
    assert!(raw.command::<u64>(&["PTTL", "lock:{a}:state"]) > 60_000);
}

#[tokio::test]
async fn another_number_of_permits_is_a_mistake_that_names_both() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let permits = |of| claim("a").in_mode(Mode::Permits { take: 1, of });
    granted(&one, &permits(5)).await;
    let error = attempt(&other, &permits(3)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains('3') && error.to_string().contains('5'), "{error}");
    assert!(matches!(attempt(&other, &claim("a")).await.unwrap(), AcquireOutcome::Busy { .. }));
}

/// Two hundred thousand other keys with a time to live keep a server from noticing that the lease is
/// over.
#[tokio::test]
async fn a_full_database_delays_no_waiter() {
    const FILL: &str = "for n = 1, 200000 do redis.call('SET', 'other:' .. n, 'x', 'EX', 3600) end";
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let (holder, other) = (open(&server), open(&server));
    let mut raw = server.client();
    raw.command::<()>(&["EVAL", FILL, "0"]);
    let held = claim("a");
    assert!(matches!(
        holder.try_acquire(&Acquire::new(held.clone(), millis(2_000))).await.unwrap(),
        AcquireOutcome::Granted(_)
    ));
    let mut first = Waiter::queue(&other, claim("a")).await;
    let mut second = Waiter::queue(&holder, claim("a")).await;
    // No owner releases. A waiter that waits for the time in the answer gets the lock, and no later.
    let begin = std::time::Instant::now();
    let grant = soon(async {
        loop {
            match first.ask().await.unwrap() {
                AcquireOutcome::Granted(grant) => return grant,
                AcquireOutcome::Queued { retry_after } => {
                    tokio::time::sleep(retry_after.unwrap()).await;
                }
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
    assert!(begin.elapsed() < millis(5_000).duration(), "{:?}", begin.elapsed());
    assert_eq!(grant.contention, Contention::Contended);
    first.release().await;
    second.gets_it().await;
    second.release().await;
    assert!(raw.command::<u64>(&["DBSIZE"]) > 200_000);
    while first.hint().await != Hint::Released {}
}

#[tokio::test]
async fn a_key_of_another_prefix_is_waited_for_as_well() {
    let server = Server::start();
    for key in [Key::raw("jobs nightly {x}\r\n").unwrap(), Key::new(b"\0 \xff").unwrap()] {
        let build = || {
            let builder = RedisBackend::builder(server.url()).prefix("my app: 7 ");
            builder.notifications(Notifications::Off).build().unwrap()
        };
        let (one, other) = (build(), build());
        let claim = || crate::support::claim_of(key.clone());
        let held = claim();
        granted(&one, &held).await;
        let mut waiter = Waiter::queue(&other, claim()).await;
        one.release(&held).await.unwrap();
        waiter.told().await.expect("the clocks were compared");
        // A second turn, with an inbox record whose name has spaces and a number.
        let again = Waiter::queue(&one, claim()).await;
        assert_eq!(waiter.asks_and_has().await.contention, Contention::Contended);
        waiter.release().await;
        again.asks_and_has().await;
        again.release().await;
    }
}

#[tokio::test]
async fn a_run_that_is_longer_than_one_call_may_serve_is_granted_in_full() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let build = || RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (build(), build());
        let writer = claim("a");
        granted(&holder, &writer).await;
        let mut readers = Vec::new();
        for _ in 0..80 {
            readers.push(Waiter::queue(&other, claim("a").in_mode(Mode::Shared)).await);
        }
        holder.release(&writer).await.unwrap();
        for reader in &mut readers {
            // The last claim of each run hears that it may ask, and its request serves the next
            // claims.
            if reader.told().await.is_none() {
                reader.asks_and_has().await;
            }
        }
        for reader in &readers {
            reader.release().await;
        }
        assert_eq!(keys(&mut server.client()), ["lock:{a}:state"]);
    }
}
