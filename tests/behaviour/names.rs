//! Odd names and odd times.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind, Key};
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard, OwnedMutexGuard, TryLockError};
use lock_tests::RedisServer;

use crate::support::{Leftovers, Pair, client, soon, until_heard, waiting};

const ODD: [&[u8]; 16] = [
    b"",
    b" ",
    b"\0",
    b"\r\n",
    b"*3\r\n$3\r\nSET\r\n",
    b"{",
    b"}",
    b"{}",
    b"}{",
    b"a{b}c{d}",
    b"%",
    b"%00",
    b"a:state",
    b"\xff\xfe\x80",
    "grün/\u{1f512}".as_bytes(),
    &[b'}'; Key::MAX_LEN],
];

#[tokio::test]
async fn every_name_is_a_lock_of_its_own() {
    let pair = Pair::new();
    let keys = || {
        let names = ODD.iter().map(|name| Key::new(name).unwrap());
        // An exact key cannot be empty, and is another lock than the name of these bytes.
        names.chain(ODD[1..].iter().map(|name| Key::raw(name).unwrap()))
    };
    let mut held = Vec::new();
    for key in keys() {
        let mutex = Arc::new(pair.here.mutex(&key, ()).unwrap());
        held.push(soon(mutex.try_lock_owned()).await.unwrap_or_else(|e| panic!("{key:?}: {e:?}")));
    }
    for key in keys() {
        let there = pair.there.mutex(&key, ()).unwrap();
        let refused = soon(there.try_lock()).await;
        assert!(matches!(refused, Err(TryLockError::WouldBlock)), "{key:?}: {refused:?}");
    }
    // The release of its own lock wakes each waiter, long before the lease would end.
    for (guard, key) in held.into_iter().zip(keys()) {
        let there = Arc::new(pair.there.mutex(&key, ()).unwrap());
        let token = OwnedMutexGuard::lease(&guard).fencing_token();
        let waiting = waiting(&there);
        until_heard(&pair.server).await;
        soon(OwnedMutexGuard::release(guard)).await.unwrap();
        let guard = waiting.served().await;
        assert!(OwnedMutexGuard::lease(&guard).fencing_token() > token, "{key:?}");
        soon(OwnedMutexGuard::release(guard)).await.unwrap();
    }
    pair.server.assert_all_free();
}

#[tokio::test]
async fn exact_keys_are_exact() {
    let pair = Pair::new();
    for name in &ODD[1..] {
        let mutex = pair.here.mutex(Key::raw(name).unwrap(), ()).unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        assert_eq!(pair.server.cli(&[&b"EXISTS"[..], name]).int(), 1, "{}", name.escape_ascii());
        soon(MutexGuard::release(guard)).await.unwrap();
        assert_eq!(pair.server.cli(&[&b"EXISTS"[..], name]).int(), 0, "{}", name.escape_ascii());
    }
}

/// Runs calls that must fail before they send anything, and returns the kinds of their errors.
fn refused<const N: usize>(act: impl FnOnce(&RedisServer) -> [Error; N]) -> [ErrorKind; N] {
    let server = RedisServer::start();
    let before = server.commandstats();
    let errors = act(&server);
    for error in &errors {
        assert!(!error.is_retryable() && !error.to_string().is_empty(), "{error:?}");
        assert!(error.to_string().len() < 200, "the error quotes it all");
    }
    let sent = server.commandstats().since(&before);
    assert_eq!(sent.total(), 0, "{sent:?}");
    errors.map(|error| error.kind())
}

#[test]
fn a_name_that_is_too_long_is_refused_before_anything_is_sent() {
    let kinds = refused(|server| {
        let locks = client(server.url());
        let prefixed = Locks::builder(RedisBackend::open(server.url()).unwrap());
        let prefixed = prefixed.prefix("app/").build().unwrap();
        [
            locks.mutex("x".repeat(1 << 20), ()).unwrap_err(),
            locks.mutex(vec![0; Key::MAX_LEN + 1], ()).unwrap_err(),
            prefixed.mutex("x".repeat(Key::MAX_LEN), ()).unwrap_err(),
            Key::raw("x".repeat(1 << 20)).unwrap_err(),
            Key::raw("").unwrap_err(),
        ]
    });
    assert_eq!(kinds, [ErrorKind::InvalidKey; 5]);
}

#[test]
fn a_lease_that_makes_no_sense_is_refused_before_anything_is_sent() {
    let kinds = refused(|server| {
        [
            Duration::ZERO,
            Duration::from_nanos(1),
            Duration::from_micros(999),
            Duration::from_millis(9),
            Duration::from_secs(24 * 60 * 60 + 1),
            Duration::from_secs(u64::MAX / 1_000),
            Duration::MAX,
        ]
        .map(|ttl| {
            let backend = RedisBackend::open(server.url()).unwrap();
            Locks::builder(backend).ttl(ttl).build().unwrap_err()
        })
    });
    assert_eq!(kinds, [ErrorKind::InvalidTtl; 7]);
}

#[tokio::test]
async fn the_shortest_and_the_longest_lease_are_leases() {
    let server = RedisServer::start();
    let day = Duration::from_secs(24 * 60 * 60);
    // The shortest lease may be over before the other client looks, but it must never stay.
    for (ttl, least) in [(Duration::from_millis(10), 0), (day, 86_000_000)] {
        let backend = RedisBackend::open(server.url()).unwrap();
        let locks = Locks::builder(backend).ttl(ttl).renewal(false).build().unwrap();
        let mutex = locks.mutex("it", ()).unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        assert!(MutexGuard::lease(&guard).remaining() < ttl);
        let left = server.cli(&["PTTL", "lock:{it}"]).int();
        assert!(left == -2 && least == 0 || left >= least, "{left}");
        drop(guard);
        server.assert_all_free();
    }
}

#[tokio::test]
async fn a_wait_of_no_time_and_one_without_end_are_waits() {
    let pair = Pair::new();
    let (here, there) = pair.mutexes();
    let held = soon(there.lock()).await.unwrap();
    let error = soon(here.lock_timeout(Duration::ZERO)).await.unwrap_err();
    assert!(matches!(error, lock_sync::LockError::Timeout { .. }), "{error:?}");
    let let_go = async {
        until_heard(&pair.server).await;
        drop(held);
    };
    let (guard, ()) = soon(async { tokio::join!(here.lock_timeout(Duration::MAX), let_go) }).await;
    assert!(MutexGuard::lease(&guard.unwrap()).is_valid());
}
