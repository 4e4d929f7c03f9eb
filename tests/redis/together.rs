//! Several locks in one step.

use std::num::NonZeroU32;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Contention, ErrorKind, Hint, Key, Mode, TokenRange,
};
use lock_redis::RedisBackend;

use crate::support::{
    Server, Waiter, claim, claim_of, granted, long, millis, open, proxy_before, refused, soon,
};

fn asks(claims: &[Claim]) -> Vec<Acquire> {
    claims.iter().map(|claim| Acquire::new(claim.clone(), long())).collect()
}

async fn attempt(backend: &RedisBackend, claims: &[Claim]) -> Vec<AcquireOutcome> {
    let attempts = backend.try_acquire_all(&asks(claims)).await.unwrap();
    attempts.expect("these can be asked for together")
}

async fn all_granted(backend: &RedisBackend, claims: &[Claim]) -> Vec<TokenRange> {
    let attempts = attempt(backend, claims).await.into_iter().map(|attempt| match attempt {
        AcquireOutcome::Granted(grant) => grant.tokens,
        other => panic!("expected a grant, got {other:?}"),
    });
    attempts.collect()
}

#[tokio::test]
async fn as_many_as_64_are_one_script_and_no_more() {
    let server = Server::start();
    let backend = open(&server);
    let claims = (0..65).map(|number| claim(format!("lock {number}"))).collect::<Vec<_>>();
    all_granted(&backend, &claims[..64]).await;
    for claim in &claims[..64] {
        refused(&backend, &claim_of(claim.key.clone())).await;
        backend.release(claim).await.unwrap();
    }
    for odd in [&claims[..65], &claims[..1], &[]] {
        assert_eq!(backend.try_acquire_all(&asks(odd)).await.unwrap(), None);
    }
    let reader = [claims[0].clone(), claims[1].clone().in_mode(Mode::Shared)];
    assert_eq!(backend.try_acquire_all(&asks(&reader)).await.unwrap(), None);
    let mut raw = server.client();
    let keys = raw.command::<Vec<String>>(&["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.ends_with(":state")), "{keys:?}");
}

#[tokio::test]
async fn one_that_is_not_to_be_had_keeps_all_the_others_free() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let claims = ["a", "b", "c", "d", "e"].map(claim);
    granted(&other, &claim("b")).await;
    granted(&other, &claim("c").in_mode(Mode::Shared)).await;
    let mut raw = server.client();
    raw.command::<()>(&["SET", "lock:{d}", "theirs"]);
    let told = attempt(&one, &claims).await.into_iter().map(|attempt| match attempt {
        AcquireOutcome::Busy { retry_after } => retry_after.is_some(),
        other => panic!("expected a refusal, got {other:?}"),
    });
    assert_eq!(told.collect::<Vec<_>>(), [false, true, true, false, false]);
    for free in ["a", "e"] {
        granted(&other, &claim(free)).await;
    }
    assert_eq!(raw.command::<String>(&["GET", "lock:{d}"]), "theirs");
}

#[tokio::test]
async fn a_repetition_returns_the_same_grants() {
    let server = Server::start();
    let backend = open(&server);
    let claims = ["a", "b"].map(claim);
    let _watch = backend.watch(&claims[0].key).await.unwrap();
    let tokens = all_granted(&backend, &claims).await;
    let mut raw = server.client();
    raw.command::<()>(&["PEXPIRE", "lock:{a}", "20000"]);
    raw.command::<()>(&["PEXPIRE", "lock:{b}", "100000"]);
    raw.command::<()>(&["DEL", "lock:{b}:state"]);
    let again = attempt(&backend, &claims).await;
    let [AcquireOutcome::Granted(one), AcquireOutcome::Granted(other)] = &again[..] else {
        panic!("{again:?}");
    };
    assert_eq!(one.tokens, tokens[0]);
    assert!(other.tokens.first() > tokens[1].last());
    assert_eq!((one.contention, other.contention), (Contention::Quiet, Contention::Unknown));
    assert!(raw.command::<i64>(&["PTTL", "lock:{a}"]) > 50_000);
    assert!(raw.command::<i64>(&["PTTL", "lock:{b}"]) > 60_000);
    // A lock that was held before stays held when the others are not free.
    let more = [claims[0].clone(), claim("b")];
    assert!(matches!(
        attempt(&backend, &more).await[..],
        [AcquireOutcome::Busy { .. }, AcquireOutcome::Busy { .. }]
    ));
    refused(&backend, &claim("a")).await;
}

#[tokio::test]
async fn a_holder_of_several_locks_hears_of_contention_for_each() {
    let server = Server::start();
    let (holder, other) = (open(&server), open(&server));
    let claims = ["a", "b"].map(claim);
    let mut watches = Vec::new();
    for claim in &claims {
        watches.push(holder.watch(&claim.key).await.unwrap());
    }
    let requests = asks(&claims).into_iter().map(|it| it.reserving(NonZeroU32::new(7).unwrap()));
    let requests = requests.collect::<Vec<_>>();
    holder.try_acquire_all(&requests).await.unwrap().unwrap();
    let mut line = Vec::new();
    for (name, watch) in ["a", "b"].into_iter().zip(&mut watches) {
        line.push(Waiter::queue(&other, claim(name)).await);
        assert_eq!(soon(watch.next()).await, Some(Hint::Contended));
    }
    for (waiter, claim) in line.iter_mut().zip(&claims) {
        holder.release(claim).await.unwrap();
        waiter.gets_it().await;
    }
}

#[tokio::test]
async fn places_of_dead_clients_delay_no_request() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let holder = claim("b");
    granted(&one, &holder).await;
    let short = millis(100);
    let mut dead = Waiter::queue_for(&other, claim("b"), short).await;
    // Overwritten, as by a foreign client, so that no script serves the queue.
    let mut raw = server.client();
    raw.command::<()>(&["DEL", "lock:{b}"]);
    let claims = ["a", "b"].map(claim);
    let [
        AcquireOutcome::Busy { retry_after: None },
        AcquireOutcome::Busy { retry_after: Some(after) },
    ] = attempt(&one, &claims).await[..]
    else {
        panic!("a claim was overtaken");
    };
    assert!(after >= short.duration());
    assert_eq!(dead.told().await, None, "it was not told to ask");
    tokio::time::sleep(short.for_place().duration() + millis(20).duration()).await;
    all_granted(&one, &claims).await;
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{b}:queue"]));
}

#[tokio::test]
async fn one_lock_named_twice_is_a_mistake() {
    let server = Server::start();
    let backend = open(&server);
    let exact = claim_of(Key::raw("lock:{a}").unwrap());
    for twice in [[claim("a"), claim("a")], [claim("a"), exact]] {
        let error = backend.try_acquire_all(&asks(&twice)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
}

#[tokio::test]
async fn what_goes_wrong_with_one_grants_none() {
    let server = Server::start();
    let backend = open(&server);
    let mut raw = server.client();
    raw.command::<()>(&["SET", "lock:{b}:state", "nonsense"]);
    let claims = ["a", "b", "c"].map(claim);
    let error = backend.try_acquire_all(&asks(&claims)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
    for lock in ["lock:{a}", "lock:{b}", "lock:{c}"] {
        assert!(!raw.command::<bool>(&["EXISTS", lock]));
    }
    raw.command::<()>(&["DEL", "lock:{b}:state"]);
    raw.command::<()>(&["RPUSH", "lock:{c}", "x"]);
    let error = backend.try_acquire_all(&asks(&claims)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{a}"]));
}

#[tokio::test]
async fn places_of_clients_that_do_not_listen_delay_no_request() {
    let server = Server::start();
    let one = open(&server);
    granted(&one, &claim("b")).await;
    let proxy = proxy_before(&server);
    let gone = RedisBackend::open(proxy.url()).unwrap();
    let _waiter = Waiter::queue(&gone, claim("b")).await;
    let mut raw = server.client();
    raw.command::<()>(&["DEL", "lock:{b}"]);
    proxy.cut_off();
    soon(async {
        while !raw.command::<Vec<String>>(&["PUBSUB", "CHANNELS", "lock:inbox:*"]).is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    })
    .await;
    all_granted(&one, &["a", "b"].map(claim)).await;
}
