//! A contestant with connected clients.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use lock_tests::CommandStats;

use crate::contestants::Ours;
use crate::measure::{self, Crowd, Idle, Idleness, Passes, Window};
use crate::other_build::{self, Remote};
use crate::team::{self, Orders, Part};
use crate::{Contestant, Failure, Setting};

/// A contestant with its clients, under the name of its row.
///
/// A handle: clones share the clients.
#[derive(Clone)]
pub struct Entrant {
    name: String,
    /// A number that makes its keys differ from the keys of every other entrant.
    number: u64,
    inner_commands: &'static [&'static str],
    clients: Arc<dyn Clients>,
}

impl Entrant {
    /// An entrant of these clients of one library. Tasks are spread over them.
    pub fn new<C: Contestant>(
        name: impl Into<String>,
        clients: impl IntoIterator<Item = C>,
    ) -> Self {
        let clients: Vec<Arc<C>> = clients.into_iter().map(Arc::new).collect();
        Self {
            name: name.into(),
            number: number(),
            inner_commands: C::INNER,
            clients: Arc::new(clients),
        }
    }

    /// This row of ours, measured by the [other build](crate::other_build) in a process of its own, if there is another
    /// build.
    ///
    /// # Errors
    ///
    /// If the process does not start.
    pub fn of_other_build(
        name: &str,
        url: &str,
        setting: Setting,
    ) -> Result<Option<Self>, Failure> {
        let remote = Remote::start(name, url, setting)?;
        Ok(remote.map(|remote| Self {
            name: other_build::row(name),
            number: number(),
            inner_commands: <Ours as Contestant>::INNER,
            clients: Arc::new(remote),
        }))
    }

    /// The name of its row.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of keys that no other entrant uses. Every call returns the same names.
    pub fn keys(&self, count: usize) -> Vec<String> {
        (0..count).map(|key| format!("bench:{:03}:{key:03}", self.number)).collect()
    }

    /// Names of keys that were never used before. A key that a crowd has used may still be held, because not every
    /// library releases the lock of an aborted task.
    pub fn fresh_keys(&self, count: usize) -> Vec<String> {
        static TIMES: AtomicU64 = AtomicU64::new(0);
        let time = TIMES.fetch_add(1, Ordering::Relaxed);
        (0..count).map(|key| format!("bench:{:03}:{time:04}:{key:03}", self.number)).collect()
    }

    /// How many of the commands that the server counted came over the network.
    pub fn sent(&self, stats: &CommandStats) -> u64 {
        let sent = stats.iter().filter(|(name, _)| !self.inner_commands.contains(name));
        sent.map(|(_, calls)| calls).sum()
    }

    /// Locks and unlocks keys in turn, `count` times. Returns the time that this took.
    ///
    /// # Errors
    ///
    /// Those of the contestant.
    pub fn pairs(
        &self,
        keys: &[String],
        count: u64,
    ) -> BoxFuture<'static, Result<Duration, Failure>> {
        Arc::clone(&self.clients).pairs(keys.to_vec(), count)
    }

    /// Locks and unlocks a key for a while, and notes how long each pass took. A pass that takes longer than `limit`
    /// has failed.
    ///
    /// # Errors
    ///
    /// If the name is refused.
    pub fn passes(
        &self,
        key: String,
        time: Duration,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Passes, Failure>> {
        Arc::clone(&self.clients).passes(key, time, limit)
    }

    /// Runs a crowd of tasks.
    ///
    /// # Errors
    ///
    /// Those of the contestant.
    pub fn crowd(&self, crowd: Crowd) -> BoxFuture<'static, Result<Window, Failure>> {
        Arc::clone(&self.clients).crowd(crowd, self.inner_commands)
    }

    /// Lets tasks of the second client wait for locks that the first client holds.
    ///
    /// # Errors
    ///
    /// Those of the contestant; and if it has only one client.
    pub fn idle(&self, idle: Idle) -> BoxFuture<'static, Result<Idleness, Failure>> {
        Arc::clone(&self.clients).idle(idle, self.inner_commands)
    }

    /// Takes part in a team, with the first client.
    ///
    /// # Errors
    ///
    /// Those of the contestant; and if the captain is gone.
    pub(crate) fn member(
        &self,
        part: Part,
        orders: Orders,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        Arc::clone(&self.clients).member(part, orders)
    }
}

/// A number that no other entrant of this process has.
fn number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Entrant").field(&self.name).finish()
    }
}

/// The measurements, each compiled for its contestant.
pub(crate) trait Clients: Send + Sync {
    fn pairs(
        self: Arc<Self>,
        keys: Vec<String>,
        count: u64,
    ) -> BoxFuture<'static, Result<Duration, Failure>>;

    fn passes(
        self: Arc<Self>,
        key: String,
        time: Duration,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Passes, Failure>>;

    fn crowd(
        self: Arc<Self>,
        crowd: Crowd,
        inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Window, Failure>>;

    fn idle(
        self: Arc<Self>,
        idle: Idle,
        inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Idleness, Failure>>;

    fn member(
        self: Arc<Self>,
        part: Part,
        orders: Orders,
    ) -> BoxFuture<'static, Result<(), Failure>>;
}

impl<C: Contestant> Clients for Vec<Arc<C>> {
    fn pairs(
        self: Arc<Self>,
        keys: Vec<String>,
        count: u64,
    ) -> BoxFuture<'static, Result<Duration, Failure>> {
        async move {
            let client = self.first().ok_or("a contestant without clients")?;
            measure::pairs(client.as_ref(), &keys, count).await
        }
        .boxed()
    }

    fn passes(
        self: Arc<Self>,
        key: String,
        time: Duration,
        limit: Duration,
    ) -> BoxFuture<'static, Result<Passes, Failure>> {
        async move {
            let client = self.first().ok_or("a contestant without clients")?;
            measure::passes(client.as_ref(), &key, time, limit).await
        }
        .boxed()
    }

    fn crowd(
        self: Arc<Self>,
        crowd: Crowd,
        inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Window, Failure>> {
        async move { measure::crowd(&self, crowd, inner_commands).await }.boxed()
    }

    fn idle(
        self: Arc<Self>,
        idle: Idle,
        inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Idleness, Failure>> {
        async move {
            let [holder, waiter, ..] = self.as_slice() else {
                return Err("the waiter and the holder are different clients".into());
            };
            measure::idle(holder, waiter, idle, inner_commands).await
        }
        .boxed()
    }

    fn member(
        self: Arc<Self>,
        part: Part,
        orders: Orders,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        async move {
            let client = self.first().ok_or("a contestant without clients")?;
            team::member(Arc::clone(client), part, orders).await
        }
        .boxed()
    }
}
