//! The common parts of the tests.

mod crashes;
mod excluding;
mod history;
mod intruders;
mod keys;
mod mixers;
mod polls;
mod tokens;
mod traffic;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use lock_redis::RedisBackend;
use lock_sync::{Handoff, Locks, Mutex, RwLock, TryLockError};
use lock_tests::RedisServer;
pub(crate) use lock_tests::chaos::history::Way;
pub(crate) use lock_tests::{SOON, soon};

pub(crate) use self::crashes::{
    AT_ONCE, CLAIM, Fate, ROUNDING, SLACK, THIRD, kill_noticed, line_up, now, options, workers,
};
pub(crate) use self::excluding::{
    Denied, Excluding, Guard, TheMutex, TheOnePermit, TheReentrant, TheWriter,
    for_all_that_excludes,
};
pub(crate) use self::history::History;
pub(crate) use self::intruders::Intruders;
pub(crate) use self::keys::{LOCK, Lease, Leftovers, QUEUE, leases, ttl_of};
pub(crate) use self::mixers::Mixers;
pub(crate) use self::polls::{PolledOut, after_polls, give_up_at_every_poll, spin_until};
pub(crate) use self::tokens::{Grant, assert_tokens_increase};
pub(crate) use self::traffic::Traffic;
pub(crate) use self::waiting::{
    Waiting, asked_within, until_heard, until_in_line, until_quiet, until_refused, waiting,
};

/// The default lease. Its end comes too late for [`SOON`].
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// A new client with the defaults.
pub(crate) fn client(url: impl Into<String>) -> Locks<RedisBackend> {
    client_with(url, |redis| redis, |locks| locks)
}

/// A new client with other options.
pub(crate) fn client_with(
    url: impl Into<String>,
    redis: impl FnOnce(lock_redis::Builder) -> lock_redis::Builder,
    locks: impl FnOnce(lock_sync::Builder<RedisBackend>) -> lock_sync::Builder<RedisBackend>,
) -> Locks<RedisBackend> {
    let backend = redis(RedisBackend::builder(url)).build().unwrap();
    locks(Locks::builder(backend)).build().unwrap()
}

/// The lock at [`LOCK`].
pub(crate) fn mutex(locks: &Locks<RedisBackend>) -> Arc<Mutex<()>> {
    Arc::new(locks.mutex("it", ()).unwrap())
}

/// The reader-writer lock at [`LOCK`], around a number of this process.
pub(crate) fn rwlock(locks: &Locks<RedisBackend>) -> Arc<RwLock<u32>> {
    Arc::new(locks.rwlock("it", 0).unwrap())
}

/// Whether the error says that another client has the lock.
pub(crate) fn would_block<G>(tried: &Result<G, TryLockError>) -> bool {
    matches!(tried, Err(TryLockError::WouldBlock))
}

/// Two clients of one server: for the server they are two processes.
pub(crate) struct Pair {
    pub(crate) server: RedisServer,
    pub(crate) here: Locks<RedisBackend>,
    pub(crate) there: Locks<RedisBackend>,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(|redis| redis, |locks| locks)
    }

    /// Two clients that serve other processes before themselves.
    pub(crate) fn fair() -> Self {
        Self::with(|redis| redis, |locks| locks.handoff(Handoff::Fair))
    }

    /// Two clients with equal options.
    pub(crate) fn with(
        redis: impl Fn(lock_redis::Builder) -> lock_redis::Builder,
        locks: impl Fn(lock_sync::Builder<RedisBackend>) -> lock_sync::Builder<RedisBackend>,
    ) -> Self {
        Self::of(RedisServer::start(), redis, locks)
    }

    pub(crate) fn of(
        server: RedisServer,
        redis: impl Fn(lock_redis::Builder) -> lock_redis::Builder,
        locks: impl Fn(lock_sync::Builder<RedisBackend>) -> lock_sync::Builder<RedisBackend>,
    ) -> Self {
        let here = client_with(server.url(), &redis, &locks);
        let there = client_with(server.url(), &redis, &locks);
        Self { server, here, there }
    }

    /// A lock of any kind, on both sides.
    pub(crate) fn locks<X: Excluding>(&self) -> (X, X) {
        (X::of(&self.here), X::of(&self.there))
    }

    /// The lock at [`LOCK`], on both sides.
    pub(crate) fn mutexes(&self) -> (Arc<Mutex<()>>, Arc<Mutex<()>>) {
        (mutex(&self.here), mutex(&self.there))
    }
}
