//! Token numbers, and their order when the server forgets.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ErrorKind, FencingToken, Grant, Mode, Renew, Renewal,
};
use lock_redis::RedisBackend;

use crate::support::{Server, attempt, claim, granted, long, soon, state_after};

const LOCK: &str = "lock:{a}";
const FENCE: &str = "lock:{a}:state";
const HOUR: Duration = Duration::from_secs(3600);

/// The floor of tokens at this time.
fn floor() -> u64 {
    FencingToken::floor(SystemTime::now().duration_since(UNIX_EPOCH).unwrap()).get()
}

async fn reserved(backend: &RedisBackend, claim: &Claim, count: u32) -> Grant {
    let count = NonZeroU32::new(count).unwrap();
    let request = Acquire::new(claim.clone(), long()).reserving(count);
    match backend.try_acquire(&request).await.unwrap() {
        AcquireOutcome::Granted(grant) => grant,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// Takes the lock and releases it.
async fn passing(backend: &RedisBackend, count: u32) -> Grant {
    let claim = claim("a");
    let grant = reserved(backend, &claim, count).await;
    backend.release(&claim).await.unwrap();
    grant
}

#[tokio::test]
async fn tokens_follow_the_servers_clock() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    // The server tells the time in whole microseconds.
    let before = floor() - 4;
    let token = passing(&backend, 1).await.tokens.first().get();
    assert!(token >= before && token <= floor(), "{token}");
}

#[tokio::test]
async fn tokens_increase_after_flushall_and_restart() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let mut last = passing(&backend, 1).await.tokens.last();
    for _ in 0..20 {
        let range = passing(&backend, 30).await.tokens;
        assert!(range.first() > last);
        server.client().command::<()>(&["FLUSHALL"]);
        let after = passing(&backend, 30).await.tokens;
        assert!(after.first() > range.last());
        last = after.last();
    }

    server.restart();
    let third = soon(async {
        loop {
            let claim = claim("a");
            match attempt(&backend, &claim).await {
                Ok(AcquireOutcome::Granted(grant)) => return grant.tokens,
                Ok(other) => panic!("{other:?}"),
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    })
    .await;
    assert!(third.first() > last);
}

#[tokio::test]
async fn a_range_never_runs_ahead_of_the_clock() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    passing(&backend, 1).await;
    for _ in 0..1_000 {
        let range = passing(&backend, u32::MAX).await.tokens;
        assert!(range.last().get() <= floor());
    }
}

/// Large ranges, as fast as they come, from tasks of two clients, while the server forgets
/// everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_increase_although_the_server_forgets() {
    const TASKS: u32 = 6;
    const ROUNDS: u32 = 500;
    let server = Server::start();
    let clients = [0, 1].map(|_| RedisBackend::open(server.url()).unwrap());
    // The holder notes its tokens before another client can get the lock.
    let (highest, grants) = (AtomicU64::new(0), AtomicU32::new(0));
    let contend = async |task: u32| {
        let backend = &clients[task as usize % clients.len()];
        for round in 0..ROUNDS {
            let claim = claim("a");
            let request = Acquire::new(claim.clone(), long()).reserving(NonZeroU32::MAX);
            let tokens = loop {
                match backend.try_acquire(&request).await.unwrap() {
                    AcquireOutcome::Granted(grant) => break grant.tokens,
                    _ => tokio::task::yield_now().await,
                }
            };
            let before = highest.swap(tokens.last().get(), Ordering::SeqCst);
            assert!(tokens.first().get() > before, "{tokens:?} after {before}");
            grants.fetch_add(1, Ordering::SeqCst);
            if round % 50 == task {
                // That also releases the lock.
                server.client().command::<()>(&["FLUSHALL"]);
            } else {
                backend.release(&claim).await.unwrap();
            }
        }
    };
    futures::future::join_all((0..TASKS).map(contend)).await;
    assert_eq!(grants.into_inner(), TASKS * ROUNDS);
}

#[tokio::test]
async fn a_range_takes_the_time_that_has_gone_by() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let first = passing(&backend, 1_000).await.tokens;
    assert_eq!(first.count().get(), 1, "nothing is remembered yet");
    tokio::time::sleep(Duration::from_millis(2)).await;
    let range = passing(&backend, 1_000).await.tokens;
    assert_eq!(range.count().get(), 1_000);
    assert!(range.first() > first.last() && range.last().get() <= floor());
    // But at most ten milliseconds of it.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let range = passing(&backend, u32::MAX).await.tokens;
    assert_eq!(range.count().get(), 40_000);
}

#[tokio::test]
async fn a_fence_that_is_ahead_still_counts_up_one_by_one() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let mut raw = server.client();
    let ahead = floor() + 4 * HOUR.as_micros() as u64;
    raw.command::<()>(&["SET", FENCE, &state_after(ahead)]);
    for offset in 1..4 {
        let tokens = passing(&backend, 64).await.tokens;
        assert_eq!((tokens.first().get(), tokens.count().get()), (ahead + offset, 1));
    }
    // The state lives until the clock has caught up, and an hour more.
    assert!(raw.command::<u64>(&["PTTL", FENCE]) > 2 * HOUR.as_millis() as u64);
}

#[tokio::test]
async fn a_fence_outlives_its_lease() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    passing(&backend, 1).await;
    let left = server.client().command::<u64>(&["PTTL", FENCE]);
    assert!(left > HOUR.as_millis() as u64 && left < 2 * HOUR.as_millis() as u64, "{left}");
}

#[tokio::test]
async fn a_holder_whose_fence_is_gone_gets_higher_tokens() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let claim = claim("a");
    let before = granted(&backend, &claim).await;
    let mut raw = server.client();
    raw.command::<()>(&["DEL", FENCE]);
    raw.command::<()>(&["PEXPIRE", LOCK, "20000"]);
    let again = granted(&backend, &claim).await;
    assert!(again.tokens.first() > before.tokens.last());
    // The lease was extended to the requested time, and the answer says so.
    assert!(raw.command::<u64>(&["PTTL", LOCK]) > 20_000);
    let validity = again.valid_until.saturating_duration_since(backend.clock().now());
    assert!(
        validity > Duration::from_secs(20) && validity < Duration::from_secs(60),
        "{validity:?}"
    );
    assert_eq!(granted(&backend, &claim).await.tokens, again.tokens);
}

#[tokio::test]
async fn a_fence_that_makes_no_sense_grants_nothing() {
    let server = Server::start();
    let backend = RedisBackend::open(server.url()).unwrap();
    let mut raw = server.client();
    let used_up = state_after(9_007_199_254_740_991);
    for nonsense in ["x", "", "1", "-1 2", "1 2", &used_up] {
        raw.command::<()>(&["SET", FENCE, nonsense]);
        let error = attempt(&backend, &claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{nonsense}");
        assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
    }
    raw.command::<()>(&["DEL", FENCE]);
    raw.command::<()>(&["RPUSH", FENCE, "x"]);
    let error = attempt(&backend, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
    assert!(!raw.command::<bool>(&["EXISTS", LOCK]));
}

#[tokio::test]
async fn ranges_of_renewals_overlap_with_none() {
    let server = Server::start();
    let (one, other) =
        (RedisBackend::open(server.url()).unwrap(), RedisBackend::open(server.url()).unwrap());
    for mode in [Mode::Exclusive, Mode::Shared] {
        let held = claim("a").in_mode(mode);
        let grant = granted(&one, &held).await;
        let mut highest = grant.tokens.last();
        for _ in 0..20 {
            // Each asks for all the time since the previous one.
            let renew = Renew::new(held.clone(), long()).reserving(u32::MAX);
            let Renewal::Renewed { tokens: Some(tokens), .. } = one.renew(&renew).await else {
                panic!("a renewal brought no tokens");
            };
            assert!(tokens.first() > highest, "{mode:?}: {tokens:?} begins below {highest}");
            assert!(tokens.last().get() <= floor());
            highest = tokens.last();
        }
        assert_eq!(granted(&one, &held).await.tokens, grant.tokens);
        one.release(&held).await.unwrap();
        let next = reserved(&other, &claim("a"), u32::MAX).await;
        assert!(next.tokens.first() > highest);
        server.client().command::<()>(&["DEL", LOCK]);
    }
}
