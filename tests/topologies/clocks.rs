//! A server takes over whose clock is ahead, or behind.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Clock, FencingToken, Grant, Instant, Ttl};
use lock_redis::RedisBackend;
use lock_tests::{SOON, Sentinels, ServerClock, eventually};

use crate::support::claim;

const PATIENCE: Duration = Duration::from_millis(500);
/// Longer than a failover takes, and shorter than clocks differ.
const LEASE: Duration = Duration::from_secs(12);
const LIMIT: Duration = Duration::from_secs(60);

/// A lock that was taken before a failover, and never released.
struct TakenOver {
    /// The token of the holder.
    token: FencingToken,
    /// The next grant.
    next: Grant,
    /// How long after the first grant that was.
    waited: Duration,
}

/// The holder of a lock crashes together with the primary. The replica that takes over has a clock that is ahead by
/// this many milliseconds, and has all data.
async fn take_over(ahead: i64, quarantine: bool) -> TakenOver {
    let clock = ServerClock::new();
    assert!(clock.is_real(), "the clock of the server cannot be set here");
    let begun = AtomicUsize::new(0);
    let deployment = Sentinels::of(1, 3, PATIENCE, |server| {
        // The second server is the replica.
        if begun.fetch_add(1, Ordering::Relaxed) == 1 { clock.options(server) } else { server }
    });
    let [primary, replica] = deployment.servers() else { panic!() };
    clock.jump(replica, ahead);
    eventually("the replica tells its new time", SOON, || clock.is_told_by(replica));
    let client = || {
        let builder = RedisBackend::builder(deployment.url()).command_timeout(SOON);
        builder.term_quarantine(quarantine).build().unwrap()
    };
    let request = |ttl| Acquire::new(claim("a"), Ttl::new(ttl).unwrap());
    let since = Clock::boot().now();
    let holder = client().try_acquire(&request(LEASE)).await.unwrap();
    let AcquireOutcome::Granted(grant) = holder else { panic!("{holder:?}") };
    tokio::task::block_in_place(|| {
        eventually("the replica has the lock", LIMIT, || {
            primary.cli(&["SET", "marker", "1"]);
            primary.cli(&["WAIT", "1", "1000"]).int() == 1
        });
        primary.kill();
        deployment.replaces(0);
    });
    let next = granted_again(&client(), &request(LEASE), since).await;
    let waited = Clock::boot().now().saturating_duration_since(since);
    TakenOver { token: grant.tokens.last(), next, waited }
}

/// The next grant of a lock that was granted at `since`, and whose primary has been replaced.
async fn granted_again(other: &RedisBackend, request: &Acquire, since: Instant) -> Grant {
    let elapsed = || Clock::boot().now().saturating_duration_since(since);
    // A failover may be slow on a busy machine, and is no part of what is limited here.
    let replaced = elapsed();
    // A quarantine begins once the lease is over by the clock of the new primary, and takes as long as the lease.
    while elapsed() < replaced + LIMIT {
        match other.try_acquire(request).await {
            Ok(AcquireOutcome::Granted(next)) => return next,
            Ok(_) => {}
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let answer = other.try_acquire(request).await;
    panic!(
        "the primary was replaced after {replaced:?}; after {:?} it answers {answer:?}",
        elapsed()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_ends_no_lease_early() {
    let TakenOver { token, next, waited } = take_over(3_600_000, true).await;
    assert!(waited >= LEASE, "the lock was given away after {waited:?}");
    assert!(next.tokens.first() > token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_quarantine_a_clock_that_is_ahead_ends_a_lease_early() {
    // On a busy machine a failover may take longer than the lease.
    for _ in 0..3 {
        if take_over(3_600_000, false).await.waited < LEASE {
            return;
        }
    }
    panic!("the test proves nothing: the lock was never given away early");
}

/// The lease ends late, by the clock of the new primary. Tokens go on from those of the old one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_behind_sets_no_token_back() {
    let TakenOver { token, next, waited } = take_over(-5_000, true).await;
    assert!(waited >= LEASE, "the lock was given away after {waited:?}");
    assert!(next.tokens.first() > token, "{next:?} after {token}");
}
