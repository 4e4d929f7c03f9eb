//! Faults for tests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::gate::{Barrier, Gate};
use super::stats::Verb;
use super::store::Store;
use super::switches::Failing;
use crate::{ErrorKind, Hint, Key};

/// Switches that disturb one client of a [`MemoryBackend`](super::MemoryBackend).
///
/// A request travels to the store, is applied, and its reply travels back. Each switch says where it
/// strikes. All switches may be on at once. The faults of a request are decided when it is sent, except for a
/// cut, which also strikes requests that are under way. A switch concerns every verb, or only one:
/// see [`on`](Self::on).
///
/// Cloning gives another handle of these switches.
///
/// # Examples
///
/// Here the reply of a renewal is lost, and an acquisition is stopped just before it is applied:
///
/// ```
/// use lock_core::memory::{MemoryBackend, Verb};
/// # use std::time::Duration;
/// # use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Renew, Renewal, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// # let claim = Claim::exclusive(Key::new("a")?, OwnerToken::generate()?);
/// # let ttl = Ttl::new(Duration::from_secs(30))?;
/// let backend = MemoryBackend::new();
/// backend.faults().on(Verb::Renew).lose_replies(1);
/// assert!(matches!(backend.renew(&Renew::new(claim.clone(), ttl)).await, Renewal::Unknown(_)));
///
/// let gate = backend.faults().on(Verb::Acquire).hold_requests();
/// let request = Acquire::new(claim, ttl);
/// let task = tokio::spawn({
///     let backend = backend.clone();
///     async move { backend.try_acquire(&request).await }
/// });
/// gate.arrived(1).await;
/// assert_eq!(backend.live_leases(), 0);
/// gate.open();
/// # let answer = task.await.map_err(|e| lock_core::Error::with_source(lock_core::ErrorKind::Other, "task", e))?;
/// assert!(matches!(answer?, AcquireOutcome::Granted(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Faults {
    store: Arc<Store>,
    connection: Arc<Connection>,
    verb: Option<Verb>,
}

impl Faults {
    pub(super) fn new(store: Arc<Store>, connection: Arc<Connection>) -> Self {
        Self { store, connection, verb: None }
    }

    /// The switches that concern one verb only. They apply in addition to those for every verb.
    ///
    /// [`cut`](Self::cut), [`heal`](Self::heal) and the methods about hints always concern the whole
    /// client.
    #[must_use]
    pub fn on(&self, verb: Verb) -> Self {
        Self { verb: Some(verb), ..self.clone() }
    }

    /// The next `count` requests fail with this kind of error, and are not applied.
    pub fn fail_next(&self, count: u32, kind: ErrorKind) {
        self.set_failing(Failing { kind, left: Some(count) });
    }

    /// Requests fail with this kind of error, and are not applied, until [healed](Self::heal).
    pub fn fail(&self, kind: ErrorKind) {
        self.set_failing(Failing { kind, left: None });
    }

    /// The next `count` requests are applied, but fail with [`ErrorKind::Unreachable`].
    pub fn lose_replies(&self, count: u32) {
        self.connection.switchboard().switches(self.verb).replies_to_lose = count;
    }

    /// Every request takes this much longer to arrive. Zero ends the delay.
    ///
    /// Only this fault and [`delay_replies`](Self::delay_replies) need a tokio runtime with time.
    pub fn delay_requests(&self, delay: Duration) {
        self.connection.switchboard().switches(self.verb).there.delay = delay;
    }

    /// Every reply takes this much longer to come back. Zero ends the delay.
    pub fn delay_replies(&self, delay: Duration) {
        self.connection.switchboard().switches(self.verb).back.delay = delay;
    }

    /// Holds every request before it is applied. A request whose future is dropped meanwhile has no effect.
    ///
    /// Replaces an earlier gate for this verb. That gate keeps only the messages that it already holds.
    pub fn hold_requests(&self) -> Gate {
        let (gate, barrier) = Barrier::new();
        self.connection.switchboard().switches(self.verb).there.gate = Some(barrier);
        gate
    }

    /// Holds every reply after its request was applied. A request whose future is dropped meanwhile has taken
    /// effect.
    ///
    /// Replaces an earlier gate for this verb. That gate keeps only the messages that it already holds.
    pub fn hold_replies(&self) -> Gate {
        let (gate, barrier) = Barrier::new();
        self.connection.switchboard().switches(self.verb).back.gate = Some(barrier);
        gate
    }

    /// Cuts the connection: until [healed](Self::heal), requests fail with
    /// [`ErrorKind::Unreachable`], replies under way are lost, and every watch of this client ends.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::memory::{MemoryBackend, Verb};
    /// use lock_core::{Backend, ErrorKind, Hint, Key};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let store = MemoryBackend::new();
    /// let (faults, key) = (store.faults(), Key::new("stock/apples")?);
    /// let mut watch = store.watch(&key).await?;
    /// faults.hint(&key, Hint::Released);
    /// assert_eq!(watch.next().await, Some(Hint::Released));
    ///
    /// faults.on(Verb::Watch).fail_next(1, ErrorKind::Denied);
    /// assert_eq!(store.watch(&key).await.unwrap_err().kind(), ErrorKind::Denied);
    /// faults.fail(ErrorKind::NotReady);
    /// assert_eq!(store.watch(&key).await.unwrap_err().kind(), ErrorKind::NotReady);
    ///
    /// faults.cut();
    /// assert_eq!(watch.next().await, None);
    /// faults.heal();
    /// faults.mute_hints(true);
    /// faults.delay_requests(Duration::from_millis(1));
    /// faults.delay_replies(Duration::from_millis(1));
    /// let gate = faults.on(Verb::Watch).hold_replies();
    /// gate.let_through(1);
    /// assert!(store.watch(&key).await.is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cut(&self) {
        self.connection.set_cut(true);
        self.store.end_watches(&self.connection);
    }

    /// Ends every fault of this client, and opens its gates.
    ///
    /// Watches that a cut has ended do not come back.
    pub fn heal(&self) {
        self.connection.set_cut(false);
        self.connection.set_muted(false);
        let mut switchboard = self.connection.switchboard();
        let healed = std::mem::take(&mut *switchboard);
        drop(switchboard);
        // This wakes requests, so the switches are unlocked first.
        healed.open_gates();
    }

    /// Loses every hint on its way to this client, or stops doing so.
    pub fn mute_hints(&self, muted: bool) {
        self.connection.set_muted(muted);
    }

    /// Sends a hint, true or not, to this client's watches of `key`.
    pub fn hint(&self, key: &Key, hint: Hint) {
        self.store.hint(key, &self.connection, hint);
    }

    fn set_failing(&self, failing: Failing) {
        self.connection.switchboard().switches(self.verb).failing = Some(failing);
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("verb", &self.verb).finish_non_exhaustive()
    }
}
