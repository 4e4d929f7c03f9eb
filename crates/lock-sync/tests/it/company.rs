//! The cost of many idle keys: their renewals and repeated places are sent together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Clock, Error, Key, OwnerToken};
use lock_core::{Released, Renew, Renewal, Watch};
use lock_sync::{Locks, OwnedMutexGuard};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(30);
const MILLI: Duration = Duration::from_millis(1);

/// A client that sees which requests begin together: no task that was ready before runs between them.
#[derive(Clone)]
struct Observed {
    store: MemoryBackend,
    renewals: Arc<Mutex<Rounds>>,
    attempts: Arc<Mutex<Rounds>>,
}

/// The number of requests that began together each time, and how long an owner was silent in between.
#[derive(Default)]
struct Rounds {
    open: usize,
    closed: Vec<usize>,
    last: HashMap<OwnerToken, Instant>,
    longest: Duration,
}

impl Rounds {
    /// The number of commands for these requests if one command carries 64 requests.
    fn commands(&self) -> usize {
        self.closed.iter().map(|size| size.div_ceil(64)).sum()
    }

    fn requests(&self) -> usize {
        self.closed.iter().sum()
    }

    fn note(&mut self, owner: OwnerToken) {
        let now = Instant::now();
        if let Some(before) = self.last.insert(owner, now) {
            self.longest = self.longest.max(now - before);
        }
    }
}

impl Observed {
    fn new(store: &MemoryBackend) -> Self {
        let store = store.client();
        store.faults().delay_requests(MILLI);
        Self { store, renewals: Arc::default(), attempts: Arc::default() }
    }

    fn locks(&self) -> Locks<Self> {
        Locks::builder(self.clone()).ttl(TTL).on_runtime(Handle::current()).build().unwrap()
    }
}

/// Notes a request. The first request of a round spawns a task that ends the round, behind all tasks that are ready.
fn begin(rounds: &Arc<Mutex<Rounds>>, claim: &Claim) {
    let mut open = rounds.lock().unwrap();
    open.note(claim.owner);
    open.open += 1;
    if open.open == 1 {
        let rounds = Arc::clone(rounds);
        tokio::spawn(async move {
            let mut rounds = rounds.lock().unwrap();
            let size = std::mem::take(&mut rounds.open);
            rounds.closed.push(size);
        });
    }
}

#[async_trait]
impl Backend for Observed {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
        begin(&self.attempts, &request.claim);
        self.store.try_acquire(request).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        begin(&self.renewals, &request.claim);
        self.store.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        self.store.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch, Error> {
        self.store.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }
}

/// Lets one process hold this number of locks and another process wait for them, all from different times on.
async fn occupy(
    keys: u32,
    holders: &Locks<Observed>,
    waiters: &Locks<Observed>,
) -> (Vec<OwnedMutexGuard<()>>, Vec<JoinHandle<()>>) {
    let pause = TTL / 3 / keys;
    let (mut guards, mut tasks) = (Vec::new(), Vec::new());
    for key in 0..keys {
        let mutex = Arc::new(holders.mutex(key.to_string(), ()).unwrap());
        guards.push(mutex.lock_owned().await.unwrap());
        sleep(pause * 3 / 5).await;
        let mutex = Arc::new(waiters.mutex(key.to_string(), ()).unwrap());
        tasks.push(tokio::spawn(async move { drop(mutex.lock_owned().await) }));
        sleep(pause * 2 / 5).await;
    }
    (guards, tasks)
}

/// Wakes the driver every few milliseconds.
fn bustle(locks: &Locks<Observed>, key: &str) -> JoinHandle<()> {
    let mutex = Arc::new(locks.mutex(key, ()).unwrap());
    tokio::spawn(async move {
        let _held = Arc::clone(&mutex).lock_owned().await.unwrap();
        loop {
            assert!(mutex.lock_timeout(MILLI * 5).await.is_err());
            sleep(MILLI * 2).await;
        }
    })
}

/// The cost of renewals and places in three thirds of a lease, once they are sent together.
async fn cost(keys: u32, bustles: bool) {
    let store = MemoryBackend::new();
    let (holder, waiter) = (Observed::new(&store), Observed::new(&store));
    let (holders, waiters) = (holder.locks(), waiter.locks());
    let (guards, mut tasks) = occupy(keys, &holders, &waiters).await;
    if bustles {
        tasks.extend([bustle(&holders, "here"), bustle(&waiters, "there")]);
    }
    sleep(TTL / 3).await;
    for rounds in [&holder.renewals, &waiter.attempts] {
        *rounds.lock().unwrap() = Rounds::default();
    }
    sleep(TTL).await;
    for (what, rounds) in [("renewals", &holder.renewals), ("places", &waiter.attempts)] {
        let rounds = rounds.lock().unwrap();
        let (requests, commands) = (rounds.requests(), rounds.commands());
        let keys = keys as usize;
        assert!((keys * 3..keys * 3 * 11 / 10).contains(&requests), "{requests} {what}");
        assert!(rounds.closed.len() <= 3 * 12, "{what} in {} rounds", rounds.closed.len());
        assert!(commands <= 3 * (12 + keys / 64), "{what} in {commands} commands");
        assert!(rounds.longest <= TTL / 3 + MILLI * 15, "{what} after {:?}", rounds.longest);
    }
    assert!(guards.iter().all(|guard| OwnedMutexGuard::lease(guard).is_valid()));
    tasks.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn the_leases_and_places_of_many_keys_are_kept_in_company() {
    for keys in [100, 1_000, 3_000] {
        cost(keys, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_driver_keeps_the_leases_and_places_of_many_keys_in_company() {
    cost(1_000, true).await;
}
