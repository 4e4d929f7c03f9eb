//! Releases that a node has still to hear of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Backoff, Claim, Instant, QuorumNode};
use tokio::time::{sleep, timeout};

use crate::ballot::Ballot;
use crate::inner::Core;

/// How long to wait before a node is asked again that could not be reached.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// The release of one dead ballot. Unless the node has answered, dropping this puts it on the node's list, to be
/// repeated until the lease is over in any case.
///
/// So no release is forgotten, whichever task ends while the release is under way.
#[must_use = "what is owed is paid when this is polled or dropped"]
pub(crate) struct Owed<N: QuorumNode> {
    core: Arc<Core<N>>,
    claim: Claim,
    ballot: Ballot,
    is_settled: bool,
}

impl<N: QuorumNode> Owed<N> {
    pub(crate) fn new(core: &Arc<Core<N>>, claim: &Claim, ballot: Ballot) -> Self {
        Self { core: Arc::clone(core), claim: claim.clone(), ballot, is_settled: false }
    }

    pub(crate) fn node(&self) -> usize {
        self.ballot.node
    }

    /// What the node is to release.
    pub(crate) fn released(&self) -> Claim {
        self.ballot.claim(&self.claim)
    }

    /// The node has answered.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
        self.core.claims.settled(&self.claim, self.ballot);
    }
}

impl<N: QuorumNode> Drop for Owed<N> {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let Self { core, claim, ballot, .. } = self;
        let now = core.clock.now();
        let until = now + core.settings.max_ttl.duration();
        let debt = Debt { claim: claim.clone(), ballot: *ballot, until };
        let debts = &core.nodes[ballot.node].debts;
        if debts.add(debt) {
            core.background.spawn(pay(Arc::clone(core), ballot.node));
        }
    }
}

/// The releases that one node has missed.
#[derive(Debug, Default)]
pub(crate) struct Debts(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    debts: VecDeque<Arc<Debt>>,
    /// Whether a task works through it.
    is_worked: bool,
}

#[derive(Debug)]
struct Debt {
    claim: Claim,
    ballot: Ballot,
    /// When the lease is over without a release.
    until: Instant,
}

impl Debts {
    /// How many are remembered. Of more, the oldest are left to end with their leases.
    const MAX: usize = 10_000;

    /// Adds one; whether a task has to begin to work through them.
    fn add(&self, debt: Debt) -> bool {
        let mut list = self.lock();
        if list.debts.len() >= Self::MAX {
            list.debts.pop_front();
        }
        list.debts.push_back(Arc::new(debt));
        !std::mem::replace(&mut list.is_worked, true)
    }

    fn first(&self) -> Option<Arc<Debt>> {
        let mut list = self.lock();
        let first = list.debts.front().cloned();
        list.is_worked = first.is_some();
        first
    }

    /// The node has answered this one, or need not.
    fn remove(&self, debt: &Arc<Debt>) {
        self.lock().debts.retain(|other| !Arc::ptr_eq(other, debt));
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().debts.len()
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works through the list of a node, one after another, and slowly while it does not answer. When there is no
/// handle any more it stops as soon as one fails.
async fn pay<N: QuorumNode>(core: Arc<Core<N>>, node: usize) {
    let Core { nodes, clock, settings, background, .. } = &*core;
    let debts = &nodes[node].debts;
    let mut backoff = BACKOFF;
    while let Some(debt) = debts.first() {
        if clock.now() < debt.until {
            let claim = debt.ballot.claim(&debt.claim);
            match timeout(settings.patience(), nodes[node].backend.release(&claim)).await {
                Ok(Err(error)) if !error.is_retryable() => {}
                Ok(Ok(_)) => backoff.reset(),
                _ if background.is_open() => {
                    sleep(backoff.fail()).await;
                    continue;
                }
                _ => debts.lock().debts.clear(),
            }
        }
        debts.remove(&debt);
        core.claims.settled(&debt.claim, debt.ballot);
    }
}
