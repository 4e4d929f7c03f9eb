//! The order in which tasks of one process, and processes, get the lock.

use std::sync::Arc;
use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, FencingToken, Hint, Key, OwnerToken, Ttl, Watch,
};
use lock_sync::{Handoff, Mutex, MutexGuard};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, sleep};

use crate::support::{Pair, eventually, poll_once};

/// The holders of the lock, in order.
type Book = Arc<std::sync::Mutex<Vec<(&'static str, FencingToken)>>>;

/// A task that takes the lock `rounds` times and records its name.
fn taker(who: &'static str, mutex: &Arc<Mutex<u32>>, rounds: u32, book: &Book) -> JoinHandle<()> {
    let (mutex, book) = (Arc::clone(mutex), Arc::clone(book));
    tokio::spawn(async move {
        for _ in 0..rounds {
            let guard = mutex.lock().await.unwrap();
            book.lock().unwrap().push((who, MutexGuard::lease(&guard).fencing_token()));
            yield_now().await;
        }
    })
}

fn assert_rising(book: &Book) {
    assert!(book.lock().unwrap().is_sorted_by(|(_, a), (_, b)| a < b), "tokens increase");
}

#[tokio::test(start_paused = true)]
async fn the_lock_stays_while_no_other_process_waits() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let mutex = Arc::new(pair.here.mutex("it", 0).unwrap());
    let book = Book::default();
    let tasks: Vec<_> = (0..4).map(|_| taker("here", &mutex, 5_000, &book)).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(book.lock().unwrap().len(), 20_000);
    assert_rising(&book);
    let stats = pair.ours.stats();
    assert!(stats.total() < 100, "hardly a request for each hundred hand-overs: {stats:?}");
}

#[tokio::test(start_paused = true)]
async fn others_get_their_turn_within_the_budget() {
    const HANDOFFS: u32 = 5;
    let budget = Handoff::Budget { handoffs: HANDOFFS, time: Duration::from_secs(3600) };
    let pair = Pair::local_with(|builder| builder.handoff(budget));
    let (here, there) = pair.mutexes();
    let (here, there) = (Arc::new(here), Arc::new(there));
    let book = Book::default();
    let mut tasks = Vec::new();
    for _ in 0..3 {
        tasks.push(taker("here", &here, 400, &book));
        tasks.push(taker("there", &there, 400, &book));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_rising(&book);
    let book = book.lock().unwrap();
    let both: Vec<_> = book.iter().map(|(who, _)| *who).collect();
    let last = |who| both.iter().rposition(|other| *other == who).unwrap();
    let contended = &both[..last("here").min(last("there"))];
    let mut runs = vec![1];
    for pair in contended.windows(2) {
        match runs.last_mut() {
            Some(run) if pair[0] == pair[1] => *run += 1,
            _ => runs.push(1),
        }
    }
    // The first run begins before another waiter has come.
    let longest = *runs[1..].iter().max().unwrap();
    assert!(longest <= HANDOFFS + 1, "{longest} in a row");
    assert!(longest > 1, "the budget is used");
}

#[tokio::test(start_paused = true)]
async fn in_fair_mode_processes_take_turns_for_two_requests_each() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let (here, there) = pair.mutexes();
    let (here, there) = (Arc::new(here), Arc::new(there));
    let book = Book::default();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(taker("here", &here, 200, &book));
        tasks.push(taker("there", &there, 200, &book));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_rising(&book);
    let book = book.lock().unwrap();
    // Once both have come, they alternate until one is done.
    let alternating = book[20..1_500].windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
    assert!(alternating > 1_400, "only {alternating} changes");
    let requests = pair.ours.stats().total();
    assert!(requests < 800 * 22 / 10, "{requests} requests for 800 hand-overs");
}

#[tokio::test(start_paused = true)]
async fn one_lock_may_be_fairer_than_the_others() {
    let pair = Pair::local();
    let fair = Arc::new(pair.here.mutex("it", 0).unwrap().with_handoff(Handoff::Fair));
    let other = pair.there.mutex("it", 0).unwrap();
    let guard = fair.lock().await.unwrap();
    let mut second = Box::pin(fair.lock());
    assert!(poll_once(second.as_mut()).await.is_pending());
    let mut elsewhere = Box::pin(other.lock());
    assert!(poll_once(elsewhere.as_mut()).await.is_pending());
    sleep(Duration::from_millis(100)).await;
    drop(guard);
    drop(elsewhere.await.unwrap());
    assert!(second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn processes_are_served_in_the_order_in_which_they_came() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let guard = Arc::new(pair.here.mutex("it", 0).unwrap()).lock_owned().await.unwrap();
    let order: Arc<std::sync::Mutex<Vec<usize>>> = Arc::default();
    let mut tasks = Vec::new();
    for n in 0..8 {
        let locks = lock_sync::Locks::builder(pair.store.client())
            .on_runtime(tokio::runtime::Handle::current())
            .build()
            .unwrap();
        let order = Arc::clone(&order);
        tasks.push(tokio::spawn(async move {
            let mutex = locks.mutex("it", 0).unwrap();
            let _guard = mutex.lock().await.unwrap();
            order.lock().unwrap().push(n);
        }));
        // Until it stands in the queue of the store.
        sleep(Duration::from_millis(1)).await;
    }
    drop(guard);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_message_is_lost_is_found_out() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).handoff(Handoff::Fair));
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let waited = wait_after(&here, guard, || pair.ours.faults().mute_hints(true)).await;
    let bound = ttl / 3 + Duration::from_millis(20);
    assert!(waited <= bound, "{waited:?}");
}

/// The time from the release by the holder until a waiter has the lock. An event happens just before the release.
async fn wait_after<G>(mutex: &Mutex<u32>, guard: G, act: impl FnOnce()) -> Duration {
    let mut waiting = Box::pin(mutex.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(Duration::from_millis(50)).await;
    act();
    drop(guard);
    let begin = Instant::now();
    assert!(MutexGuard::lease(&waiting.await.unwrap()).is_valid());
    begin.elapsed()
}

/// A client that stands in line and never acts, like a process that was stopped.
async fn silent_waiter(pair: &Pair, ttl: Duration) -> (MemoryBackend, Watch) {
    let client = pair.store.client();
    let key = Key::new("it").unwrap();
    let watch = client.watch(&key).await.unwrap();
    let claim = Claim::exclusive(key, OwnerToken::generate().unwrap());
    let request = Acquire::new(claim, Ttl::new(ttl).unwrap()).queued();
    let attempt = client.try_acquire(&request).await.unwrap();
    assert!(matches!(attempt, AcquireOutcome::Queued { .. }));
    (client, watch)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_stays_silent_in_its_turn_holds_the_lock_for_its_claim_alone() {
    for ttl in [30, 3600].map(Duration::from_secs) {
        let pair = Pair::local_with(|builder| builder.ttl(ttl));
        let (here, there) = pair.mutexes();
        let guard = there.lock().await.unwrap();
        let _silent = silent_waiter(&pair, ttl).await;
        let waited = wait_after(&here, guard, || ()).await;
        let claim = Duration::from_secs(1);
        let bound = claim + Duration::from_millis(20);
        assert!((claim..bound).contains(&waited), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_comes_last_again_does_not_wait_for_the_silent() {
    let ttl = Duration::from_secs(30);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).handoff(Handoff::Fair));
    let (here, _) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    // From here on the holder listens, and receives the hint that another process waits.
    sleep(Duration::from_millis(100)).await;
    let _silent = silent_waiter(&pair, ttl).await;
    let waited = wait_after(&here, guard, || ()).await;
    assert!(waited < Duration::from_millis(1_020), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_false_hint_of_a_grant_admits_no_waiter() {
    let pair = Pair::local();
    let (here, there) = pair.mutexes();
    let guard = there.lock().await.unwrap();
    let mut waiting = Box::pin(here.lock());
    assert!(poll_once(waiting.as_mut()).await.is_pending());
    sleep(Duration::from_millis(50)).await;
    let key = Key::new("it").unwrap();
    let owner = OwnerToken::generate().unwrap();
    let granted = Hint::Granted { owner, grant: None };
    let next = Hint::Next { owner, after: Duration::ZERO };
    for hint in [granted, next, Hint::Changed, Hint::Contended] {
        pair.ours.faults().hint(&key, hint);
        sleep(Duration::from_millis(50)).await;
        assert!(poll_once(waiting.as_mut()).await.is_pending());
    }
    assert!(MutexGuard::lease(&guard).is_valid());
    drop(guard);
    assert!(MutexGuard::lease(&waiting.await.unwrap()).is_valid());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_in_its_turn_passes_it_on() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let (here, there) = pair.mutexes();
    let third = pair.store.client();
    let third = lock_sync::Locks::builder(third)
        .on_runtime(tokio::runtime::Handle::current())
        .build()
        .unwrap();
    let third = third.mutex("it", 0).unwrap();
    let guard = there.lock().await.unwrap();
    let mut first = Box::pin(here.lock());
    assert!(poll_once(first.as_mut()).await.is_pending());
    sleep(Duration::from_millis(50)).await;
    let mut second = Box::pin(third.lock());
    assert!(poll_once(second.as_mut()).await.is_pending());
    sleep(Duration::from_millis(50)).await;
    drop(guard);
    sleep(Duration::from_millis(5)).await;
    // It has been granted, and the future was not polled since.
    drop(first);
    let begin = Instant::now();
    assert!(MutexGuard::lease(&second.await.unwrap()).is_valid());
    assert!(begin.elapsed() < Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_place_gets_a_chance_now_and_then() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let (here, there) = pair.mutexes();
    let here = Arc::new(here);
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let here = Arc::clone(&here);
            tokio::spawn(async move {
                loop {
                    let _guard = here.lock().await.unwrap();
                    sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    let begin = Instant::now();
    while there.try_lock().await.is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never");
        sleep(Duration::from_millis(3)).await;
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn without_renewal_no_waiter_gets_the_rest_of_a_lease() {
    let ttl = Duration::from_secs(10);
    let pair = Pair::local_with(|builder| builder.ttl(ttl).renewal(false));
    let mutex = Arc::new(pair.here.mutex("it", ()).unwrap());
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let mutex = Arc::clone(&mutex);
            tokio::spawn(async move {
                let guard = mutex.lock().await.unwrap();
                assert!(
                    MutexGuard::lease(&guard).remaining() >= ttl / 3,
                    "{:?}",
                    MutexGuard::lease(&guard).remaining()
                );
                sleep(Duration::from_millis(700)).await;
                assert!(MutexGuard::lease(&guard).is_valid());
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_passed_on_asks_the_store_each_time() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Never));
    let mutex = pair.here.mutex("it", 0).unwrap().with_cache(Duration::from_secs(60));
    let mutex = Arc::new(mutex);
    let book = Book::default();
    let tasks: Vec<_> = (0..4).map(|_| taker("here", &mutex, 25, &book)).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_rising(&book);
    pair.all_released().await;
    let stats = pair.ours.stats();
    assert_eq!((stats.acquires, stats.releases), (100, 100), "{stats:?}");
}

/// The lease goes back although this process is likely to want it again.
#[tokio::test]
async fn an_awaited_release_has_reached_the_store() {
    let pair = Pair::threaded();
    let (here, there) = pair.mutexes();
    let guard = here.lock().await.unwrap();
    let mut rival = Box::pin(there.lock());
    assert!(poll_once(rival.as_mut()).await.is_pending());
    // From here on the process knows whether others wait.
    eventually("it listens", || pair.ours.stats().watches > 0).await;
    drop(guard);
    drop(rival.await.unwrap());
    for _ in 0..20 {
        pair.all_released().await;
        drop(here.lock().await.unwrap());
        MutexGuard::release(here.lock().await.unwrap()).await.unwrap();
        drop(there.try_lock().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn permits_go_to_another_process_that_waits() {
    let pair = Pair::local_with(|builder| builder.handoff(Handoff::Fair));
    let (here, there) = pair.semaphores(2);
    let here = Arc::new(here);
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let here = Arc::clone(&here);
            tokio::spawn(async move {
                loop {
                    let _permit = here.acquire().await.unwrap();
                    sleep(Duration::from_millis(1)).await;
                }
            })
        })
        .collect();
    sleep(Duration::from_millis(100)).await;
    let mut longest = Duration::ZERO;
    for _ in 0..100 {
        let begin = Instant::now();
        let permit = there.acquire().await.unwrap();
        longest = longest.max(begin.elapsed());
        sleep(Duration::from_millis(1)).await;
        drop(permit);
    }
    // One hold to learn of it, and one for each lease that is in use.
    assert!(longest < Duration::from_millis(10), "{longest:?}");
    tasks.iter().for_each(JoinHandle::abort);
}
