//! What the labels of clients cost, and what depends on them.

use lock_core::Label;
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{CommandStats, LABELS, RedisServer, eventually_async};

use crate::support::{
    LOCK, Leftovers, SOON, client, client_with, mutex, soon, until_quiet, waiting,
};

const PASSES: u64 = 40;

/// The commands of the server for passes of one client without contention.
async fn passes(server: &RedisServer, locks: &Locks<RedisBackend>) -> CommandStats {
    let mutex = mutex(locks);
    until_quiet(server).await;
    let before = server.commandstats();
    for _ in 0..PASSES {
        soon(MutexGuard::release(soon(mutex.lock()).await.unwrap())).await.unwrap();
    }
    server.commandstats().since(&before)
}

#[tokio::test]
async fn a_label_adds_no_command_to_a_pass() {
    let rules = "on >secret +@all ~lock:{it}* &*";
    let server = RedisServer::builder().user("unlabelled", rules).start();
    let label = Label::new("import of May").unwrap();
    let labelled = client_with(server.url(), |redis| redis, |locks| locks.label(label));
    drop(soon(mutex(&labelled).lock()).await.unwrap());
    server.until_labels(1).await;
    let with = passes(&server, &labelled).await;

    // The server refuses to keep the label of this client.
    let unlabelled = client(server.url_as("unlabelled", "secret"));
    drop(soon(mutex(&unlabelled).lock()).await.unwrap());
    until_denied(&server).await;
    let without = passes(&server, &unlabelled).await;
    server.until_labels(1).await;

    assert_eq!(with.iter().collect::<Vec<_>>(), without.iter().collect::<Vec<_>>());
    assert_eq!(with.calls("evalsha"), 2 * PASSES, "{with:?}");
}

/// Waits until the server has refused to keep a label.
async fn until_denied(server: &RedisServer) {
    let denied = async || format!("{:?}", server.cli(&["ACL", "LOG"])).contains(LABELS);
    eventually_async("a label is refused", SOON, denied).await;
}

#[tokio::test]
async fn without_the_right_to_keep_a_label_locks_work_and_show_none() {
    let rules = "on >secret +@all ~lock:{it}* &*";
    let server = RedisServer::builder().user("limited", rules).start();
    let limited = client(server.url_as("limited", "secret"));
    let there = client(server.url());
    let held = soon(mutex(&limited).lock_owned()).await.unwrap();
    until_denied(&server).await;
    let waiter = waiting(&mutex(&there));
    let shown = async || {
        let seen = there.inspect("it").await.unwrap();
        assert_eq!((seen.holding, &seen.holders[0].label), (1, &None));
        seen.waiters.first().is_some_and(|waiter| waiter.label == Some(Label::of_process()))
    };
    eventually_async("the waiter is shown with its label", SOON, shown).await;
    // A client that may not read labels sees the lock without them.
    let seen = limited.inspect("it").await.unwrap();
    assert_eq!((seen.holding, seen.waiting), (1, 1));
    assert_eq!((&seen.holders[0].label, &seen.waiters[0].label), (&None, &None));
    drop(held);
    let next = waiter.served().await;
    assert_eq!(server.locks(), [LOCK]);
    drop(next);
    drop(soon(mutex(&limited).lock()).await.unwrap());
    server.assert_all_free();
}
