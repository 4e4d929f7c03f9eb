//! Faults of a server while two clients use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_core::ErrorKind;
use lock_redis::Protocol;
use lock_sync::{Handoff, LockError, LossReason, MutexGuard, TryLockError};
use lock_tests::{RedisServer, Worker, eventually, eventually_async, lock_worker};

use crate::support::{
    Denied, Excluding, Guard, LOCK, Leftovers, Pair, SOON, TheMutex, Traffic,
    assert_tokens_increase, client, for_all_that_excludes, soon, ttl_of, until_heard, waiting,
};

const TASKS: usize = 3;

for_all_that_excludes! {
    async:
    a_deleted_key_is_a_lost_lease_and_the_lease_after_it_stays
}

for_all_that_excludes! {
    async on two threads:
    a_quiet_server_counts_right
    scripts_may_be_flushed_under_load
    connections_may_be_killed_under_load
    the_server_may_stand_still_under_load
    tokens_increase_although_everything_is_flushed_under_load
    a_server_may_be_restarted_with_its_data_under_load
}

/// Does something to the server over and over under load. No task may hang or fail, and no count
/// may be wrong.
async fn under_load<X: Excluding>(protocol: Protocol, times: usize, act: impl Fn(&RedisServer)) {
    let pair = Pair::with(|redis| redis.protocol(protocol), |locks| locks);
    let (here, there) = pair.locks::<X>();
    let mut traffic = Traffic::start([here, there], TASKS);
    for _ in 0..times {
        traffic.goes_on().await;
        act(&pair.server);
    }
    traffic.goes_on().await;
    let tally = traffic.stop().await;
    assert_eq!(tally.counted, tally.turns, "{protocol:?}: updates were lost");
    assert_tokens_increase(&tally.grants);
    pair.server.assert_all_free();
}

async fn a_quiet_server_counts_right<X: Excluding>() {
    under_load::<X>(Protocol::Auto, 100, |_| {}).await;
}

async fn scripts_may_be_flushed_under_load<X: Excluding>() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let flush = |server: &RedisServer| drop(server.cli(&["SCRIPT", "FLUSH"]));
        under_load::<X>(protocol, 100, flush).await;
    }
}

async fn connections_may_be_killed_under_load<X: Excluding>() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        under_load::<X>(protocol, 4, |server| {
            eventually("there is a connection to kill", SOON, || server.client_kill_all() > 0);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_may_be_paused_under_load() {
    for mode in ["ALL", "WRITE"] {
        under_load::<TheMutex>(Protocol::Auto, 5, |server| {
            assert_eq!(server.cli(&["CLIENT", "PAUSE", "200", mode]).text(), "OK");
        })
        .await;
    }
}

async fn the_server_may_stand_still_under_load<X: Excluding>() {
    under_load::<X>(Protocol::Auto, 5, |server| {
        server.stop();
        std::thread::sleep(Duration::from_millis(100));
        server.cont();
    })
    .await;
}

/// Exclusion is not promised when the server forgets; the order of the tokens is promised.
async fn forgetful<X: Excluding>(times: usize, act: impl Fn(&RedisServer)) {
    // A task of a process may still get a token from the range of a lease that was forgotten. That
    // token is lower than those of other clients since then, and a resource that compares tokens
    // refuses it. Here every guard must have a lease of its own.
    let pair = Pair::with(|redis| redis, |locks| locks.handoff(Handoff::Never));
    let (here, there) = pair.locks::<X>();
    let mut traffic = Traffic::start([here, there], TASKS);
    for _ in 0..times {
        traffic.goes_on().await;
        act(&pair.server);
    }
    traffic.goes_on().await;
    let tally = traffic.stop().await;
    assert_tokens_increase(&tally.grants);
    pair.server.assert_all_free();
}

async fn tokens_increase_although_everything_is_flushed_under_load<X: Excluding>() {
    forgetful::<X>(50, RedisServer::flushall).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_increase_although_the_server_is_restarted_empty_under_load() {
    forgetful::<TheMutex>(5, RedisServer::restart).await;
}

async fn a_server_may_be_restarted_with_its_data_under_load<X: Excluding>() {
    let pair = Pair::of(
        RedisServer::builder().append_only().config("appendfsync", "always").start(),
        |redis| redis,
        |locks| locks,
    );
    let (here, there) = pair.locks::<X>();
    let mut traffic = Traffic::start([here, there], TASKS);
    for _ in 0..3 {
        traffic.goes_on().await;
        pair.server.restart();
    }
    traffic.goes_on().await;
    let tally = traffic.stop().await;
    assert_eq!(tally.counted, tally.turns, "updates were lost");
    assert_tokens_increase(&tally.grants);
}

#[test]
fn a_holder_that_was_forgotten_is_told_and_the_next_token_is_higher() {
    let ways: [fn(&RedisServer); 2] = [RedisServer::flushall, RedisServer::restart];
    for forget in ways {
        let server = RedisServer::start();
        let lease = Duration::from_secs(2);
        let holder = Worker::builder(lock_worker!()).ttl(lease).spawn(&server.url());
        let token = holder.lock("it");
        forget(&server);
        let next = Worker::spawn(lock_worker!(), &server.url());
        assert!(next.lock("it") > token);
        assert_eq!(holder.wait_for("lost it", SOON).token(), token);
        assert!(!holder.is_valid("it"));
        holder.send("unlock it");
        holder.wait_for("failed it", SOON);
        assert!(next.is_valid("it"));
        assert_eq!(holder.try_lock("it"), None);
    }
}

#[tokio::test]
async fn a_waiter_gets_in_when_the_server_comes_back_empty() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    let held = soon(there.lock()).await.unwrap();
    let token = MutexGuard::lease(&held).fencing_token();
    let waiting = waiting(&here);
    until_heard(&pair.server).await;
    // Without keyspace notifications only the end of the connection shows that the key is gone.
    pair.server.restart();
    assert!(waiting.served().await.fencing_token() > token);
}

#[tokio::test]
async fn a_paused_server_costs_a_typed_error_and_no_lease() {
    futures::future::join_all(["ALL", "WRITE"].map(go_on_after_a_pause)).await;
}

async fn go_on_after_a_pause(mode: &str) {
    // A busy server answers within the timeout. Two calls that fail end before the pause does.
    let lease = Duration::from_secs(15);
    let timeout = Duration::from_secs(1);
    let pair = Pair::with(|redis| redis.command_timeout(timeout), |locks| locks.ttl(lease));
    let (here, there) = pair.mutexes();
    let guard = soon(there.lock()).await.unwrap();
    let elsewhere = Arc::new(pair.here.mutex("elsewhere", ()).unwrap());
    let limited = pair.here.mutex("limited", ()).unwrap();
    assert!(matches!(soon(here.try_lock()).await, Err(TryLockError::WouldBlock)));
    let deadline = MutexGuard::lease(&guard).valid_until();
    pair.server.cli(&["CLIENT", "PAUSE", "9000", mode]);

    let error = soon(elsewhere.try_lock()).await.unwrap_err();
    let TryLockError::Backend(error) = error else { panic!("{mode}: {error:?}") };
    assert_eq!(error.kind(), ErrorKind::Timeout, "{mode}");
    let error = soon(limited.lock_timeout(timeout * 3)).await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { source: Some(_) }), "{mode}: {error:?}");

    // The waiter gets the lock when the pause is over, and the holder's renewal succeeds then.
    drop(soon(elsewhere.lock()).await.unwrap());
    eventually_async("it is renewed", SOON, async || {
        MutexGuard::lease(&guard).valid_until() > deadline
    })
    .await;
    assert!(MutexGuard::lease(&guard).is_valid(), "{mode}");
    soon(MutexGuard::release(guard)).await.unwrap();
    drop(soon(here.lock()).await.unwrap());
    pair.server.assert_all_free();
}

#[tokio::test]
async fn a_server_without_memory_refuses_newcomers_and_keeps_its_word_to_holders() {
    let server = RedisServer::builder().config("maxmemory-policy", "noeviction").start();
    let pair = Pair::of(server, |redis| redis, |locks| locks.ttl(Duration::from_secs(5)));
    let (here, there) = pair.mutexes();
    let guard = soon(there.lock()).await.unwrap();
    let deadline = MutexGuard::lease(&guard).valid_until();
    let elsewhere = pair.here.mutex("elsewhere", ()).unwrap();
    let patient = pair.here.mutex("patient", ()).unwrap();
    let limited = pair.here.mutex("limited", ()).unwrap();
    pair.server.cli(&["CONFIG", "SET", "maxmemory", "1"]);

    let full = |error: &lock_core::Error| error.kind() == ErrorKind::OutOfMemory;
    let error = soon(elsewhere.try_lock()).await.unwrap_err();
    assert!(matches!(&error, TryLockError::Backend(error) if full(error)), "{error:?}");
    let error = soon(limited.lock_timeout(Duration::from_secs(2))).await.unwrap_err();
    let why = |error| match error {
        LockError::Timeout { source: Some(error) } => full(&error),
        _ => false,
    };
    assert!(why(error.clone()), "{error:?}");
    let waiting = tokio::spawn(async move {
        patient
            .lock_timeout(Duration::from_secs(60))
            .await
            .map(|guard| MutexGuard::lease(&guard).fencing_token())
    });
    // A caller without a time limit gives up after the time of one lease.
    let error = soon(elsewhere.lock()).await.unwrap_err();
    assert!(matches!(&error, LockError::Backend(error) if full(error)), "{error:?}");
    assert_eq!(pair.server.locks(), [LOCK], "nothing is half granted");

    // Renewal and release need no memory.
    eventually_async("it is renewed", SOON, async || {
        MutexGuard::lease(&guard).valid_until() > deadline
    })
    .await;
    soon(MutexGuard::release(guard)).await.unwrap();
    assert_eq!(pair.server.locks(), Vec::<String>::new());

    pair.server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    soon(waiting).await.unwrap().unwrap();
    drop(soon(here.lock()).await.unwrap());
    pair.server.assert_all_free();
}

async fn a_deleted_key_is_a_lost_lease_and_the_lease_after_it_stays<X: Excluding>() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(Duration::from_secs(3)));
    let (here, there) = pair.locks::<X>();
    let guard = soon(there.take()).await.unwrap();
    pair.server.cli(&["DEL", LOCK]);
    let begin = Instant::now();
    let other = X::of(&client(pair.server.url()));
    let newer = soon(other.take()).await.unwrap();
    assert!(newer.fencing_token() > guard.fencing_token());
    assert_eq!(soon(guard.lost()).await.reason(), LossReason::Revoked);
    assert!(begin.elapsed() < SOON);
    drop(guard);
    // On the way that the late release took, or would have taken.
    assert!(matches!(soon(there.try_take()).await, Err(Denied::WouldBlock)));
    assert!(matches!(soon(here.try_take()).await, Err(Denied::WouldBlock)));
    assert!(newer.is_valid() && ttl_of(&pair.server, LOCK).is_some());
}
