//! The common state of all tasks of a client.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use lock_tests::Random;
use lock_tests::chaos::Deployment;
use lock_tests::chaos::history::Recorder;
use tokio::task::JoinSet;

use super::ears::Ears;
use super::flaw::Flaw;
use super::historic::Historic;
use super::journal::Journal;
use super::lease::now;
use super::link::{Failed, Link};
use super::quorum::Quorum;
use super::store::{One, Store};
use crate::worker::{Options, digest};

/// How long a server may take to answer, on a late machine, too.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) struct World {
    pub(super) flaw: Flaw,
    pub(super) ttl: Duration,
    pub(super) fair: bool,
    pub(super) store: Store,
    /// Only for one server: a waiter for several servers, or of a historic design, asks now and then.
    pub(super) ears: Option<Ears>,
    pub(super) journal: Arc<Journal>,
    client: String,
    owners: AtomicU64,
    /// The work that no task waits for.
    later: Mutex<JoinSet<()>>,
    /// Until when tries are refused without a request.
    refused: Mutex<HashMap<String, Instant>>,
    /// The first token of each lock.
    first: Mutex<HashMap<String, FencingToken>>,
}

impl World {
    pub(super) fn new(options: &Options, flaw: Flaw) -> Result<Arc<Self>, String> {
        let limit = options.node_timeout.unwrap_or(LIMIT);
        let open = |url: &String| Link::new(url, limit, flaw).map(Arc::new);
        let links: Result<Vec<_>, _> = options.urls.iter().map(open).collect();
        let links = links.map_err(|error| error.to_string())?;
        let (ttl, mut ears) = (options.ttl, None);
        let store = if let (Flaw::Historic(design), [link]) = (flaw, &links[..]) {
            Store::Old(Historic::new(Arc::clone(link), ttl, design, &options.client))
        } else if let [link] = &links[..] {
            ears = Some(Ears::open(Arc::clone(link), flaw));
            let queues = options.deployment == Deployment::Redis;
            Store::One(One { link: Arc::clone(link), ttl, queues, flaw })
        } else {
            let max_ttl = options.max_ttl.unwrap_or(ttl);
            let random = Mutex::new(Random::from_seed(options.seed));
            let quorum =
                Arc::new(Quorum { links, ttl, max_ttl, flaw, random, given_up: Mutex::default() });
            for number in 0..quorum.links.len() {
                tokio::spawn(Arc::clone(&quorum).watch(number));
            }
            Store::Many(quorum)
        };
        let recorder = Recorder::open(&options.folder, &options.client);
        let recorder = recorder.map_err(|error| error.to_string())?;
        Ok(Arc::new(Self {
            flaw,
            ttl,
            fair: options.fair,
            store,
            ears,
            journal: Arc::new(Journal::new(recorder)),
            client: options.client.clone(),
            owners: AtomicU64::new(0),
            later: Mutex::default(),
            refused: Mutex::default(),
            first: Mutex::default(),
        }))
    }

    /// An owner that no other task is. There is no attacker here, so a guessable number does no
    /// harm.
    pub(super) fn owner(&self) -> String {
        format!("{}-{}", self.client, self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// A value that is unique in the run, whereas the random numbers of all clients are the same.
    pub(super) fn value(&self) -> u64 {
        digest(&self.owner())
    }

    /// The server, if there is only one.
    pub(super) fn link(&self) -> Result<&Arc<Link>, Failed> {
        match &self.store {
            Store::One(one) => Ok(&one.link),
            Store::Old(_) | Store::Many(_) => Err(Failed),
        }
    }

    /// The token that a holder with this token shows the resource.
    pub(super) fn shown(&self, key: &str, token: FencingToken) -> FencingToken {
        if self.flaw != Flaw::OtherToken {
            return token;
        }
        *lock(&self.first).entry(key.to_owned()).or_insert(token)
    }

    /// Runs work that no task waits for.
    pub(super) fn later(&self, what: impl Future<Output = ()> + Send + 'static) {
        let mut later = lock(&self.later);
        while later.try_join_next().is_some() {}
        later.spawn(what);
    }

    /// Returns when all of that work is done.
    pub(super) async fn settle(&self) {
        let later = std::mem::take(&mut *lock(&self.later));
        later.join_all().await;
    }

    /// A try was refused, by a holder with this much time left.
    pub(super) fn refuse(&self, key: &str, time: Duration) {
        if self.flaw == Flaw::StaleTry {
            lock(&self.refused).insert(key.to_owned(), now() + time);
        }
    }

    pub(super) fn is_refused(&self, key: &str) -> bool {
        lock(&self.refused).get(key).is_some_and(|until| now() < *until)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
