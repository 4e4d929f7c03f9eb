//! What a mutex with a stored value costs one server, and how its value is kept.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, CellBackend, Committed, Hint, Ttl};
use lock_redis::RedisBackend;
use lock_sync::Locks;
use lock_tests::RedisServer;

use crate::support::{Server, claim, granted, soon};

fn locks(server: &RedisServer) -> Locks<RedisBackend> {
    Locks::new(RedisBackend::open(server.url()).unwrap())
}

#[tokio::test]
async fn a_lock_and_a_commit_cost_two_commands() {
    const ROUNDS: u64 = 20;
    let server = RedisServer::start();
    let counter = locks(&server).stored_mutex("it", 0_u64).unwrap();
    // The first round loads the scripts.
    counter.update(|count| *count += 1).await.unwrap();
    let before = server.commandstats();
    for _ in 0..ROUNDS {
        counter.update(|count| *count += 1).await.unwrap();
    }
    let stats = server.commandstats().since(&before);
    assert_eq!((stats.calls("evalsha"), stats.calls("eval")), (2 * ROUNDS, 0));
    assert_eq!(counter.snapshot().await.unwrap().value, ROUNDS + 1);
}

#[tokio::test]
async fn a_commit_within_a_process_costs_one_command() {
    const TASKS: u64 = 100;
    let server = RedisServer::start();
    let counter = locks(&server).stored_mutex("it", 0_u64).unwrap();
    counter.update(|count| *count += 1).await.unwrap();
    let first = counter.lock().await.unwrap();
    let tasks = (0..TASKS).map(|_| {
        let counter = counter.clone();
        tokio::spawn(async move { counter.update(|count| *count += 1).await.unwrap() })
    });
    let tasks = tasks.collect::<Vec<_>>();
    for _ in 0..TASKS {
        tokio::task::yield_now().await;
    }
    let before = server.commandstats();
    drop(first);
    for task in tasks {
        task.await.unwrap();
    }
    let calls = server.commandstats().since(&before).calls("evalsha");
    // Beside the commits, the process renews the lease for further tokens, listens, and gives the lease back. A slow
    // machine renews more often.
    assert!((TASKS..TASKS + TASKS / 2).contains(&calls), "{calls} commands for {TASKS} commits");
    assert_eq!(counter.snapshot().await.unwrap().value, TASKS + 1);
}

#[tokio::test]
async fn a_small_value_travels_with_a_lock_that_is_handed_over() {
    let server = Server::start();
    let open = || RedisBackend::open(server.url()).unwrap();
    let (holder, waiter) = (open(), open());
    for (length, travels) in [(0, true), (1, true), (1024, true), (1025, false), (60_000, false)] {
        let (held, next) = (claim("a b"), claim("a b"));
        let mut hints = waiter.watch(&next.key).await.unwrap();
        let token = granted(&holder, &held).await.tokens.first();
        let request = Acquire::new(next.clone(), Ttl::DEFAULT).queued().with_value();
        let attempt = waiter.try_acquire(&request).await.unwrap();
        assert!(matches!(attempt, AcquireOutcome::Queued { .. }), "{attempt:?}");
        let value = vec![b' '; length];
        let committed = holder.commit(&held, token, &value).await.unwrap();
        assert!(matches!(committed, Committed::Done { .. }));
        let pushed = soon(async {
            loop {
                if let Some(Hint::Granted { grant, .. }) = hints.next().await {
                    break grant.expect("its time is known");
                }
            }
        })
        .await;
        let brought = pushed.value.as_ref().and_then(|value| value.cell());
        assert_eq!(
            brought.map(|cell| (&cell.value, cell.token)),
            travels.then_some((&value, token))
        );
        // The owner that asks gets the value, too, whatever its length.
        let AcquireOutcome::Granted(grant) = waiter.try_acquire(&request).await.unwrap() else {
            panic!()
        };
        let brought = grant.value.unwrap();
        assert_eq!(brought.cell().map(|cell| &cell.value), Some(&value));
        let _released = waiter.release(&next).await.unwrap();
    }
}

#[tokio::test]
async fn a_value_is_kept_for_as_long_as_the_app_says() {
    let server = Server::start();
    let kept = Duration::from_secs(100);
    let builder = RedisBackend::builder(server.url()).value_retention(kept);
    let backend = builder.build().unwrap();
    let held = claim("a");
    let token = granted(&backend, &held).await.tokens.first();
    assert!(matches!(
        backend.store(&held, token, Some(b"x")).await,
        Ok(lock_core::Stored::Written)
    ));
    let left = || server.client().command::<u64>(&["PTTL", "lock:{a}:cell"]);
    assert!((90_000..=100_000).contains(&left()));
    let committed = backend.commit(&held, token, b"y").await.unwrap();
    assert_eq!(committed, Committed::Done { contended: false });
    assert!((90_000..=100_000).contains(&left()));
    let forever = RedisBackend::open(server.url()).unwrap();
    let held = claim("a");
    let token = granted(&forever, &held).await.tokens.first();
    let committed = forever.commit(&held, token, b"z").await.unwrap();
    assert_eq!(committed, Committed::Done { contended: false });
    assert_eq!(server.client().command::<i64>(&["PTTL", "lock:{a}:cell"]), -1);
    let _released = forever.release(&held).await.unwrap();
    let short = RedisBackend::builder(server.url()).value_retention(Duration::from_millis(1));
    assert!(short.build().is_err());
}
