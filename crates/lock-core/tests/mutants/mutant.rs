//! A backend that is right but for one bug.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use futures::channel::mpsc::UnboundedSender;
use lock_core::conformance::{Harness, Hook};
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, Attempt, Backend, Claim, Clock, Error, ErrorKind, Hint, Key};
use lock_core::{OwnerToken, Released, Renew, Renewal, Result, Watch};

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
    shared: Arc<Mutex<Shared>>,
}

/// What the bugs keep beside the store.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) holders: HashMap<Key, Claim>,
    pub(crate) seen: HashSet<OwnerToken>,
    pub(crate) renewed: HashSet<OwnerToken>,
    pub(crate) counters: HashMap<Key, u64>,
    pub(crate) watched: HashSet<Key>,
    pub(crate) everybody: Vec<UnboundedSender<Hint>>,
}

impl Colony {
    pub(crate) fn new(bug: Bug) -> Self {
        Self { bug, store: MemoryBackend::new(), shared: Arc::default() }
    }
}

impl Mutant {
    pub(crate) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no mutant panics")
    }

    /// The claim as a store sees it that confuses keys.
    fn confused(&self, claim: &Claim) -> Claim {
        let name = claim.key.as_bytes();
        let key = match self.bug {
            Bug::OneKeyForAll => Key::new("all"),
            Bug::CutsKeysShort => Key::new(&name[..name.len().min(44)]),
            _ => return claim.clone(),
        };
        let key = key.expect("not longer than before");
        Claim::exclusive(key, claim.owner).in_mode(claim.mode)
    }

    /// What becomes of a failure, and whether it becomes anything at all.
    async fn failing<T>(&self, answer: Result<T>) -> Result<T> {
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
    async fn try_acquire(&self, request: &Acquire) -> Result<Attempt> {
        let mut request = request.clone();
        request.claim = self.confused(&request.claim);
        let answer = self.acquire_wrongly(request).await;
        self.failing(answer).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let Renew { claim, ttl, .. } = request.clone();
        let claim = &claim;
        let renewal = self.renew_wrongly(&self.confused(claim), ttl).await;
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

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.watch_wrongly(key).await
    }

    fn clock(&self) -> Clock {
        self.store.clock()
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
        let shared = Arc::clone(&self.shared);
        Ok(Mutant { bug: self.bug, store, failed: AtomicBool::new(false), shared })
    }

    async fn cut(&self, client: &Mutant) -> Hook {
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
}
