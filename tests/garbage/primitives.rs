//! How the primitives react to nonsense.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use lock_core::{Clock, FencingToken, Instant};
use lock_redis::RedisBackend;
use lock_sync::{Locks, MutexGuard, RwLockWriteGuard};
use lock_tests::{Random, RedisServer, eventually_async};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Harm, LIMIT, Mangler, Panics, SOON, Setup};

const TTL: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_lets_no_two_processes_in_at_once() {
    let panics = Panics::watch();
    let mut random = Random::from_env("LOCK_GARBAGE_SEED");
    let server = RedisServer::start();
    let mangler = Mangler::start(server.addr(), random.fork());
    let clients = [Setup::RESP2, Setup::RESP3, Setup::TRACKING]
        .map(|setup| Locks::builder(setup.client(&mangler.url())).ttl(TTL).build().unwrap());
    let book = Arc::new(Book::default());
    let mut tasks = JoinSet::new();
    for client in &clients {
        for kind in [Kind::Mutex, Kind::Mutex, Kind::Writer, Kind::Writer, Kind::Others] {
            tasks.spawn(live(client.clone(), kind, Arc::clone(&book), random.fork()));
        }
    }
    mangler.do_all(&Harm::ALL).await;
    let turns = async || book.turns() > 100;
    eventually_async("some get in", SOON, turns).await;
    book.over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let begin = book.turns();
    // Afterwards everything works for all clients.
    for client in &clients {
        timeout(LIMIT, works(client)).await.expect("it does not recover");
        timeout(LIMIT, client.shutdown()).await.expect("it does not shut down");
    }
    panics.none();
    println!(
        "{begin} turns, {} errors after {:?}",
        book.errors.load(Ordering::Relaxed),
        mangler.done()
    );
    for (name, turns) in [("mutex", &book.mutex), ("writer", &book.writer)] {
        let turns = turns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        assert_eq!(overlap(turns), None, "{name}");
    }
    assert!(book.errors.load(Ordering::Relaxed) > 0, "nothing was noticed");
}

/// Waits until a mutex is locked and released without an error, many times in a row.
async fn works(client: &Locks<RedisBackend>) {
    let mutex = client.mutex("mutex", ()).unwrap();
    let mut in_a_row = 0;
    while in_a_row < 20 {
        let succeeds = match mutex.lock().await {
            Ok(guard) => MutexGuard::release(guard).await.is_ok(),
            Err(_) => false,
        };
        in_a_row = if succeeds { in_a_row + 1 } else { 0 };
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Mutex,
    Writer,
    Others,
}

/// A time during which a task held the lock, and could rely on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    from: Instant,
    to: Instant,
    token: FencingToken,
}

#[derive(Default)]
struct Book {
    over: AtomicBool,
    errors: AtomicUsize,
    mutex: StdMutex<Vec<Turn>>,
    writer: StdMutex<Vec<Turn>>,
}

impl Book {
    fn turns(&self) -> usize {
        let count =
            |turns: &StdMutex<Vec<_>>| turns.lock().unwrap_or_else(PoisonError::into_inner).len();
        count(&self.mutex) + count(&self.writer)
    }
}

/// Two turns that overlap, if there are any.
fn overlap(mut turns: Vec<Turn>) -> Option<[Turn; 2]> {
    turns.sort();
    let mut last: Option<Turn> = None;
    for turn in turns {
        if let Some(before) = last.filter(|before| before.to > turn.from) {
            return Some([before, turn]);
        }
        last = Some(last.map_or(turn, |before| if before.to > turn.to { before } else { turn }));
    }
    None
}

#[test]
fn turns_at_once_are_found() {
    let turn = |from, to| Turn {
        from: Instant::from_nanos(from),
        to: Instant::from_nanos(to),
        token: FencingToken::new(7),
    };
    assert_eq!(overlap(vec![turn(5, 9), turn(1, 5), turn(9, 9)]), None);
    assert_eq!(overlap(vec![turn(5, 9), turn(1, 6)]), Some([turn(1, 6), turn(5, 9)]));
    assert_eq!(overlap(vec![turn(1, 9), turn(2, 3), turn(8, 9)]), Some([turn(1, 9), turn(2, 3)]));
}

async fn live(locks: Locks<RedisBackend>, kind: Kind, book: Arc<Book>, mut random: Random) {
    while !book.over.load(Ordering::Relaxed) {
        let stay = Duration::from_micros(random.below(900) as u64);
        // No call takes longer than its limit and the time of an answer.
        let failed = match kind {
            Kind::Mutex => within(mutex(&locks, &book, stay)).await,
            Kind::Writer => within(writer(&locks, &book, stay)).await,
            Kind::Others => within(others(&locks, &mut random)).await,
        };
        if failed {
            book.errors.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

async fn within<T>(request: impl Future<Output = T>) -> T {
    timeout(LIMIT, request).await.expect("it never ends")
}

const LIMIT_OF_WAITING: Duration = Duration::from_secs(1);

/// Notes the time from one instant to the other, or to the end of the lease; nothing if that is
/// unknown.
macro_rules! turn {
    ($Guard:ident, $guard:expr, $stay:expr, $turns:expr) => {{
        let guard = $guard;
        let from = Clock::boot().now();
        tokio::time::sleep($stay).await;
        let lease = $Guard::lease(&guard);
        let until = lease.valid_until();
        let to = Clock::boot().now();
        if lease.is_valid() {
            let turn = Turn { from, to: to.min(until), token: lease.fencing_token() };
            $turns.lock().unwrap_or_else(PoisonError::into_inner).push(turn);
        }
        $Guard::release(guard).await.is_err()
    }};
}

/// Whether the call failed.
async fn mutex(locks: &Locks<RedisBackend>, book: &Book, stay: Duration) -> bool {
    let mutex = locks.mutex("mutex", ()).unwrap();
    match mutex.lock_timeout(LIMIT_OF_WAITING).await {
        Ok(guard) => turn!(MutexGuard, guard, stay, book.mutex),
        Err(_) => true,
    }
}

async fn writer(locks: &Locks<RedisBackend>, book: &Book, stay: Duration) -> bool {
    let rwlock = locks.rwlock("writer", ()).unwrap();
    match rwlock.write_timeout(LIMIT_OF_WAITING).await {
        Ok(guard) => turn!(RwLockWriteGuard, guard, stay, book.writer),
        Err(_) => true,
    }
}

/// Every other call that reads answers. The members of an owner are not compared.
async fn others(locks: &Locks<RedisBackend>, random: &mut Random) -> bool {
    match random.below(5) {
        0 => {
            let semaphore = locks.semaphore("permits", 3).unwrap();
            semaphore.acquire_many_timeout(2, LIMIT_OF_WAITING).await.is_err()
        }
        1 => {
            let election = locks.election("leader").unwrap();
            election.campaign_timeout("me", LIMIT_OF_WAITING).await.is_err()
        }
        2 => locks.election("leader").unwrap().leader().await.is_err(),
        3 => {
            let readers = locks.rwlock("readers", ()).unwrap();
            readers.read_timeout(LIMIT_OF_WAITING).await.is_err()
        }
        _ => locks.inspect("mutex").await.is_err(),
    }
}
