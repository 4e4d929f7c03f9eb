//! The bare lock, a lock without data. Every primitive and every recipe is built on it.

mod asking;
mod limit;
mod locking;
mod retries;

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, Key, Mode, OwnerToken};

use crate::engine::{Asks, Entry, Home, Manner, Shared};
use crate::handoff::Handoff;

pub(crate) use asking::ask;
pub(crate) use limit::{Alarm, Limit, alarm};
pub(crate) use locking::{Locking, denied};
pub(crate) use retries::Retries;

// The types of the engine that the code above it uses.
pub(crate) use crate::engine::{
    Acquiring, ClosedForAll, Denial, Gathering, Hold, HoldView, Known, Labels, Policy, Upgrading,
    Wait, Write, completed,
};

/// A lock of this process by its name, with the way in which its holders give it up.
#[derive(Clone)]
pub(crate) struct BareLock {
    entry: Arc<Entry>,
    manner: Manner,
    /// Where the requests run for which a task waits.
    home: Home,
}

impl BareLock {
    pub(crate) fn named(shared: &Arc<Shared>, name: Key, policy: Policy) -> Result<Self, Error> {
        Ok(Self { entry: shared.entry(name, policy)?, manner: shared.manner, home: shared.home })
    }

    /// Another lock of this handle, with the policy of this lock.
    pub(crate) fn sibling(&self, name: Key) -> Result<Self, Error> {
        Self::named(self.shared(), name, self.entry.policy().clone())
    }

    /// This lock, for a group that holds it jointly.
    pub(crate) fn joint(&self, group: OwnerToken) -> Self {
        let entry =
            self.shared().named(self.key().clone(), Some(group), self.entry.policy().clone());
        Self { entry, ..self.clone() }
    }

    /// This lock with another policy. In this process it is another lock: the two contend as two processes do.
    pub(crate) fn with_policy(mut self, change: impl FnOnce(&mut Policy, &Labels)) -> Self {
        let mut policy = self.entry.policy().clone();
        change(&mut policy, &self.shared().labels);
        self.entry = self.shared().named(self.key().clone(), None, policy);
        self
    }

    pub(crate) fn with_handoff(mut self, handoff: Handoff) -> Self {
        self.manner = self.manner.with_handoff(handoff);
        self
    }

    pub(crate) fn with_cache(mut self, idle: Duration) -> Self {
        self.manner = self.manner.with_cache(Some(idle));
        self
    }

    /// This lock, whose grants carry the value beside the lock.
    pub(crate) fn with_value(mut self) -> Self {
        self.manner = self.manner.with_value();
        self
    }

    /// This lock, for a caller that blocks its thread: perhaps no other thread runs the runtime of the caller.
    pub(crate) fn on_driver(mut self) -> Self {
        self.home = Home::Driver;
        self
    }

    /// The runtime of the requests.
    pub(crate) fn home(&self) -> Home {
        self.home
    }

    pub(crate) fn key(&self) -> &Key {
        self.entry.key()
    }

    /// Whether a guard of this process holds the lock.
    pub(crate) fn is_held(&self) -> bool {
        self.entry.is_held()
    }

    /// Whether a guard of this process holds the lock, in any group.
    pub(crate) fn is_held_by_any(&self) -> bool {
        self.shared().entries_of(self.key()).iter().any(|entry| entry.is_held())
    }

    /// Whether this process keeps the lease although no guard holds the lock.
    pub(crate) fn is_cached(&self) -> bool {
        self.entry.is_cached()
    }

    /// Whether both are one lock of one handle.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// How long a caller waits by default.
    pub(crate) fn default_wait(&self) -> Wait {
        self.shared().default_wait()
    }

    /// How long a lease lives without renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.entry.policy().ttl.duration()
    }

    /// How long a caller waits for a silent store, and whether this also holds for a caller with a limit.
    pub(crate) fn patience(&self) -> (Duration, bool) {
        let policy = self.entry.policy();
        (policy.patience(), policy.outage_limit.is_some())
    }

    /// The short way to a hold beside others, if there is one. There is none if observers hear of acquisitions.
    #[inline]
    pub(crate) fn share(&self, mode: Mode) -> Option<Hold> {
        Hold::share(&self.entry, mode, self.manner)
    }

    /// Begins to wait for the lock.
    pub(crate) fn acquiring(&self, mode: Mode, wait: Wait) -> Acquiring {
        let mut acquiring = Acquiring::new(Arc::clone(&self.entry), mode, wait, self.manner);
        if self.home == Home::Driver {
            acquiring.on_driver();
        }
        acquiring
    }

    /// Waits for the lock.
    pub(crate) async fn acquire(&self, mode: Mode, wait: Wait) -> Result<Hold, Denial> {
        let mut acquiring = self.acquiring(mode, wait);
        poll_fn(|context| acquiring.poll(context)).await
    }

    /// Asks for all of these locks at once. They must be different.
    pub(crate) fn gather(locks: &[Self]) -> Result<Gathering, Denial> {
        Gathering::begin(locks.iter().map(|lock| &lock.entry))
    }

    /// Whether the semaphore of this key is closed for all, as far as this process knows.
    pub(crate) fn closed_for_all(&self) -> Arc<ClosedForAll> {
        self.shared().closed_for_all(self.key())
    }

    /// Makes the waiting claims of this process ask again, after a change for which the store may send no hint.
    pub(crate) fn look_again(&self) {
        self.entry.look_again();
    }

    /// Waits for the shutdown of the locks.
    pub(crate) async fn closed(&self) {
        self.shared().closed().await;
    }

    /// Whether the locks have shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.shared().is_closed()
    }

    /// Wakes the waiters of this process, so that each looks at its own handle.
    pub(crate) fn rouse(&self) {
        self.entry.rouse();
    }

    fn shared(&self) -> &Arc<Shared> {
        self.entry.shared()
    }
}
