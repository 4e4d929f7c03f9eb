//! Releases that a node has still to hear of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lock_core::{Backoff, Claim, Instant, QuorumNode};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::claims::Mark;
use crate::inner::Core;

/// How long to wait before a node is asked again that could not be reached.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// A release of one claim at one node. Unless it was settled, dropping this puts it on the node's list, to be
/// repeated until the lease is over in any case.
///
/// So no release is forgotten, whoever goes away while it is under way.
#[must_use = "what is owed is paid when this is polled or dropped"]
pub(crate) struct Owed<N: QuorumNode> {
    core: Arc<Core<N>>,
    mark: Option<Mark>,
    node: usize,
    claim: Claim,
}

impl<N: QuorumNode> Owed<N> {
    pub(crate) fn new(core: &Arc<Core<N>>, claim: &Claim, node: usize) -> Self {
        Self::marked(core, core.claims.mark(claim, node))
    }

    pub(crate) fn marked(core: &Arc<Core<N>>, mark: Mark) -> Self {
        let (node, claim) = (mark.node(), mark.claim().clone());
        Self { core: Arc::clone(core), mark: Some(mark), node, claim }
    }

    pub(crate) fn node(&self) -> usize {
        self.node
    }

    pub(crate) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The node has answered.
    pub(crate) fn settle(mut self) {
        self.mark = None;
    }
}

impl<N: QuorumNode> Drop for Owed<N> {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        if self.core.nodes[self.node].debts.are_stuck() {
            mark.stick();
        }
        let until = self.core.clock.now() + self.core.settings.max_ttl.duration();
        if self.core.nodes[self.node].debts.add(Debt { mark, until }) {
            let core = Arc::clone(&self.core);
            self.core.background.spawn(pay(core, self.node));
        }
    }
}

/// The releases that one node has missed.
#[derive(Debug, Default)]
pub(crate) struct Debts {
    list: Mutex<List>,
    hurry: Notify,
}

#[derive(Debug, Default)]
struct List {
    debts: VecDeque<Arc<Debt>>,
    /// Whether somebody works through it.
    is_worked: bool,
    /// Whether the node did not answer when it was last asked again. Those at the end of the list are then not asked
    /// soon.
    is_stuck: bool,
}

#[derive(Debug)]
struct Debt {
    mark: Mark,
    /// When the lease is over without a release.
    until: Instant,
}

impl Debts {
    /// How many are remembered. Of more, the oldest are left to end with their leases.
    const MAX: usize = 10_000;

    /// Adds one; whether somebody has to begin to work through them.
    fn add(&self, debt: Debt) -> bool {
        let mut list = self.lock();
        let oldest = if list.debts.len() >= Self::MAX { list.debts.pop_front() } else { None };
        list.debts.push_back(Arc::new(debt));
        let begin = !std::mem::replace(&mut list.is_worked, true);
        drop(list);
        drop(oldest);
        begin
    }

    /// Has the node asked again now: somebody needs it to have answered.
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    fn first(&self) -> Option<Arc<Debt>> {
        let mut list = self.lock();
        let first = list.debts.front().cloned();
        list.is_worked = first.is_some();
        list.is_stuck &= list.is_worked;
        first
    }

    fn are_stuck(&self) -> bool {
        self.lock().is_stuck
    }

    /// The node does not answer, so that nobody waits for it to.
    fn stick(&self) {
        let mut list = self.lock();
        list.is_stuck = true;
        let debts: Vec<_> = list.debts.iter().cloned().collect();
        drop(list);
        debts.iter().for_each(|debt| debt.mark.stick());
    }

    /// The node has answered this one, or need not.
    fn remove(&self, debt: &Arc<Debt>) {
        let mut list = self.lock();
        let index = list.debts.iter().position(|other| Arc::ptr_eq(other, debt));
        let removed = index.and_then(|index| list.debts.remove(index));
        drop(list);
        drop(removed);
    }

    fn clear(&self) {
        let debts = std::mem::take(&mut self.lock().debts);
        drop(debts);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().debts.len()
    }

    /// A panic under the lock leaves nothing half done.
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Works through the list of a node, one after another, and slowly while it does not answer. When there is no
/// handle any more it stops as soon as one fails.
async fn pay<N: QuorumNode>(core: Arc<Core<N>>, node: usize) {
    let Core { nodes, clock, settings, background, .. } = &*core;
    let mut backoff = BACKOFF;
    while let Some(debt) = nodes[node].debts.first() {
        if clock.now() >= debt.until {
            nodes[node].debts.remove(&debt);
            continue;
        }
        let release = nodes[node].backend.release(debt.mark.claim());
        match timeout(settings.patience(), release).await {
            Ok(Err(error)) if !error.is_retryable() => nodes[node].debts.remove(&debt),
            Ok(Ok(_)) => {
                nodes[node].debts.remove(&debt);
                nodes[node].debts.lock().is_stuck = false;
                backoff.reset();
            }
            _ if background.is_open() => {
                nodes[node].debts.stick();
                let _early = timeout(backoff.fail(), nodes[node].debts.hurry.notified()).await;
            }
            _ => nodes[node].debts.clear(),
        }
    }
}
