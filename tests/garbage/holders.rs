//! The leases that a backend believes to hold, compared with the data of the server.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, CellBackend, Claim, Clock, Error, ErrorKind, Hint,
    InspectBackend, Instant, Key, OwnerToken, Renew, Renewal, Ttl,
};
use lock_redis::RedisBackend;
use lock_tests::{Random, RedisServer, eventually_async};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Harm, LIMIT, Mangler, Memory, Panics, SOON, Setup, Word, owner_of};

/// The locks that all clients want, so that a connection has requests for several of them under way.
const NAMES: usize = 6;
const CLIENTS: usize = 4;
const TASKS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_resp3_no_nonsense_is_taken_for_a_grant() {
    bear(Setup::RESP3, &Harm::ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_resp2_no_nonsense_is_taken_for_a_grant() {
    bear(Setup::RESP2, &Harm::ALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tracking_no_nonsense_is_taken_for_a_grant() {
    bear(Setup::TRACKING, &Harm::ALL).await;
}

/// A connection pairs requests with replies by their order alone. If a reply is missing, or there is one
/// too many, a reply reaches the next request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_to_another_is_not_taken_for_a_grant() {
    use Harm::{Dropped, Other, Push, Twice};
    bear(Setup::RESP3, &[Dropped, Twice, Push, Other]).await;
}

/// The judge of this file can tell holders from other clients.
#[tokio::test]
async fn a_false_claim_to_a_lease_is_found_out() {
    let server = RedisServer::start();
    let (backend, mut word) = (Setup::RESP3.client(&server.url()), Word::of(server.addr()));
    let (claim, other) = (claim("0"), claim("0"));
    let now = Clock::boot().now();
    let later = now + Duration::from_secs(60);
    assert!(word.against("0", &claim.owner, later).is_some());
    let request = Acquire::new(claim.clone(), Ttl::DEFAULT);
    let until = granted(backend.try_acquire(&request).await.unwrap()).unwrap();
    assert_eq!(word.against("0", &claim.owner, until), None);
    assert!(word.against("0", &other.owner, later).is_some());
    assert!(word.against("1", &claim.owner, later).is_some());
    // Claims that are over are not judged.
    assert_eq!(word.against("0", &other.owner, now), None);
    assert_eq!(word.against_the_end("0", &other.owner), None);
    assert!(word.against_the_end("0", &claim.owner).is_some());
    let watch = backend.watch(&other.key).await.unwrap();
    let queued = backend.try_acquire(&Acquire::new(other.clone(), Ttl::DEFAULT).queued()).await;
    assert!(matches!(queued, Ok(AcquireOutcome::Queued { .. })));
    assert!(word.against_the_end("0", &other.owner).is_some());
    for claim in [&other, &claim] {
        backend.release(claim).await.unwrap();
        assert_eq!(word.against_the_end("0", &claim.owner), None);
    }
    drop(watch);
}

/// Several clients want a few locks while the replies of the server are harmed, and afterwards.
async fn bear(setup: Setup, harms: &[Harm]) {
    let panics = Panics::watch();
    let memory = Memory::watch();
    let mut random = Random::from_env("LOCK_GARBAGE_SEED");
    let server = RedisServer::start();
    let mangler = Mangler::start(server.addr(), random.fork());
    let start = |index| Client::start(setup, mangler.url(), index > 0);
    let clients: Vec<_> = (0..CLIENTS).map(start).collect();
    let seen = Arc::new(Seen::default());
    let mut tasks = JoinSet::new();
    for client in &clients {
        for _ in 0..TASKS {
            let word = Word::of(server.addr());
            let person = Person {
                backend: client.backend(),
                client: Arc::clone(client),
                seen: Arc::clone(&seen),
                random: random.fork(),
                failures: AtomicUsize::new(0),
            };
            tasks.spawn(person.live(word));
        }
    }
    mangler.do_all(harms).await;
    let granted = async || seen.grants.load(Ordering::Relaxed) > 50;
    eventually_async("some are granted", SOON, granted).await;
    seen.over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    for (index, client) in clients.iter().enumerate() {
        works_again(&client.backend(), &format!("calm/{index}")).await;
    }
    panics.none();
    memory.is_bounded();
    println!("{setup:?}: {seen:?} after {:?}", mangler.done());
    assert_eq!(*seen.wrong(), Vec::<String>::new());
    assert!(!seen.errors().is_empty(), "nothing was noticed");
    assert!(seen.ends.load(Ordering::Relaxed) > 0, "nothing was compared");
}

/// A client, and a new one in its place when it is left without a connection, so that there is always a
/// client that asks. One client is never replaced, and has to recover.
struct Client {
    setup: Setup,
    url: String,
    is_replaced: bool,
    backend: Mutex<RedisBackend>,
}

impl Client {
    fn start(setup: Setup, url: String, is_replaced: bool) -> Arc<Self> {
        let backend = Mutex::new(setup.client(&url));
        Arc::new(Self { setup, url, is_replaced, backend })
    }

    fn backend(&self) -> RedisBackend {
        self.backend.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self) {
        if self.is_replaced {
            let fresh = self.setup.client(&self.url);
            *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        }
    }
}

/// Soon every request succeeds, and goes on to succeed.
async fn works_again(client: &RedisBackend, name: &str) {
    let calm = async {
        let mut in_a_row = 0;
        while in_a_row < 20 {
            let claim = claim(name);
            let request = Acquire::new(claim.clone(), ttl());
            let granted =
                matches!(client.try_acquire(&request).await, Ok(AcquireOutcome::Granted(_)));
            let released = client.release(&claim).await.is_ok();
            in_a_row = if granted && released { in_a_row + 1 } else { 0 };
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, calm).await.expect("it does not recover");
}

/// The outcome.
#[derive(Debug, Default)]
struct Seen {
    over: AtomicBool,
    grants: AtomicUsize,
    pushed: AtomicUsize,
    renewals: AtomicUsize,
    /// The number of claims that are known to be over, because every answer came.
    ends: AtomicUsize,
    wrong: Mutex<Vec<String>>,
    errors: Mutex<BTreeMap<String, usize>>,
}

impl Seen {
    fn wrong(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn errors(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, usize>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One task of a client.
struct Person {
    client: Arc<Client>,
    backend: RedisBackend,
    seen: Arc<Seen>,
    random: Random,
    /// The number of its requests that had no answer.
    failures: AtomicUsize,
}

impl Person {
    async fn live(mut self, mut word: Word) {
        while !self.seen.over.load(Ordering::Relaxed) {
            let name = self.random.below(NAMES).to_string();
            let claim = claim(&name);
            let failures = self.failures.load(Ordering::Relaxed);
            let until = if self.random.percent(40) {
                self.wait_for(&claim).await
            } else {
                self.ask(&Acquire::new(claim.clone(), ttl())).await.and_then(granted)
            };
            if let Some(until) = until {
                self.seen.grants.fetch_add(1, Ordering::Relaxed);
                self.compare(&mut word, "a grant", &name, &claim, until);
                if self.random.percent(50) {
                    self.renew(&mut word, &name, &claim).await;
                }
            }
            if self.random.percent(10) {
                self.look(&claim.key).await;
            }
            let released = self.within(self.backend.release(&claim)).await;
            // A request without an answer may reach the server after the release.
            if released.is_ok() && failures == self.failures.load(Ordering::Relaxed) {
                self.seen.ends.fetch_add(1, Ordering::Relaxed);
                self.refute(word.against_the_end(&name, &claim.owner), "a release");
            }
            if let Err(error) = released {
                if error.kind() == ErrorKind::Unreachable {
                    self.client.replace();
                }
                self.note(&claim, Some(error));
                // The client sends nothing for a while.
                tokio::time::sleep(Duration::from_millis(2)).await;
                self.backend = self.client.backend();
            }
        }
    }

    /// Takes a place in the queue, and believes the answer.
    async fn wait_for(&self, claim: &Claim) -> Option<Instant> {
        let watch = self.within(self.backend.watch(&claim.key)).await;
        let mut watch = match watch {
            Ok(watch) => watch,
            Err(error) => {
                self.note(claim, Some(error));
                return None;
            }
        };
        let request = Acquire::new(claim.clone(), ttl()).queued();
        match self.ask(&request).await? {
            AcquireOutcome::Granted(grant) => return Some(grant.valid_until),
            AcquireOutcome::Queued { .. } => {}
            _ => return None,
        }
        let told = async {
            while let Some(hint) = watch.next().await {
                if let Hint::Granted { owner, grant } = hint
                    && owner == claim.owner
                {
                    return grant;
                }
            }
            None
        };
        if let Ok(Some(grant)) = timeout(Duration::from_millis(50), told).await {
            self.seen.pushed.fetch_add(1, Ordering::Relaxed);
            return Some(grant.valid_until);
        }
        self.ask(&request).await.and_then(granted)
    }

    async fn ask(&self, request: &Acquire) -> Option<AcquireOutcome> {
        match self.within(self.backend.try_acquire(request)).await {
            Ok(attempt) => Some(attempt),
            Err(error) => {
                self.note(&request.claim, Some(error));
                None
            }
        }
    }

    async fn renew(&self, word: &mut Word, name: &str, claim: &Claim) {
        match self.within(self.backend.renew(&Renew::new(claim.clone(), ttl()))).await {
            Renewal::Renewed { valid_until, .. } => {
                self.seen.renewals.fetch_add(1, Ordering::Relaxed);
                self.compare(word, "a renewal", name, claim, valid_until);
            }
            Renewal::Unknown(error) => self.note(claim, Some(error)),
            _ => self.refute(word.against_the_end(name, &claim.owner), "a renewal"),
        }
    }

    /// Every other request that reads.
    async fn look(&self, key: &Key) {
        let claim = Claim::exclusive(key.clone(), OwnerToken::from_bytes([0; 16]));
        let inspected = self.within(self.backend.inspect(key)).await;
        self.note(&claim, inspected.err());
        match self.within(self.backend.load(key)).await {
            // No client writes one.
            Ok(cell) => self.refute(cell.map(|it| format!("there is a {it:?}")), "a look"),
            Err(error) => self.note(&claim, Some(error)),
        }
    }

    fn compare(&self, word: &mut Word, what: &str, name: &str, claim: &Claim, until: Instant) {
        self.refute(word.against(name, &claim.owner, until), what);
    }

    fn refute(&self, wrong: Option<String>, what: &str) {
        if let Some(wrong) = wrong {
            self.seen.wrong().push(format!("after {what}, {wrong}"));
        }
    }

    /// No request takes longer than a connection, a script that has to be loaded, and an answer.
    async fn within<T>(&self, request: impl Future<Output = T>) -> T {
        timeout(LIMIT, request).await.expect("a request that never ends")
    }

    /// Counts an error by its kind. No error shows the token of the claim.
    fn note(&self, claim: &Claim, error: Option<Error>) {
        let Some(error) = error else { return };
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut shown = format!("{error} {error:?}");
        let mut source = error.source();
        while let Some(inner) = source {
            shown.push_str(&format!(" {inner} {inner:?}"));
            source = inner.source();
        }
        if shown.contains(&owner_of(&claim.owner)) {
            self.seen.wrong().push(format!("an error shows a token: {shown}"));
        }
        *self.seen.errors().entry(format!("{:?}", error.kind())).or_default() += 1;
    }
}

fn granted(attempt: AcquireOutcome) -> Option<Instant> {
    match attempt {
        AcquireOutcome::Granted(grant) => Some(grant.valid_until),
        _ => None,
    }
}

fn claim(name: &str) -> Claim {
    Claim::exclusive(Key::new(name).unwrap(), OwnerToken::generate().unwrap())
}

fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(2)).unwrap()
}
