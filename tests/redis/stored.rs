//! What a mutex with a stored value costs one server, and how its value is kept.

use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, CellBackend, Committed, Hint, Ttl};
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard};
use lock_tests::{RedisServer, eventually_async};

use crate::support::{Server, claim, granted, soon};

/// How long a queue may take.
const LIMIT: Duration = Duration::from_secs(10);

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
    server.until_labels(1).await;
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

/// One round: the first client has the lock, the second one waits in the queue, and gets it. Returns the scripts that
/// were called.
async fn handed_over<G>(
    server: &RedisServer,
    queue: &str,
    (lock, next): (impl Future<Output = G>, impl Future<Output = G>),
    end: impl AsyncFn(G),
) -> u64 {
    let before = server.commandstats();
    let held = lock.await;
    let second = async { end(next.await).await };
    let first = async {
        let queued = async || !server.keys(queue).is_empty();
        eventually_async("the other client waits", LIMIT, queued).await;
        end(held).await;
    };
    tokio::join!(second, first);
    server.commandstats().since(&before).calls("evalsha")
}

/// Each lock brings the value, and each commit hands the lock over, for no command more than a mutex without a value
/// needs.
#[tokio::test]
async fn a_lock_that_is_handed_over_costs_no_command_more_with_a_value() {
    const ROUNDS: u64 = 10;
    let server = RedisServer::start();
    let clients = [locks(&server), locks(&server)];
    let plain = clients.each_ref().map(|locks| locks.mutex("plain", ()).unwrap());
    let stored = clients.each_ref().map(|locks| locks.stored_mutex("stored", 0_u64).unwrap());
    // On a busy machine a round may cost a request more.
    let mut costs = [u64::MAX; 2];
    for round in 0..=ROUNDS {
        let without = handed_over(
            &server,
            "lock:{plain}:queue",
            (async { plain[0].lock().await.unwrap() }, async { plain[1].lock().await.unwrap() }),
            async |guard| MutexGuard::release(guard).await.unwrap(),
        );
        let without = without.await;
        let with = handed_over(
            &server,
            "lock:{stored}:queue",
            (async { stored[0].lock().await.unwrap() }, async { stored[1].lock().await.unwrap() }),
            async |mut guard| {
                *guard += 1;
                _ = guard.commit().await.unwrap();
            },
        );
        let with = with.await;
        // The first round loads the scripts.
        if round > 0 {
            costs = [costs[0].min(without), costs[1].min(with)];
        } else {
            server.until_labels(2).await;
        }
    }
    let [without, with] = costs;
    println!("in the best of {ROUNDS} rounds: {without} commands without a value, {with} with one");
    assert!(with <= without, "{with} commands instead of {without}");
    assert_eq!(stored[1].snapshot().await.unwrap().value, 2 * (ROUNDS + 1));
}

#[tokio::test]
async fn a_small_value_travels_with_a_lock_that_is_handed_over() {
    let server = Server::start();
    let open = || RedisBackend::open(server.url()).unwrap();
    let (holder, waiter) = (open(), open());
    let mut late = 0;
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
                    break grant;
                }
            }
        })
        .await;
        // On a busy machine a message may come too late to bring the grant.
        late += u32::from(pushed.is_none());
        if let Some(pushed) = pushed {
            let brought = pushed.value.as_ref().and_then(|value| value.cell());
            let brought = brought.map(|cell| (&cell.value, cell.token));
            assert_eq!(brought, travels.then_some((&value, token)));
        }
        // The owner that asks gets the value, too, whatever its length.
        let AcquireOutcome::Granted(grant) = waiter.try_acquire(&request).await.unwrap() else {
            panic!()
        };
        let brought = grant.value.unwrap();
        assert_eq!(brought.cell().map(|cell| &cell.value), Some(&value));
        let _released = waiter.release(&next).await.unwrap();
    }
    assert!(late <= 1, "{late} messages brought no grant");
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
    assert_eq!(committed, Committed::Done { told: 0 });
    assert!((90_000..=100_000).contains(&left()));
    let forever = RedisBackend::open(server.url()).unwrap();
    let held = claim("a");
    let token = granted(&forever, &held).await.tokens.first();
    let committed = forever.commit(&held, token, b"z").await.unwrap();
    assert_eq!(committed, Committed::Done { told: 0 });
    assert_eq!(server.client().command::<i64>(&["PTTL", "lock:{a}:cell"]), -1);
    let _released = forever.release(&held).await.unwrap();
    let short = RedisBackend::builder(server.url()).value_retention(Duration::from_millis(1));
    assert!(short.build().is_err());
}
