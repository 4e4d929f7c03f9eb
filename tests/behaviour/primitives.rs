//! Several locks at once, cells, elections, barriers, and what people who look after locks see and do.
//!
//! A client dies here as its runtime does: nobody renews its leases any more, nor gives them back.

use std::array;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use lock_core::{FencingToken, Inspection, Kind};
use lock_redis::RedisBackend;
use lock_sync::{BarrierError, LeaderInfo, Locks, LossReason, Observer, OnceCell, OnceCellError};
use lock_tests::{RedisServer, eventually_async};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

use crate::support::{
    AT_ONCE, Leftovers, Pair, SOON, TTL, client, client_with, mutex, now, rwlock, soon, waiting,
    would_block,
};

/// For those who die, and whoever follows them.
const LEASE: Duration = Duration::from_millis(600);

const NAMES: [&str; 3] = ["a", "b", "c"];

#[tokio::test]
async fn all_or_none_of_three_locks() {
    let pair = Pair::new();
    let all = soon(pair.here.lock_all(["c", "a", "b"])).await.unwrap();
    assert!(all.is_valid());
    let keys: Vec<_> = all.keys().map(|key| key.as_bytes().to_vec()).collect();
    assert_eq!(keys, NAMES.map(|name| name.as_bytes().to_vec()));
    for name in NAMES {
        let one = pair.there.mutex(name, ()).unwrap();
        assert!(would_block(&one.try_lock().await), "{name} is free");
    }
    // One of them is free, and stays so.
    assert!(would_block(&pair.there.try_lock_all(["d", "c"]).await));
    drop(pair.here.mutex("d", ()).unwrap().try_lock().await.unwrap());

    let before: Vec<FencingToken> = all.fencing_tokens().map(|(_, token)| token).collect();
    soon(all.release()).await.unwrap();
    let all = pair.there.try_lock_all(["b", "c", "a"]).await.unwrap();
    for ((key, after), before) in all.fencing_tokens().zip(before) {
        assert!(after > before, "{key}: {after} came after {before}");
    }
    drop(all);
    pair.server.assert_all_free();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_that_name_the_locks_in_any_order_take_turns() {
    const ROUNDS: u64 = 50;
    let pair = Pair::new();
    let plans: [(_, &[usize]); 4] = [
        (&pair.here, &[0, 1, 2]),
        (&pair.there, &[2, 1, 0]),
        (&pair.here, &[2, 0]),
        (&pair.there, &[1, 2]),
    ];
    let counts: Arc<[AtomicU64; 3]> = Arc::default();
    let mut rivals = JoinSet::new();
    for (locks, places) in plans {
        let (locks, places, counts) = (locks.clone(), places.to_vec(), Arc::clone(&counts));
        rivals.spawn(async move {
            for _ in 0..ROUNDS {
                let all = locks.lock_all(places.iter().map(|&at| NAMES[at])).await.unwrap();
                // Counts are lost where two do this at once.
                for &at in &places {
                    let seen = counts[at].load(Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    counts[at].store(seen + 1, Ordering::Relaxed);
                }
                drop(all);
            }
        });
    }
    soon(rivals.join_all()).await;
    let turns = |at| plans.iter().filter(|(_, places)| places.contains(&at)).count() as u64;
    for (at, count) in counts.iter().enumerate() {
        assert_eq!(count.load(Ordering::Relaxed), turns(at) * ROUNDS, "of {}", NAMES[at]);
    }
    pair.server.assert_all_free();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_initializes_and_all_read_the_same() {
    let pair = Pair::new();
    let (begun, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    for task in 0..8_usize {
        let locks = if task % 2 == 0 { &pair.here } else { &pair.there };
        let cell: OnceCell<usize> = locks.once_cell("it").unwrap();
        let (begun, asked) = (Arc::clone(&begun), Arc::clone(&asked));
        tasks.spawn(async move {
            let initialize = async || {
                begun.fetch_add(1, Ordering::Relaxed);
                asked.notified().await;
                task
            };
            *cell.get_or_init(initialize).await.unwrap()
        });
    }
    // The other client asks while there is no value.
    until_waiting(&pair.here, 1).await;
    asked.notify_one();
    let values = soon(tasks.join_all()).await;
    assert_eq!(begun.load(Ordering::Relaxed), 1);
    assert_eq!(values, [values[0]; 8]);
    let late: OnceCell<usize> = client(pair.server.url()).once_cell("it").unwrap();
    assert_eq!(late.load().await.unwrap(), Some(&values[0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dies_while_it_initializes_is_followed() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(LEASE));
    let mortal = Mortal::new(&pair.server);
    let cell: OnceCell<String> = mortal.locks.once_cell("it").unwrap();
    let (begin, begun) = oneshot::channel();
    let dying = tokio::spawn(async move {
        let work = async || {
            begin.send(()).unwrap();
            pending().await
        };
        cell.get_or_init(work).await.cloned()
    });
    soon(begun).await.unwrap();
    let cell: OnceCell<String> = pair.here.once_cell("it").unwrap();
    let next =
        tokio::spawn(async move { cell.get_or_init(async || "theirs".to_owned()).await.cloned() });
    until_waiting(&pair.there, 1).await;
    assert!(!next.is_finished());

    drop(mortal);
    assert!(matches!(soon(dying).await.unwrap(), Err(OnceCellError::Lost(_))));
    assert_eq!(soon(next).await.unwrap().unwrap(), "theirs");
    let cell: OnceCell<String> = pair.there.once_cell("it").unwrap();
    assert_eq!(cell.load().await.unwrap().unwrap(), "theirs");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_at_a_time() {
    const ROUNDS: usize = 15;
    let pair = Arc::new(Pair::new());
    let leaders = Arc::new(AtomicUsize::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut candidates = JoinSet::new();
    for candidate in 0..4 {
        let (pair, leaders, highest) =
            (Arc::clone(&pair), Arc::clone(&leaders), Arc::clone(&highest));
        candidates.spawn(async move {
            let (ours, theirs) = match candidate % 2 {
                0 => (&pair.here, &pair.there),
                _ => (&pair.there, &pair.here),
            };
            let (ours, theirs) = (ours.election("it").unwrap(), theirs.election("it").unwrap());
            for round in 0..ROUNDS {
                let name = format!("{candidate} in round {round}");
                let leadership = ours.campaign(&name).await.unwrap();
                assert_eq!(leaders.fetch_add(1, Ordering::AcqRel), 0, "two lead at once");
                let token = leadership.fencing_token();
                assert!(highest.swap(token.get(), Ordering::AcqRel) < token.get());
                let seen = theirs.leader().await.unwrap().unwrap();
                assert_eq!((seen.value, seen.token), (name.into_bytes(), token));
                leaders.fetch_sub(1, Ordering::AcqRel);
                drop(leadership);
            }
        });
    }
    soon(candidates.join_all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_hears_of_each_leader() {
    let pair = Pair::new();
    let [here, there] = [&pair.here, &pair.there].map(|locks| locks.election("it").unwrap());
    let mut observer = there.observe();
    assert_eq!(heard(&mut observer).await, None);
    let first = soon(here.campaign("first")).await.unwrap();
    let seen = heard(&mut observer).await.unwrap();
    assert_eq!((&seen.value[..], seen.token), (&b"first"[..], first.fencing_token()));

    let second = tokio::spawn(async move { there.campaign("second").await.unwrap() });
    until_waiting(&pair.here, 1).await;
    assert!(!second.is_finished());
    soon(first.resign()).await.unwrap();
    let second = soon(second).await.unwrap();
    assert_eq!(heard_next(&mut observer).await.value, b"second");
    soon(second.resign()).await.unwrap();
    assert_eq!(heard(&mut observer).await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_dies_is_followed() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(LEASE));
    let mortal = Mortal::new(&pair.server);
    let election = mortal.locks.election("it").unwrap();
    let first = soon(election.campaign("first")).await.unwrap();
    let [here, there] = [&pair.here, &pair.there].map(|locks| locks.election("it").unwrap());
    let mut observer = there.observe();
    assert_eq!(heard(&mut observer).await.unwrap().value, b"first");
    let second = tokio::spawn(async move { here.campaign("second").await.unwrap() });
    until_waiting(&pair.there, 1).await;
    assert!(first.is_valid() && !second.is_finished());

    let end = first.valid_until();
    drop(mortal);
    soon(first.lost()).await;
    let second = soon(second).await.unwrap();
    assert!(now() >= end, "two lead at once");
    assert!(!first.is_valid() && second.is_valid());
    assert!(second.fencing_token() > first.fencing_token());
    let seen = heard_next(&mut observer).await;
    assert_eq!((&seen.value[..], seen.token), (&b"second"[..], second.fencing_token()));
    // What is left of it takes nothing from who followed.
    drop(first);
    assert_eq!(there.leader().await.unwrap(), Some(seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_pass_a_barrier_together_twenty_times() {
    const ROUNDS: usize = 20;
    let pair = Pair::new();
    let arrived: Arc<[AtomicUsize; ROUNDS]> = Arc::new(array::from_fn(|_| AtomicUsize::new(0)));
    let leaders: Arc<[AtomicUsize; ROUNDS]> = Arc::new(array::from_fn(|_| AtomicUsize::new(0)));
    let mut participants = JoinSet::new();
    for locks in [&pair.here, &pair.there, &pair.here, &pair.there] {
        let barrier = locks.barrier("it", 4).unwrap();
        let (arrived, leaders) = (Arc::clone(&arrived), Arc::clone(&leaders));
        participants.spawn(async move {
            for round in 0..ROUNDS {
                arrived[round].fetch_add(1, Ordering::AcqRel);
                let passed = barrier.wait().await.unwrap();
                assert_eq!(arrived[round].load(Ordering::Acquire), 4, "round {round}");
                leaders[round].fetch_add(usize::from(passed.is_leader()), Ordering::AcqRel);
            }
        });
    }
    soon(participants.join_all()).await;
    assert_eq!(leaders.each_ref().map(|count| count.load(Ordering::Acquire)), [1; ROUNDS]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_barrier_does_not_count_the_dead() {
    let pair = Pair::with(|redis| redis, |locks| locks.ttl(LEASE));
    let mortal = Mortal::new(&pair.server);
    let [dying, here, there] =
        [&mortal.locks, &pair.here, &pair.there].map(|locks| locks.barrier("it", 2).unwrap());
    let dying = tokio::spawn(async move { dying.wait().await.map(|_| ()) });
    until_arrived(&pair.here, 1).await;
    drop(mortal);
    let failed = soon(dying).await.unwrap();
    assert!(matches!(failed, Err(BarrierError::Backend(_) | BarrierError::Closed)), "{failed:?}");
    until_arrived(&pair.here, 0).await;

    let here = tokio::spawn(async move { here.wait().await.unwrap().is_leader() });
    until_arrived(&pair.there, 1).await;
    assert!(!here.is_finished());
    let there = soon(there.wait()).await.unwrap().is_leader();
    assert_ne!(soon(here).await.unwrap(), there);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_ends_what_an_inspection_shows() {
    let pair = Pair::new();
    let third = client(pair.server.url());
    assert_eq!(third.inspect("it").await.unwrap(), Inspection::default());
    let (here, there) = pair.mutexes();
    let stuck = soon(here.lock()).await.unwrap();
    let (next, last) = (waiting(&there), {
        until_waiting(&third, 1).await;
        waiting(&mutex(&third))
    });
    until_waiting(&third, 2).await;
    let seen = third.inspect("it").await.unwrap();
    assert_eq!((seen.holding, seen.holders.len(), seen.waiters.len()), (1, 1, 2));
    let holder = seen.holders[0];
    // Of several tokens that the lease has, the highest is shown.
    assert_eq!(holder.kind, Kind::Exclusive);
    assert!(holder.token >= Some(stuck.fencing_token()), "{holder:?}");
    assert!(holder.remaining.is_some_and(|left| left > Duration::ZERO && left <= TTL));
    assert!(seen.waiters.iter().all(|waiter| waiter.kind == Kind::Exclusive));

    assert_eq!(third.force_release("it").await.unwrap(), 1);
    let next = next.served().await;
    assert_eq!(soon(stuck.lost()).await.reason(), LossReason::Revoked);
    assert!(!stuck.is_valid());
    assert!(next.fencing_token() > stuck.fencing_token());
    // What is left of it takes nothing from who followed.
    drop(stuck);
    let seen = third.inspect("it").await.unwrap();
    assert_eq!(seen.waiting, 1);
    assert!(seen.holders[0].token >= Some(next.fencing_token()), "{seen:?}");
    drop(next);
    drop(last.served().await);
    pair.server.assert_all_free();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forced_release_ends_every_reader() {
    let pair = Pair::new();
    let (here, there) = (rwlock(&pair.here), rwlock(&pair.there));
    let (one, other) = (soon(here.read()).await.unwrap(), soon(there.read()).await.unwrap());
    let third = client(pair.server.url());
    let writer = rwlock(&third);
    let writer = tokio::spawn(async move { writer.write_owned().await.unwrap() });
    until_waiting(&pair.here, 1).await;
    let seen = pair.here.inspect("it").await.unwrap();
    assert_eq!(seen.holding, 2);
    let tokens: Vec<_> = seen.holders.iter().filter_map(|holder| holder.token).collect();
    assert!([&one, &other].iter().all(|guard| tokens.contains(&guard.fencing_token())));
    assert!(seen.holders.iter().all(|holder| holder.kind == Kind::Shared));
    assert_eq!(seen.waiters[0].kind, Kind::Exclusive);

    assert_eq!(pair.there.force_release("it").await.unwrap(), 2);
    let writer = soon(writer).await.unwrap();
    for reader in [&one, &other] {
        assert_eq!(soon(reader.lost()).await.reason(), LossReason::Revoked);
        assert!(!reader.is_valid() && reader.fencing_token() < writer.fencing_token());
    }
}

/// A client that dies when it is dropped, whatever of it is still in use.
struct Mortal {
    locks: Locks<RedisBackend>,
    runtime: Option<Runtime>,
}

impl Mortal {
    fn new(server: &RedisServer) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let options = |locks: lock_sync::Builder<_>| locks.ttl(LEASE).on_runtime(handle);
        let locks = client_with(server.url(), |redis| redis, options);
        Self { locks, runtime: Some(runtime) }
    }
}

impl Drop for Mortal {
    fn drop(&mut self) {
        // To wait for it would block the test's own runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Waits until so many processes stand in line for "it".
async fn until_waiting(locks: &Locks<RedisBackend>, count: u64) {
    let waiting = async || locks.inspect("it").await.unwrap().waiting == count;
    eventually_async("they stand in line", SOON, waiting).await;
}

/// Waits until so many leases say that somebody has arrived in the first round at the barrier "it".
async fn until_arrived(locks: &Locks<RedisBackend>, count: u64) {
    let arrived = async || locks.inspect("it:arrivals:0").await.unwrap().holding == count;
    eventually_async("they have arrived", SOON, arrived).await;
}

/// What an observer hears next, by a hint or within a third of a short lease.
async fn heard(observer: &mut Observer) -> Option<LeaderInfo> {
    tokio::time::timeout(AT_ONCE, observer.next()).await.expect("heard of nothing").unwrap()
}

/// Who is heard of next. There may be nobody for a moment.
async fn heard_next(observer: &mut Observer) -> LeaderInfo {
    match heard(observer).await {
        Some(leader) => leader,
        None => heard(observer).await.expect("nobody leads twice in a row"),
    }
}
