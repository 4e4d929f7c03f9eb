//! The state that all locks of one [`Locks`](crate::Locks) share.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::time::Duration;

use lock_core::observer::Observers;
use lock_core::{Backend, Clock, Error, ErrorKind, Key, Label, OwnerToken, PermitBackend, Ttl};
use tokio::runtime::Handle;

use super::closed::ClosedForAll;
use super::driver::{Driver, Errand, Flights, Timed, Timers};
use super::ears::Ears;
use super::labels::Labels;
use super::machine::Denial;
use super::manner::Manner;
use super::policy::Policy;
use super::queue::Patience;
use super::sample::Sampling;
use super::timing::renewal_window;
use crate::foreign::Bell;
use crate::handoff::Handoff;
use crate::sync::{Mutex, MutexGuard, now};

/// The entry of one key, as far as the state that all entries share knows it.
pub(crate) trait Keyed: Timed + Sized {
    /// What the driver does for entries.
    type Command: Errand;

    fn new(shared: Arc<Shared<Self>>, key: Key, group: Option<OwnerToken>, policy: Policy) -> Self;

    /// Refuses new callers.
    fn close(self: &Arc<Self>);

    /// The driver has gone, with all its requests.
    fn stop(self: &Arc<Self>, error: &Error);
}

/// The runtime on which the backend spawns tasks and sleeps for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The runtime of the task that asks, where the answer arrives without waking another thread. If the task has no
    /// runtime, the driver's.
    Asker,
    Driver,
}

/// How long the caller is ready to wait. A limit begins with the first poll.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Try,
    AtMost(Duration),
    Forever,
}

/// The choices of an app for all its locks, except the length of the lease.
pub(crate) struct Choices {
    pub(crate) renew: bool,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) outage_limit: Option<Duration>,
    pub(crate) shutdown_limit: Option<Duration>,
    pub(crate) handoff: Handoff,
    pub(crate) label: Option<Label>,
    pub(crate) prefix: Vec<u8>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) home: Home,
    pub(crate) observers: Observers,
    pub(crate) sampling: Sampling,
}

/// The state that all locks of one [`Locks`](crate::Locks) share.
pub(crate) struct Shared<E: Keyed> {
    pub(crate) backend: Arc<dyn Backend>,
    /// The backend as one that grants permits, once there is a semaphore.
    pub(crate) counting: OnceLock<Arc<dyn PermitBackend>>,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
    /// The manner of a lock that has none of its own.
    pub(crate) manner: Manner,
    pub(crate) timers: Arc<Timers<E>>,
    pub(crate) flights: Arc<Flights>,
    /// The runtime for requests that a task waits for.
    pub(crate) home: Home,
    pub(super) ears: Ears,
    pub(crate) labels: Arc<Labels>,
    pub(crate) observers: Observers,
    /// Of which acquisitions the observers hear.
    pub(super) sampling: Sampling,
    wait_limit: Option<Duration>,
    /// How long a shutdown waits.
    pub(crate) shutdown_limit: Duration,
    prefix: Vec<u8>,
    on_runtime: Option<Handle>,
    driver: OnceLock<Driver<E::Command>>,
    /// Held while the driver is started.
    starting: Mutex<()>,
    registry: Mutex<Registry<E>>,
    /// Rings at the shutdown, for tasks that wait for something other than a lock.
    closing: Bell,
}

struct Registry<E> {
    entries: HashMap<Key, Named<E>>,
    closed: bool,
}

/// The entries of one key: one for each group that holds jointly, and one for all other holders. Locks with policies
/// of their own have entries of their own.
struct Named<E> {
    /// The entry with the policy of all locks, for holders outside groups.
    plain: Weak<E>,
    others: HashMap<(Option<OwnerToken>, Policy), Weak<E>>,
    /// Once there is a semaphore with this name.
    closed_for_all: Option<Arc<ClosedForAll>>,
}

impl<E> Named<E> {
    fn new() -> Self {
        Self { plain: Weak::new(), others: HashMap::new(), closed_for_all: None }
    }

    /// `plain`: the policy is that of all locks.
    fn entry(&mut self, group: Option<OwnerToken>, policy: &Policy, plain: bool) -> &mut Weak<E> {
        match group {
            None if plain => &mut self.plain,
            _ => self.others.entry((group, policy.clone())).or_default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = Arc<E>> {
        std::iter::once(&self.plain).chain(self.others.values()).filter_map(Weak::upgrade)
    }
}

impl<E: Keyed> Shared<E> {
    pub(crate) fn new(backend: Arc<dyn Backend>, ttl: Ttl, choices: Choices) -> Self {
        let clock = backend.clock();
        let labels = Arc::<Labels>::default();
        let label = labels.of(&choices.label.unwrap_or_else(Label::of_process));
        Self {
            clock,
            policy: Policy {
                ttl,
                renew: choices.renew,
                max_hold: choices.max_hold,
                outage_limit: choices.outage_limit,
                converts: backend.capabilities().converter().is_some(),
                label,
            },
            manner: Manner::new(choices.handoff),
            timers: Arc::new(Timers::new(clock, renewal_window(ttl), choices.observers.clone())),
            flights: Arc::default(),
            backend,
            counting: OnceLock::new(),
            home: choices.home,
            ears: Ears::default(),
            labels,
            observers: choices.observers,
            sampling: choices.sampling,
            wait_limit: choices.wait_limit,
            shutdown_limit: choices.shutdown_limit.unwrap_or(ttl.duration()),
            prefix: choices.prefix,
            on_runtime: choices.runtime,
            driver: OnceLock::new(),
            starting: Mutex::new(()),
            registry: Mutex::new(Registry { entries: HashMap::new(), closed: false }),
            closing: Bell::default(),
        }
    }

    /// What every name begins with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// How long `lock` waits by default.
    pub(crate) fn default_wait(&self) -> Wait {
        self.wait_limit.map_or(Wait::Forever, Wait::AtMost)
    }

    /// A wait that begins now.
    pub(super) fn begin(self: &Arc<Self>, wait: Wait) -> Result<Patience, Denial> {
        self.start().map_err(Denial::Failed)?;
        Ok(match wait {
            Wait::Try => Patience::Try,
            Wait::AtMost(limit) => Patience::Until(now(self.clock) + limit),
            Wait::Forever => Patience::Forever,
        })
    }

    /// Starts the driver if there is none yet.
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), Error> {
        if self.driver.get().is_none() {
            let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.driver.get().is_none() {
                let shared = Arc::downgrade(self);
                let gone = move || {
                    if let Some(shared) = shared.upgrade() {
                        shared.stop();
                    }
                };
                let runtime = self.on_runtime.clone();
                let (labels, backend) = (Arc::clone(&self.labels), Arc::clone(&self.backend));
                let lease = self.policy.ttl.duration();
                let beside = async move { labels.introduce(&*backend, lease).await };
                let driver = Driver::start(runtime, &self.timers, &self.flights, beside, gone)?;
                let _ = self.driver.set(driver);
            }
        }
        match self.driver.get() {
            Some(driver) if driver.is_running() => Ok(()),
            _ => Err(stopped()),
        }
    }

    /// Whether the driver was started and has not gone.
    pub(crate) fn is_driven(&self) -> bool {
        self.driver.get().is_some_and(Driver::is_running)
    }

    /// The driver has gone.
    fn stop(&self) {
        for entry in self.entries() {
            entry.stop(&stopped());
        }
    }

    /// Waits until further acquisitions are refused.
    pub(crate) async fn closed(&self) {
        let closing = self.closing.listen();
        if !self.is_closed() {
            closing.await;
        }
    }

    pub(crate) fn runtime(&self) -> Option<&Handle> {
        self.driver.get().map(Driver::runtime)
    }

    pub(crate) fn send(&self, command: E::Command) {
        if let Some(driver) = self.driver.get() {
            driver.send(command);
        }
    }

    pub(crate) fn entry(self: &Arc<Self>, key: Key, policy: Policy) -> Result<Arc<E>, Error> {
        let key = if self.prefix.is_empty() || key.is_as_is() {
            key
        } else {
            Key::new([&self.prefix, key.as_bytes()].concat())?
        };
        Ok(self.named(key, None, policy))
    }

    /// The entry with this policy, of a group that holds this key jointly or of all other holders. The key has the
    /// prefix.
    pub(crate) fn named(
        self: &Arc<Self>,
        key: Key,
        group: Option<OwnerToken>,
        policy: Policy,
    ) -> Arc<E> {
        let new = || Arc::new(E::new(Arc::clone(self), key.clone(), group, policy.clone()));
        self.named_or(&key, group, &policy, new)
    }

    /// The entry with this name, or else a new entry, which has this name from now on.
    pub(super) fn named_or(
        &self,
        key: &Key,
        group: Option<OwnerToken>,
        policy: &Policy,
        new: impl FnOnce() -> Arc<E>,
    ) -> Arc<E> {
        let mut registry = self.registry();
        let closed = registry.closed;
        let named = registry.entries.entry(key.clone()).or_insert_with(Named::new);
        let slot = named.entry(group, policy, *policy == self.policy);
        let entry = slot.upgrade().unwrap_or_else(|| {
            let entry = new();
            *slot = Arc::downgrade(&entry);
            entry
        });
        drop(registry);
        if closed {
            entry.close();
        }
        entry
    }

    /// Removes an entry that is gone from the registry, unless it has a successor.
    pub(crate) fn deregister(&self, key: &Key, group: Option<OwnerToken>, policy: &Policy) {
        let mut registry = self.registry();
        let Some(named) = registry.entries.get_mut(key) else { return };
        let other = (group, policy.clone());
        if named.others.get(&other).is_some_and(|entry| entry.strong_count() == 0) {
            named.others.remove(&other);
        }
        if named.others.is_empty() && named.plain.strong_count() == 0 {
            registry.entries.remove(key);
        }
    }

    /// The entries of this key.
    pub(crate) fn entries_of(&self, key: &Key) -> Vec<Arc<E>> {
        self.registry().entries.get(key).map(|named| named.all().collect()).unwrap_or_default()
    }

    /// Whether the semaphore of this key is closed for all, as far as this process knows. A handle of this key must
    /// exist.
    pub(crate) fn closed_for_all(&self, key: &Key) -> Arc<ClosedForAll> {
        let mut registry = self.registry();
        let named = registry.entries.get_mut(key);
        let known = named.map(|named| named.closed_for_all.get_or_insert_default());
        known.cloned().unwrap_or_default()
    }

    pub(crate) fn close(&self) -> Vec<Arc<E>> {
        self.registry().closed = true;
        self.closing.ring();
        self.entries()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.registry().closed
    }

    fn entries(&self) -> Vec<Arc<E>> {
        self.registry().entries.values().flat_map(Named::all).collect()
    }

    fn registry(&self) -> MutexGuard<'_, Registry<E>> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::ShuttingDown,
        "the driver of the locks has stopped: its runtime was shut down, or has no timer",
    )
}
