//! A server that cannot be reached.

use std::time::{Duration, Instant};

use lock_core::{Clock, Error, ErrorKind};
use lock_redis::RedisBackend;
use lock_sync::{LockError, Locks, LossReason, MutexGuard, TryLockError};
use lock_tests::{Direction, Proxy, RedisServer, eventually_async};

use crate::support::{
    Denied, Excluding, Guard, LOCK, Leftovers, SOON, client, client_with, for_all_that_excludes,
    soon, ttl_of, until_heard,
};

/// The ways in which the link to a server may break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// Connections are reset, and new ones are refused.
    Refused,
    /// No byte passes any more, and no side gets an error.
    Silent,
    /// Requests arrive, but no reply does.
    Mute,
}

const BREAKS: [Break; 3] = [Break::Refused, Break::Silent, Break::Mute];

/// A server, and a client that reaches it only through a proxy.
struct Far {
    server: RedisServer,
    proxy: Proxy,
    here: Locks<RedisBackend>,
}

impl Far {
    fn with_lease(lease: Duration) -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::before(&server);
        // Longer than a busy server takes to answer.
        let timeout = Duration::from_secs(1);
        let here = client_with(
            proxy.url(),
            |redis| redis.command_timeout(timeout).connect_timeout(timeout),
            |locks| locks.ttl(lease),
        );
        Self { server, proxy, here }
    }

    fn cut_off(&self, how: Break) {
        match how {
            Break::Refused => {
                self.proxy.refuse();
                self.proxy.cut();
            }
            Break::Silent => {
                self.proxy.silence(Direction::ToServer);
                self.proxy.silence(Direction::ToClient);
            }
            Break::Mute => self.proxy.silence(Direction::ToClient),
        }
    }

    fn heal(&self) {
        // The bytes under way are lost, as when a broken network comes back.
        self.proxy.cut();
        self.proxy.pass();
    }
}

/// Whether an error names the problem: a connection that never answers is given up after a while,
/// and from then on there is none.
fn tells(how: Break, error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Unreachable => true,
        ErrorKind::Timeout => how != Break::Refused,
        _ => false,
    }
}

for_all_that_excludes! {
    async at once:
    a_guard_outlives_an_outage_that_is_shorter_than_its_lease
    waiters_without_a_limit_are_told_after_one_lease
    waiters_with_a_limit_wait_until_it_and_are_told_why
    a_wait_behind_a_release_that_fails_is_told_why_too
    waiters_with_time_left_get_the_lock_once_the_server_is_back
}

for_all_that_excludes! {
    async:
    a_waiter_hears_of_the_release_that_an_outage_hid
    a_try_is_answered_with_what_is_wrong
}

#[tokio::test]
async fn a_guard_is_valid_until_its_deadline_and_lost_before_the_server_lets_go() {
    // The longer the lease, the longer the time between the two instants: here 102 ms.
    let lease = Duration::from_secs(10);
    futures::future::join_all(BREAKS.map(|how| keep_until_the_deadline(how, lease))).await;
}

async fn keep_until_the_deadline(how: Break, lease: Duration) {
    let clock = Clock::boot();
    let far = Far::with_lease(lease);
    let mutex = far.here.mutex("it", ()).unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    let lost = MutexGuard::lease(&guard).lost();
    far.cut_off(how);
    let deadline = MutexGuard::lease(&guard).valid_until();

    // By the clock, whenever this task runs: the server drops the key between these two instants.
    let asked = clock.now();
    let left = ttl_of(&far.server, LOCK).unwrap() - Duration::from_millis(1);
    let (first, last) = (asked + left, clock.now() + left);
    assert!(deadline < last, "{how:?}: valid for longer than the server keeps the key");
    assert!(MutexGuard::lease(&guard).is_valid());

    let lost = tokio::time::timeout(lease + SOON, lost).await.unwrap();
    // On the server, at that moment. If requests still arrive, the losing client has already
    // released the lock by then.
    if how != Break::Mute {
        let still = ttl_of(&far.server, LOCK).is_some_and(|left| left > Duration::ZERO);
        // A busy machine may look when the time of the key is over.
        assert!(still || clock.now() >= first, "{how:?}: the key was gone before");
    }
    assert_eq!(lost.reason(), LossReason::Expired);
    assert!(!MutexGuard::lease(&guard).is_valid());
    assert!(clock.now() >= deadline, "{how:?}: lost before its own deadline");
    assert!(
        MutexGuard::lease(&guard).valid_until() <= deadline,
        "{how:?}: an unanswered renewal moved the deadline"
    );
}

async fn a_guard_outlives_an_outage_that_is_shorter_than_its_lease<X: Excluding>() {
    let lease = Duration::from_secs(6);
    let survive = async |how| {
        let far = Far::with_lease(lease);
        let other = X::of(&client(far.server.url()));
        let lock = X::of(&far.here);
        let guard = soon(lock.take()).await.unwrap();
        let deadline = guard.valid_until();
        far.cut_off(how);
        // Half of the lease: a renewal is due at a third, and fails.
        tokio::time::sleep(lease / 2).await;
        assert_eq!(guard.valid_until(), deadline, "{how:?}");
        far.heal();
        eventually_async("it is renewed", SOON, async || guard.valid_until() > deadline).await;
        assert!(guard.is_valid());
        assert!(matches!(other.try_take().await, Err(Denied::WouldBlock)));
        soon(guard.release()).await.unwrap();
        assert!(soon(other.take()).await.is_ok());
    };
    futures::future::join_all(BREAKS.map(survive)).await;
}

async fn waiters_without_a_limit_are_told_after_one_lease<X: Excluding>() {
    let lease = Duration::from_secs(2);
    let give_up = async |how| {
        let far = Far::with_lease(lease);
        let lock = X::of(&far.here);
        soon(lock.take()).await.unwrap().release().await.unwrap();
        far.cut_off(how);
        let begin = Instant::now();
        let error = tokio::time::timeout(lease + SOON, lock.take()).await.unwrap().unwrap_err();
        assert!(begin.elapsed() >= lease, "{how:?}: {:?}", begin.elapsed());
        assert!(
            matches!(&error, Denied::Backend(error) if tells(how, error)),
            "{how:?}: {error:?}"
        );
        far.heal();
        drop(soon(lock.take()).await.unwrap());
        far.server.assert_all_free();
    };
    futures::future::join_all(BREAKS.map(give_up)).await;
}

async fn waiters_with_a_limit_wait_until_it_and_are_told_why<X: Excluding>() {
    let lease = Duration::from_secs(1);
    let give_up = async |how| {
        let far = Far::with_lease(lease);
        let lock = X::of(&far.here);
        soon(lock.take()).await.unwrap().release().await.unwrap();
        far.cut_off(how);
        let begin = Instant::now();
        let waiting = lock.take_within(lease * 3);
        let error = tokio::time::timeout(lease * 3 + SOON, waiting).await.unwrap().unwrap_err();
        assert!(begin.elapsed() >= lease * 3, "{how:?}: {:?}", begin.elapsed());
        let Denied::Timeout { source: Some(why) } = error else { panic!("{how:?}: {error:?}") };
        assert!(tells(how, &why), "{how:?}: {why:?}");
    };
    futures::future::join_all(BREAKS.map(give_up)).await;
}

async fn a_wait_behind_a_release_that_fails_is_told_why_too<X: Excluding>() {
    let give_up = async |how| {
        let far = Far::with_lease(Duration::from_secs(30));
        let lock = X::of(&far.here);
        let held = soon(lock.take()).await.unwrap();
        far.cut_off(how);
        drop(held);
        let error = soon(lock.take_within(Duration::from_secs(4))).await.unwrap_err();
        let Denied::Timeout { source: Some(why) } = error else { panic!("{how:?}: {error:?}") };
        assert!(tells(how, &why), "{how:?}: {why:?}");
    };
    futures::future::join_all(BREAKS.map(give_up)).await;
}

async fn waiters_with_time_left_get_the_lock_once_the_server_is_back<X: Excluding>() {
    let lease = Duration::from_secs(1);
    let wait = async |how| {
        let far = Far::with_lease(lease);
        let lock = X::of(&far.here);
        soon(lock.take()).await.unwrap().release().await.unwrap();
        far.cut_off(how);
        let patient = lock.take_within(Duration::from_secs(60));
        let back = async {
            // Longer than a caller without a time limit would wait.
            tokio::time::sleep(lease * 3 / 2).await;
            far.heal();
        };
        let (guard, ()) = tokio::join!(soon(patient), back);
        assert!(guard.unwrap().is_valid(), "{how:?}");
    };
    futures::future::join_all(BREAKS.map(wait)).await;
}

async fn a_waiter_hears_of_the_release_that_an_outage_hid<X: Excluding>() {
    let wait = async |how| {
        let far = Far::with_lease(Duration::from_secs(30));
        let there = X::of(&client(far.server.url()));
        let held = soon(there.take()).await.unwrap();
        let waiting = tokio::spawn(X::of(&far.here).take());
        until_heard(&far.server).await;
        far.cut_off(how);
        held.release().await.unwrap();
        assert!(!waiting.is_finished(), "{how:?}");
        far.heal();
        // Well before the end of the lease in the refusal.
        assert!(soon(waiting).await.unwrap().unwrap().is_valid(), "{how:?}");
    };
    futures::future::join_all(BREAKS.map(wait)).await;
}

async fn a_try_is_answered_with_what_is_wrong<X: Excluding>() {
    let ask = async |how| {
        let far = Far::with_lease(Duration::from_secs(30));
        let lock = X::of(&far.here);
        soon(lock.take()).await.unwrap().release().await.unwrap();
        far.cut_off(how);
        let error = soon(lock.try_take()).await.unwrap_err();
        assert!(
            matches!(&error, Denied::Backend(error) if tells(how, error)),
            "{how:?}: {error:?}"
        );
        far.heal();
        // A lease that the try may have left behind ends too.
        far.server.assert_all_free();
    };
    futures::future::join_all(BREAKS.map(ask)).await;
}

#[tokio::test]
async fn a_server_that_was_never_there_is_an_error_at_the_first_lock() {
    let refusing = Proxy::start(lock_tests::Port::reserve().addr());
    refusing.refuse();
    let locks =
        client_with(refusing.url(), |redis| redis, |locks| locks.ttl(Duration::from_secs(1)));
    let mutex = locks.mutex("it", ()).unwrap();
    assert!(matches!(soon(mutex.try_lock()).await, Err(TryLockError::Backend(_))));
    assert!(matches!(soon(mutex.lock()).await, Err(LockError::Backend(_))));
    soon(locks.shutdown()).await;
}
