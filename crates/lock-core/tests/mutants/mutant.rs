//! A backend that is right except for one bug.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::mpsc::UnboundedSender;
use lock_core::conformance::{Harness, Hook};
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Capabilities, Cell, Claim, ClientMark, Clock, Convert,
    ConvertBackend, Error, ErrorKind, Hint, Inspection,
};
use lock_core::{
    Key, Label, Mode, OwnerToken, Released, Renew, Renewal, Result, TokenRange, Ttl, Watch,
};

use crate::bug::Bug;

/// A store with a bug, and the harness of its clients.
pub(crate) struct Colony {
    bug: Bug,
    store: MemoryBackend,
    shared: Arc<Mutex<Shared>>,
}

/// One client.
pub(crate) struct Mutant {
    pub(crate) bug: Bug,
    pub(crate) store: MemoryBackend,
    pub(crate) failed: AtomicBool,
    vouched: AtomicBool,
    shared: Arc<Mutex<Shared>>,
}

/// The data that the bugs keep beside the store.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) holders: HashMap<Key, Claim>,
    pub(crate) seen: HashSet<OwnerToken>,
    pub(crate) renewed: HashSet<OwnerToken>,
    pub(crate) counters: HashMap<Key, u64>,
    pub(crate) watched: HashSet<Key>,
    pub(crate) listeners: Vec<UnboundedSender<Hint>>,
    /// The waiting requests, in order, with their clients.
    pub(crate) line: Vec<(MemoryBackend, Ask)>,
    /// The latest lease of each owner.
    pub(crate) leases: HashMap<OwnerToken, Lease>,
    /// The tokens that a group was granted first.
    pub(crate) groups: HashMap<OwnerToken, TokenRange>,
    /// The limits that the first users of semaphores declared, or the last users.
    pub(crate) limits: HashMap<Key, u32>,
    /// Values that no holder stored.
    pub(crate) values: HashMap<Key, Cell>,
    /// Values that are on their way to the store.
    pub(crate) late: HashMap<Key, Cell>,
    /// The first inspection of each key.
    pub(crate) inspections: HashMap<Key, Inspection>,
    /// The ttl for which a client vouched last.
    pub(crate) vouched: Option<Ttl>,
    /// How often a client asked for the standing.
    pub(crate) looks: u64,
    /// Watches that outlive their users.
    pub(crate) leaked: Vec<Watch>,
}

/// A request to the store: for a lease, or to convert one from this mode.
#[derive(Clone)]
pub(crate) struct Ask {
    pub(crate) request: Acquire,
    pub(crate) from: Option<Mode>,
}

impl Ask {
    pub(crate) async fn send(&self, store: &MemoryBackend) -> Result<AcquireOutcome> {
        let Self { request, from } = self;
        let Some(from) = *from else { return store.try_acquire(request).await };
        let held = request.claim.clone().in_mode(from);
        let mut convert = Convert::new(held, request.claim.mode, request.ttl);
        convert.request = request.clone();
        store.convert(&convert).await
    }
}

/// The data that a bug needs of a lease.
pub(crate) struct Lease {
    pub(crate) claim: Claim,
    pub(crate) tokens: TokenRange,
}

impl Shared {
    /// Sends a hint to all watches that hear about other clients.
    pub(crate) fn tell_all_listeners(&self, hint: &Hint) {
        for listener in &self.listeners {
            let _gone = listener.unbounded_send(hint.clone());
        }
    }
}

impl Colony {
    pub(crate) fn new(bug: Bug) -> Self {
        Self { bug, store: MemoryBackend::new(), shared: Arc::default() }
    }

    fn client_of(&self, store: MemoryBackend) -> Mutant {
        let shared = Arc::clone(&self.shared);
        let [failed, vouched] = [AtomicBool::new(false), AtomicBool::new(false)];
        Mutant { bug: self.bug, store, failed, vouched, shared }
    }
}

impl Mutant {
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no mutant panics")
    }

    pub(crate) fn share(&self) -> Arc<Mutex<Shared>> {
        Arc::clone(&self.shared)
    }

    pub(crate) fn set_vouched(&self) {
        self.vouched.store(true, Ordering::SeqCst);
    }

    /// Whether this client has vouched.
    pub(crate) fn has_vouched(&self) -> bool {
        self.vouched.load(Ordering::SeqCst)
    }

    /// The claim as seen by a store that confuses keys or modes.
    pub(crate) fn confused(&self, claim: &Claim) -> Claim {
        let name = claim.key.as_bytes();
        let key = match (self.bug, claim.mode) {
            (Bug::OneKeyForAll, _) => Key::new("all"),
            (Bug::CutsKeysShort, _) => Key::new(&name[..name.len().min(44)]),
            (Bug::MixesKindsOfLocks, Mode::Permits { .. }) => Key::new([name, b"+"].concat()),
            _ => Ok(claim.key.clone()),
        };
        let key = key.expect("not longer than before");
        let mode = match (self.bug, claim.mode) {
            (Bug::AcceptsAnyLimit, Mode::Permits { take, of }) => {
                Mode::Permits { take, of: self.first_limit(&key, of) }
            }
            (Bug::ForgetsEarlierNumbers, Mode::Permits { take, of }) => {
                Mode::Permits { take, of: self.known_number(&key, of) }
            }
            (_, mode) => self.confused_mode(mode),
        };
        Claim::exclusive(key, claim.owner).in_mode(mode)
    }

    pub(crate) fn confused_mode(&self, mode: Mode) -> Mode {
        match (self.bug, mode) {
            (Bug::ReadersAreWriters, Mode::Shared) => Mode::Exclusive,
            (Bug::GroupsAreExclusive, Mode::Joint { .. }) => Mode::Exclusive,
            (Bug::AllGroupsAreOne, Mode::Joint { .. }) => {
                Mode::Joint { group: OwnerToken::from_bytes([7; 16]) }
            }
            (Bug::TwoUpgradableReaders, Mode::Upgradable) => Mode::Shared,
            (Bug::OnePermitTooMany, Mode::Permits { take, of }) => {
                Mode::Permits { take, of: of + 1 }
            }
            (Bug::IgnoresDifferingLimits, Mode::Permits { take, .. }) => {
                Mode::Permits { take, of: 100 }
            }
            _ => mode,
        }
    }

    /// Passes an answer on. A bug may change a failure, or leave it without an answer.
    pub(crate) async fn failing<T>(&self, answer: Result<T>) -> Result<T> {
        match answer {
            Ok(_) if self.bug == Bug::NeverRecovers && self.failed.load(Ordering::SeqCst) => {
                Err(Error::new(ErrorKind::Unreachable, "still broken"))
            }
            Err(_) if self.bug == Bug::HangsWhenCut => std::future::pending().await,
            Err(_) if self.bug == Bug::FailsForGoodWhenCut => {
                Err(Error::new(ErrorKind::Denied, "no"))
            }
            Err(error) => {
                self.failed.store(true, Ordering::SeqCst);
                Err(error)
            }
            answer => answer,
        }
    }
}

#[async_trait]
impl Backend for Mutant {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        let mut request = request.clone();
        request.claim = self.confused(&request.claim);
        let answer = self.acquire_wrongly(request, None).await;
        self.failing(answer).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let mut request = request.clone();
        request.claim = self.confused(&request.claim);
        let renewal = self.renew_wrongly(&request).await;
        let answer = match renewal {
            Renewal::Unknown(_) if self.bug == Bug::LosesLeasesWhenCut => return Renewal::Lost,
            Renewal::Unknown(error) => Err(error),
            known => Ok(known),
        };
        self.failing(answer).await.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let answer = self.release_wrongly(&self.confused(claim)).await;
        self.failing(answer).await
    }

    async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>)> {
        if self.bug == Bug::RequeueForgetsToQueue {
            let queued = AcquireOutcome::Queued { retry_after: None };
            return Ok((self.release(claim).await?, Some(queued)));
        }
        self.store.release_and_requeue(claim, next).await
    }

    async fn try_acquire_all(&self, requests: &[Acquire]) -> Result<Option<Vec<AcquireOutcome>>> {
        self.acquire_together_wrongly(requests).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.watch_wrongly(key).await
    }

    async fn introduce(&self, client: ClientMark, label: &Label, keep: Duration) -> Result<()> {
        match self.bug {
            Bug::ForgetsLabels => Ok(()),
            Bug::KeepsLabels => self.store.introduce(client, label, keep * 100).await,
            _ => self.store.introduce(client, label, keep).await,
        }
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        match self.bug {
            Bug::HidesItsConverter => Capabilities::none().joining(self),
            Bug::HidesItsGroups => Capabilities::none().converting(self),
            _ => Capabilities::none().joining(self).converting(self),
        }
    }
}

#[async_trait]
impl Harness for Colony {
    type Client = Mutant;

    async fn client(&self) -> Result<Mutant> {
        let store = match self.bug {
            Bug::StubbedRemote => MemoryBackend::new(),
            _ => self.store.client(),
        };
        Ok(self.client_of(store))
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<Mutant>> {
        let store = match self.bug {
            Bug::HasNoQueueLimit => MemoryBackend::new(),
            _ => MemoryBackend::with_queue_limit(waiters),
        };
        Ok(Some(self.client_of(store)))
    }

    async fn other_server(&self) -> Result<Option<Mutant>> {
        Ok(Some(self.client_of(MemoryBackend::new())))
    }

    async fn cut(&self, client: &Mutant) -> Hook {
        if self.bug == Bug::HandsOverToTheDead {
            // The store does not notice.
            client.store.faults().mute_hints(true);
            return Hook::Done;
        }
        client.store.faults().cut();
        Hook::Done
    }

    async fn heal(&self, client: &Mutant) {
        client.store.faults().heal();
    }

    async fn forget(&self) -> Hook {
        self.store.forget();
        self.shared.lock().expect("no mutant panics").counters.clear();
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        if self.bug != Bug::DoesNotNoticeRestarts {
            self.store.restart();
        }
        Hook::Done
    }
}
