//! Keys that hold a value that is not a lock of this library.

use std::time::Duration;

use lock_core::ErrorKind;
use lock_sync::{LockError, MutexGuard, TryLockError};
use lock_tests::{RedisServer, eventually_async};

use crate::support::{LOCK, Pair, SOON, soon, until_heard, waiting};

fn is_foreign(error: &lock_core::Error) -> bool {
    error.kind() == ErrorKind::ForeignKey && !error.is_retryable()
}

#[tokio::test]
async fn a_value_of_another_type_is_an_error_at_once_and_stays() {
    let pair = Pair::new();
    let (here, _) = pair.mutexes();
    for write in [
        &["RPUSH", LOCK, "a", "b"][..],
        &["HSET", LOCK, "a", "b"],
        &["SADD", LOCK, "a"],
        &["ZADD", LOCK, "1", "a"],
        &["XADD", LOCK, "*", "a", "b"],
    ] {
        pair.server.cli(write);
        let before = pair.server.cli(&["DUMP", LOCK]);
        let error = soon(here.lock()).await.unwrap_err();
        assert!(matches!(&error, LockError::Backend(error) if is_foreign(error)), "{error:?}");
        let error = soon(here.lock_timeout(Duration::from_secs(60))).await.unwrap_err();
        assert!(matches!(&error, LockError::Backend(error) if is_foreign(error)), "{error:?}");
        let error = soon(here.try_lock()).await.unwrap_err();
        assert!(matches!(&error, TryLockError::Backend(error) if is_foreign(error)), "{error:?}");

        assert_eq!(pair.server.cli(&["DUMP", LOCK]), before, "{write:?}");
        assert_eq!(pair.server.keys("lock:{it}*"), [LOCK]);
        pair.server.cli(&["DEL", LOCK]);
    }
    assert!(soon(here.lock()).await.is_ok());
}

#[tokio::test]
async fn a_fence_that_is_none_is_an_error_and_no_lock_is_left() {
    let pair = Pair::new();
    let (here, _) = pair.mutexes();
    for write in [&["SET", "lock:{it}:state", "7 apples"][..], &["RPUSH", "lock:{it}:state", "a"]] {
        pair.server.cli(write);
        let error = soon(here.lock()).await.unwrap_err();
        assert!(matches!(&error, LockError::Backend(error) if is_foreign(error)), "{error:?}");
        assert_eq!(pair.server.keys("lock:{it}*"), ["lock:{it}:state"]);
        pair.server.cli(&["DEL", "lock:{it}:state"]);
    }
}

#[tokio::test]
async fn a_value_without_a_time_to_live_is_a_holder_for_ever() {
    for flags in ["", "Kgxe"] {
        let server =
            RedisServer::builder().config("notify-keyspace-events", format!("{flags:?}")).start();
        let pair = Pair::of(server, |redis| redis, |locks| locks);
        let (here, there) = pair.mutexes();
        pair.server.cli(&["SET", LOCK, "theirs"]);

        assert!(matches!(soon(here.try_lock()).await, Err(TryLockError::WouldBlock)));
        let error = soon(here.lock_timeout(Duration::from_millis(200))).await.unwrap_err();
        assert!(matches!(error, LockError::Timeout { source: None }), "{error:?}");
        assert_eq!(pair.server.cli(&["GET", LOCK]).text(), "theirs");
        // The waiter has left the queue.
        let gone =
            || pair.server.keys("*:queue").is_empty() && pair.server.keys("*:places").is_empty();
        eventually_async("nothing waits any more", SOON, async || gone()).await;

        // The value stays until a client deletes it. Without notifications the waiters look at it
        // now and then.
        let both = [waiting(&here), waiting(&there)];
        until_heard(&pair.server).await;
        assert_eq!(pair.server.cli(&["GET", LOCK]).text(), "theirs");
        pair.server.cli(&["DEL", LOCK]);
        let [one, other] = both.map(|waiting| async { drop(waiting.served().await) });
        tokio::join!(one, other);
    }
}

#[tokio::test]
async fn a_value_that_replaces_ours_is_a_lost_lease_and_stays() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(Duration::from_secs(2)));
    for write in [&["SET", LOCK, "theirs"][..], &["RPUSH", LOCK, "theirs"]] {
        let (here, _) = pair.mutexes();
        let guard = soon(here.lock()).await.unwrap();
        pair.server.cli(&["DEL", LOCK]);
        pair.server.cli(write);
        let before = pair.server.cli(&["DUMP", LOCK]);
        soon(MutexGuard::lease(&guard).lost()).await;
        assert!(!MutexGuard::lease(&guard).is_valid());
        assert!(soon(MutexGuard::release(guard)).await.is_err());
        assert!(soon(here.try_lock()).await.is_err());
        assert_eq!(pair.server.cli(&["DUMP", LOCK]), before, "{write:?}");
        pair.server.cli(&["DEL", LOCK]);
    }
}
