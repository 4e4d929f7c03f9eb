//! Writes a value on all nodes.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{
    CellBackend, Claim, Error, ErrorKind, FencingToken, QuorumNode, Result, Stored, Vote,
};

use super::kept::ERASED;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::{NodeSet, Quorum};

/// How long a write waits for the other nodes after a majority has written the value. If one node of the majority loses
/// its data later, every majority still has a node with the value.
const REST: Duration = Duration::from_millis(20);

/// A value, or its removal, for the nodes.
pub(super) struct Write {
    pub(super) claim: Claim,
    pub(super) token: FencingToken,
    pub(super) value: Option<Vec<u8>>,
}

impl Write {
    /// Returns how many nodes have written the value, and the outcome.
    ///
    /// Nodes without a ballot of the lease vote for the lease first. So a value that is written in the first moment of
    /// a lease reaches more nodes than the bare majority with that lease.
    pub(super) async fn on_all<N>(self, core: &Arc<Core<N>>) -> Result<(usize, Stored)>
    where
        N: QuorumNode + CellBackend,
    {
        let late = late(core);
        let lacking = core.claims.lacking(&self.claim, core.clock.now());
        let write = Arc::new(self);
        let mut asked = core.ask(0..core.quorum.nodes(), core.settings.patience(), |core, node| {
            let lacks = lacking.iter().copied().find(|ballot| ballot.node == node);
            Arc::clone(&write).on_one(core, node, lacks)
        });
        let (mut writes, mut end) = (Writes::new(core.quorum), None);
        while asked.has_ready() || write.is_open(&writes, asked.open(), late) {
            if end.is_none() && writes.has_majority() && !write.needs_all() {
                end = Some(core.clock.now() + REST);
            }
            let answer = match end {
                Some(end) => asked.next_until(end).await,
                None => asked.next().await,
            };
            let Some((node, answer)) = answer else { break };
            let is_retryable = || asked.error_of(node).is_none_or(Error::is_retryable);
            writes.note(answer, is_retryable);
        }
        let outcome = writes.outcome(&asked);
        asked.finish();
        outcome
    }

    /// Whether the answers of all nodes count: the quorum removes the mark only if every node has it.
    fn needs_all(&self) -> bool {
        self.value.as_deref().is_none_or(|value| value == ERASED)
    }

    /// Whether to wait for the nodes that still have to answer.
    fn is_open(&self, writes: &Writes, open: NodeSet, late: NodeSet) -> bool {
        let open =
            if writes.has_majority() && !self.needs_all() { open.without(late) } else { open };
        !open.is_empty() && (self.needs_all() || !writes.is_lost(open.len()))
    }

    async fn on_one<N>(
        self: Arc<Self>,
        core: Arc<Core<N>>,
        node: usize,
        lacks: Option<Ballot>,
    ) -> Result<Stored>
    where
        N: QuorumNode + CellBackend,
    {
        if let Some(ballot) = lacks
            && let Some(vote) = core.vote_for_held(&self.claim, ballot).await
            && !matches!(vote?, Vote::Granted(_))
        {
            return Ok(Stored::NotHeld);
        }
        let mut known = self.claim.clone();
        known.owner = core.claims.owner(&self.claim);
        core.call(node, "store", |it| it.store(&known, self.token, self.value.as_deref())).await
    }
}

/// The nodes that take no part, or do not answer. A write does not wait for them once a majority has written.
fn late<N: QuorumNode>(core: &Core<N>) -> NodeSet {
    let now = core.clock.now();
    let is_late = |node: &usize| {
        let node = &core.nodes[*node];
        node.state(|state| state.is_out()) || node.pace.lock().is_silent(now, REST)
    };
    (0..core.nodes.len()).filter(is_late).collect()
}

/// The answers of the nodes.
#[derive(Debug)]
struct Writes {
    quorum: Quorum,
    written: usize,
    refused: usize,
    /// The nodes that may have written the value.
    unclear: usize,
}

impl Writes {
    fn new(quorum: Quorum) -> Self {
        Self { quorum, written: 0, refused: 0, unclear: 0 }
    }

    fn note(&mut self, answer: Option<Stored>, is_retryable: impl FnOnce() -> bool) {
        match answer {
            Some(Stored::Written) => self.written += 1,
            Some(_) => self.refused += 1,
            None => self.unclear += usize::from(is_retryable()),
        }
    }

    fn has_majority(&self) -> bool {
        self.written >= self.quorum.needed()
    }

    /// Whether the value will not be on a majority, but may be on some nodes, if `open` nodes still have to answer.
    ///
    /// A later holder may find a value that one node has. So a value counts as not written only if all nodes have
    /// refused it.
    fn is_lost(&self, open: usize) -> bool {
        self.written + open < self.quorum.needed() && self.written + self.unclear > 0
    }

    fn outcome<N: QuorumNode>(&self, asked: &Asked<N, Stored>) -> Result<(usize, Stored)> {
        let Self { quorum, written, refused, unclear } = *self;
        let is_unclear = written + unclear + asked.open().len() > 0;
        match () {
            () if self.has_majority() => Ok((written, Stored::Written)),
            () if refused == quorum.nodes() => Ok((written, Stored::NotHeld)),
            () if is_unclear => Err(in_doubt(asked.failure("stored it", written))),
            () => Err(asked.failure("stored it", 0)),
        }
    }
}

/// An error after which some nodes may have the value.
fn in_doubt(error: Error) -> Error {
    if error.is_retryable() {
        return error;
    }
    Error::with_source(ErrorKind::NotReady, error.to_string(), error)
}
