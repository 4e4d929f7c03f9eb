//! What all locks of one handle have in common.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use lock_core::{Backend, Clock, Error, ErrorKind, Key, OwnerToken, PermitBackend, Ttl};
use tokio::runtime::Handle;

use super::Entry;
use super::acquiring::Wait;
use super::command::Command;
use super::driver::{Driver, Flights, Timers};
use super::ears::Ears;
use super::machine::{Manner, Policy, renewal_window};
use super::running::Home;
use crate::foreign::Bell;
use crate::handoff::Handoff;

/// What an app chooses for all its locks, other than the length of the lease.
pub(crate) struct Choices {
    pub(crate) renew: bool,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) handoff: Handoff,
    pub(crate) prefix: Vec<u8>,
    pub(crate) runtime: Option<Handle>,
    pub(crate) home: Home,
}

/// What all locks of one [`Locks`](crate::Locks) have in common.
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    /// The same, for the semaphores, once there is one.
    pub(crate) counting: OnceLock<Arc<dyn PermitBackend>>,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
    /// What becomes of a lock, unless it is said for the lock itself.
    pub(crate) manner: Manner,
    pub(crate) timers: Arc<Timers<Entry>>,
    pub(crate) flights: Arc<Flights>,
    /// Where the requests belong for which a task waits.
    pub(crate) home: Home,
    pub(super) ears: Ears,
    wait_limit: Option<Duration>,
    prefix: Vec<u8>,
    on_runtime: Option<Handle>,
    driver: OnceLock<Driver<Command>>,
    /// Held while the driver is started.
    starting: Mutex<()>,
    registry: Mutex<Registry>,
    /// Rings at the shutdown, for the tasks that wait for other things than a lock.
    closing: Bell,
}

#[derive(Default)]
struct Registry {
    entries: HashMap<Key, Named>,
    closed: bool,
}

/// The entries of one key: one for each group that holds jointly, and one for every other holder.
#[derive(Default)]
struct Named {
    plain: Weak<Entry>,
    joint: HashMap<OwnerToken, Weak<Entry>>,
}

impl Named {
    fn entry(&mut self, group: Option<OwnerToken>) -> &mut Weak<Entry> {
        match group {
            None => &mut self.plain,
            Some(group) => self.joint.entry(group).or_default(),
        }
    }

    fn all(&self) -> impl Iterator<Item = Arc<Entry>> {
        std::iter::once(&self.plain).chain(self.joint.values()).filter_map(Weak::upgrade)
    }
}

impl Shared {
    pub(crate) fn new(backend: Arc<dyn Backend>, ttl: Ttl, choices: Choices) -> Self {
        let clock = backend.clock();
        Self {
            clock,
            policy: Policy {
                ttl,
                renew: choices.renew,
                max_hold: choices.max_hold,
                converts: backend.converter().is_some(),
            },
            manner: Manner { handoff: choices.handoff, cache: None },
            timers: Arc::new(Timers::new(clock, renewal_window(ttl))),
            flights: Arc::default(),
            backend,
            counting: OnceLock::new(),
            home: choices.home,
            ears: Ears::default(),
            wait_limit: choices.wait_limit,
            prefix: choices.prefix,
            on_runtime: choices.runtime,
            driver: OnceLock::new(),
            starting: Mutex::new(()),
            registry: Mutex::default(),
            closing: Bell::default(),
        }
    }

    /// How long `lock` waits by default.
    pub(crate) fn default_wait(&self) -> Wait {
        self.wait_limit.map_or(Wait::Forever, Wait::AtMost)
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
                let driver = Driver::start(runtime, &self.timers, &self.flights, gone)?;
                let _ = self.driver.set(driver);
            }
        }
        match self.driver.get() {
            Some(driver) if driver.is_running() => Ok(()),
            _ => Err(stopped()),
        }
    }

    /// Whether there is a driver, and it has not gone.
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
        let closing = Bell::listen(&self.closing);
        if !self.is_closed() {
            closing.await;
        }
    }

    pub(crate) fn runtime(&self) -> Option<&Handle> {
        self.driver.get().map(Driver::runtime)
    }

    pub(crate) fn send(&self, command: Command) {
        if let Some(driver) = self.driver.get() {
            driver.send(command);
        }
    }

    pub(crate) fn entry(self: &Arc<Self>, key: Key) -> Result<Arc<Entry>, Error> {
        let key = if self.prefix.is_empty() || key.is_as_is() {
            key
        } else {
            Key::new([&self.prefix, key.as_bytes()].concat())?
        };
        Ok(self.named(key, None))
    }

    /// The entry of a group that holds this key jointly.
    pub(crate) fn joint_entry(self: &Arc<Self>, key: &Key, group: OwnerToken) -> Arc<Entry> {
        self.named(key.clone(), Some(group))
    }

    fn named(self: &Arc<Self>, key: Key, group: Option<OwnerToken>) -> Arc<Entry> {
        let mut registry = self.registry();
        let closed = registry.closed;
        let slot = registry.entries.entry(key.clone()).or_default().entry(group);
        let entry = slot.upgrade().unwrap_or_else(|| {
            let entry = Arc::new(Entry::new(Arc::clone(self), key, group));
            *slot = Arc::downgrade(&entry);
            entry
        });
        drop(registry);
        if closed {
            entry.close();
        }
        entry
    }

    /// Drops the name of an entry that is gone, unless it has a successor.
    pub(crate) fn forget(&self, key: &Key, group: Option<OwnerToken>) {
        let mut registry = self.registry();
        let Some(named) = registry.entries.get_mut(key) else { return };
        if let Some(group) = group
            && named.joint.get(&group).is_some_and(|entry| entry.strong_count() == 0)
        {
            named.joint.remove(&group);
        }
        if named.joint.is_empty() && named.plain.strong_count() == 0 {
            registry.entries.remove(key);
        }
    }

    /// The entries of this key.
    pub(crate) fn entries_of(&self, key: &Key) -> Vec<Arc<Entry>> {
        self.registry().entries.get(key).map(|named| named.all().collect()).unwrap_or_default()
    }

    pub(crate) fn close(&self) -> Vec<Arc<Entry>> {
        self.registry().closed = true;
        self.closing.ring();
        self.entries()
    }

    fn is_closed(&self) -> bool {
        self.registry().closed
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        self.registry().entries.values().flat_map(Named::all).collect()
    }

    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::ShuttingDown,
        "the driver of the locks has stopped: its runtime was shut down, or has no timer",
    )
}
