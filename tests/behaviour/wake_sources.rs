//! What wakes a waiter that has no place in the queue, each source alone.

use std::time::Duration;

use futures::future::join_all;
use lock_redis::{Notifications, Protocol};
use lock_sync::{MutexGuard, OwnedMutexGuard};
use lock_tests::RedisServer;

use crate::support::{LOCK, Pair, TTL, soon, ttl_of, until_heard, until_refused, waiting};

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// Scripts over one wait, whatever its length. The waiter asks, starts to listen, asks again, and once more after
/// the hint. The holder starts to listen, says so when it renews, and releases. A script that the server has not
/// loaded costs one more. Each of the two clients also tells the server its label, with such a script.
const AT_MOST: u64 = 12;

/// The requests of a waiter that polls, in the time of one test.
const POLLING: u64 = 50;

#[derive(Clone, Copy)]
struct Sources {
    notifications: Notifications,
    messages: bool,
}

fn pair(server: RedisServer, protocol: Protocol, sources: Sources, lease: Duration) -> Pair {
    Pair::of(
        server,
        |redis| {
            redis
                .protocol(protocol)
                .queue_limit(0)
                .notifications(sources.notifications)
                .release_messages(sources.messages)
        },
        |locks| locks.ttl(lease),
    )
}

/// The waiter gets the lock although the lease is far from its end, with only a few requests.
async fn assert_woken(pair: &Pair) {
    let (here, there) = pair.mutexes();
    let held = soon(there.lock()).await.unwrap();
    let before = pair.server.commandstats();
    let waiting = waiting(&here);
    until_heard(&pair.server).await;
    // Enough time for a waiter that polls.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!waiting.is_over());
    MutexGuard::release(held).await.unwrap();
    let guard = waiting.served().await;
    let scripts = pair.server.commandstats().since(&before).calls("evalsha");
    assert!(scripts <= AT_MOST, "{scripts} scripts for one wait");
    OwnedMutexGuard::release(guard).await.unwrap();
}

#[tokio::test]
async fn keyspace_notifications_alone() {
    let ways = [
        (Notifications::Require, "Kg$xe"),
        (Notifications::IfPresent, "Kg$xe"),
        (Notifications::Enable, "\"\""),
    ];
    let all = PROTOCOLS.iter().flat_map(|protocol| ways.map(|way| (*protocol, way)));
    let woken = all.map(|(protocol, (notifications, flags))| async move {
        let server = RedisServer::builder().config("notify-keyspace-events", flags).start();
        let sources = Sources { notifications, messages: false };
        let pair = pair(server, protocol, sources, TTL);
        assert_woken(&pair).await;
        assert_eq!(pair.server.commandstats().calls("publish"), 0);
    });
    join_all(woken).await;
}

#[tokio::test]
async fn the_message_of_the_release_alone() {
    for protocol in PROTOCOLS {
        let server = RedisServer::builder().config("notify-keyspace-events", "Kg$xe").start();
        let sources = Sources { notifications: Notifications::Off, messages: true };
        let pair = pair(server, protocol, sources, TTL);
        assert_woken(&pair).await;
        assert_eq!(pair.server.cli(&["PUBSUB", "CHANNELS", "__keyspace*"]).array(), []);
    }
}

#[tokio::test]
async fn the_timer_alone() {
    join_all(PROTOCOLS.map(woken_by_the_timer)).await;
}

async fn woken_by_the_timer(protocol: Protocol) {
    let lease = Duration::from_secs(2);
    let server = RedisServer::builder().config("notify-keyspace-events", "Kg$xe").start();
    let sources = Sources { notifications: Notifications::Off, messages: false };
    let pair = pair(server, protocol, sources, lease);
    let (here, there) = pair.mutexes();
    let before = pair.server.commandstats();
    // One holder that releases early, and one whose lease runs out.
    let held = soon(there.lock()).await.unwrap();
    let waiting = waiting(&here);
    until_refused(&pair.server, &before).await;
    MutexGuard::release(held).await.unwrap();
    OwnedMutexGuard::release(waiting.served().await).await.unwrap();

    pair.server.cli(&["SET", LOCK, "a holder that died", "PX", "3000"]);
    let left = ttl_of(&pair.server, LOCK).unwrap();
    // The waiter looks at a holder without an end every five seconds, and at one with an end when the end
    // comes.
    let limit = left + Duration::from_secs(3);
    drop(tokio::time::timeout(limit, here.lock()).await.unwrap().unwrap());
    let sent = pair.server.commandstats().since(&before);
    assert!(sent.calls("evalsha") < POLLING, "{sent:?}");
    assert_eq!((sent.calls("subscribe"), sent.calls("publish")), (0, 0), "{sent:?}");
}

#[tokio::test]
async fn the_timer_sees_the_end_of_a_lease_that_no_other_source_tells_of() {
    // Every source reports deletions, and none reports expiry.
    let server = RedisServer::builder().config("notify-keyspace-events", "Kg").start();
    let sources = Sources { notifications: Notifications::IfPresent, messages: true };
    let pair = pair(server, Protocol::Auto, sources, TTL);
    let (here, _) = pair.mutexes();
    pair.server.cli(&["SET", LOCK, "a holder that died", "PX", "1500"]);
    assert!(soon(here.lock()).await.is_ok());
}
