//! An observer that writes everything down.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::observer::{
    AcquireBegun, AcquireEnd, AcquireEnded, AcquireWaits, AcquisitionId, Connected, Disconnected,
    DriverStalled, HandedOver, HoldBegun, HoldEnded, HoldId, LeaseRenewed, Loss, NodeBack,
    NodeKeptOut, Observer, Redirected, RenewalLate, StoreAnswered,
};
use lock_tests::{SOON, eventually_async};

/// Writes down what happens to locks, to their store and to their driver, on a page each. Checks that pairs are pairs.
#[derive(Default)]
pub(crate) struct Diary(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    locks: Vec<String>,
    store: Vec<String>,
    driver: Vec<String>,
    acquiring: BTreeMap<AcquisitionId, ()>,
    holding: BTreeMap<HoldId, Option<AcquisitionId>>,
}

impl Diary {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has happened to locks since the last call.
    pub(crate) fn of_locks(&self) -> Vec<String> {
        std::mem::take(&mut self.pages().locks)
    }

    /// What has happened to the store so far.
    pub(crate) fn of_store(&self) -> Vec<String> {
        self.pages().store.clone()
    }

    /// What the driver has said of itself since the last call.
    pub(crate) fn of_driver(&self) -> Vec<String> {
        std::mem::take(&mut self.pages().driver)
    }

    /// How many callers wait, and how many guards there are.
    pub(crate) fn open(&self) -> (usize, usize) {
        let pages = self.pages();
        (pages.acquiring.len(), pages.holding.len())
    }

    /// Waits until an event about the store begins like this, after so many others.
    pub(crate) async fn until_store(&self, after: usize, begins: &str) {
        let is_there = || self.of_store().iter().skip(after).any(|it| it.starts_with(begins));
        let said = eventually_async(begins, SOON, async || is_there());
        said.await;
    }

    /// Waits until an event about locks is this, and returns all events since the last call.
    pub(crate) async fn until_lock(&self, event: &str) -> Vec<String> {
        let is_there = || self.pages().locks.iter().any(|it| it == event);
        eventually_async(event, SOON, async || is_there()).await;
        self.of_locks()
    }

    fn lock(&self, what: impl Into<String>) {
        self.pages().locks.push(what.into());
    }

    fn driver(&self, what: impl Into<String>) {
        self.pages().driver.push(what.into());
    }

    fn store(&self, what: String) {
        self.pages().store.push(what);
    }
}

impl Observer for Diary {
    fn acquire_begun(&self, event: &AcquireBegun<'_>) {
        assert!(self.pages().acquiring.insert(event.id, ()).is_none(), "{event:?}");
        self.lock("begun");
    }

    fn acquire_waits(&self, event: &AcquireWaits<'_>) {
        assert!(self.pages().acquiring.contains_key(&event.id), "{event:?}");
        self.lock("waits");
    }

    fn acquire_ended(&self, event: &AcquireEnded<'_>) {
        assert!(self.pages().acquiring.remove(&event.id).is_some(), "{event:?}");
        self.lock(match event.outcome {
            AcquireEnd::Granted { entered, .. } => format!("granted {}", entered.name()),
            outcome => outcome.name().to_owned(),
        });
    }

    fn hold_begun(&self, event: &HoldBegun<'_>) {
        let before = self.pages().holding.insert(event.id, event.acquisition);
        assert_eq!(before, None, "{event:?}");
        self.lock("holds");
    }

    fn hold_ended(&self, event: &HoldEnded<'_>) {
        let before = self.pages().holding.remove(&event.id);
        assert_eq!(before, Some(event.acquisition), "{event:?}");
        self.lock(format!("hold {}", event.how.name()));
    }

    fn lease_renewed(&self, event: &LeaseRenewed<'_>) {
        self.lock(event.outcome.name());
    }

    fn lease_lost(&self, event: &Loss<'_>) {
        assert!(event.left.is_zero() || event.since.is_zero(), "{event:?}");
        let known = |hold: &HoldId| self.pages().holding.contains_key(hold);
        assert!(event.holds.iter().all(known), "{event:?}");
        self.lock(format!("lost {}", event.reason.name()));
    }

    fn handed_over(&self, _: &HandedOver<'_>) {
        self.lock("given");
    }

    fn driver_stalled(&self, _: &DriverStalled) {
        self.driver("stalled");
    }

    fn renewal_late(&self, event: &RenewalLate<'_>) {
        let lasts = if event.left.is_zero() { "is over" } else { "lasts" };
        self.driver(format!("late, and the lease {lasts}"));
    }

    fn store_answered(&self, event: &StoreAnswered<'_>) {
        let mut said = format!("{} at {}", event.verb, event.server);
        if let Some(error) = event.error {
            let _ = write!(said, ": {:?}", error.kind());
        }
        self.store(said);
    }

    fn connected(&self, event: &Connected<'_>) {
        let again = if event.again { "again" } else { "first" };
        self.store(format!("connected {again} to {}", event.server));
    }

    fn disconnected(&self, event: &Disconnected<'_>) {
        let what = if event.error.is_some() { "no connection" } else { "disconnected" };
        self.store(format!("{what} to {}", event.server));
    }

    fn redirected(&self, event: &Redirected<'_>) {
        self.store(format!("redirected from {} to {}", event.from, event.to.unwrap_or("?")));
    }

    fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
        self.store(format!("{} out: {}", event.node, event.why.name()));
    }

    fn node_back(&self, event: &NodeBack<'_>) {
        self.store(format!("{} back", event.node));
    }
}
