//! Writes a value on all nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lock_core::{
    CellBackend, Claim, Error, ErrorKind, FencingToken, Instant, OwnerToken, QuorumNode, Result,
    Stored, Vote,
};

use super::kept::ERASED;
use crate::asked::Asked;
use crate::background::{pause, within};
use crate::ballot::Ballot;
use crate::claims::{Given, Held};
use crate::counts::{Fate, Writes};
use crate::inner::Core;
use crate::quorum::NodeSet;

/// For at least this time, a write waits for a node that refuses its vote, after a majority has written the value:
/// another claim may have that vote for long. If nodes of the majority lose their data later, the other nodes have the
/// value.
const REST: Duration = Duration::from_millis(20);

/// For at least this time, a write waits for a node that does not answer: on a busy machine, an answer may be late by
/// some tens of milliseconds.
const LATE: Duration = Duration::from_millis(100);

/// How many times a write asks a node for its vote, and the pause before it asks or looks again.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// A value, or its removal, for the nodes.
pub(super) struct Write {
    claim: Claim,
    token: FencingToken,
    value: Option<Vec<u8>>,
    /// The time for nodes that refuse their votes is over.
    is_hurried: AtomicBool,
    /// The write has ended, and sends the value to no further node. A later write may have the token of this write, and
    /// a node could not tell which of the two values is the later one.
    is_over: AtomicBool,
}

impl Write {
    pub(super) fn new(claim: &Claim, token: FencingToken, value: Option<Vec<u8>>) -> Self {
        let (is_hurried, is_over) = Default::default();
        Self { claim: claim.clone(), token, value, is_hurried, is_over }
    }

    /// Returns how many nodes have written the value, and the outcome.
    ///
    /// Nodes without a ballot of the lease vote for the lease first. So a value that is written in the first moment of
    /// a lease reaches more nodes than the bare majority with that lease.
    pub(super) async fn on_all<N>(self, core: &Arc<Core<N>>) -> Result<(usize, Stored)>
    where
        N: QuorumNode + CellBackend,
    {
        let rest = REST.max(2 * core.trip());
        let absent = absent(core, rest);
        let seen = core.claims.view(&self.claim);
        let owner = seen.owner;
        let write = Arc::new(self);
        // Another lease of the claim may have followed. This process does not know the lease of a claim for which another
        // process has asked.
        let is_over = |was: Held| {
            let held = core.claims.held(&write.claim, core.clock.now());
            held.is_none_or(|held| held.tokens != was.tokens)
        };
        let mut asked = write.ask(core, owner, absent);
        let mut writes = Writes::new(core.quorum, write.needs_all(), absent);
        let mut ends = None;
        while asked.has_ready() || writes.is_open(asked.open()) {
            if ends.is_none() && writes.is_enough() {
                ends = Some([rest, LATE.max(rest)].map(|rest| write.end(core, rest)));
            }
            let is_hurried = write.is_hurried.load(Ordering::Relaxed);
            let answer = match ends {
                Some(ends) => asked.next_until(ends[usize::from(is_hurried)]).await,
                None => asked.next().await,
            };
            match answer {
                Some((node, answer)) => {
                    note(&mut writes, &asked, (node, answer), seen.held.is_some_and(is_over));
                }
                None if ends.is_some() && !is_hurried => {
                    write.is_hurried.store(true, Ordering::Relaxed);
                }
                None => break,
            }
        }
        write.is_over.store(true, Ordering::Relaxed);
        let outcome = outcome(&writes, &asked);
        asked.finish();
        outcome
    }

    /// Asks the nodes that have granted the lease to write, and the others to vote first. An absent node would vote too
    /// late.
    ///
    /// A value goes to no node whose vote this process awaits. Otherwise both could arrive after the lease: the node
    /// would grant the lease anew, and accept the value, although a later holder may have loaded the earlier value.
    fn ask<N>(
        self: &Arc<Self>,
        core: &Arc<Core<N>>,
        owner: OwnerToken,
        absent: NodeSet,
    ) -> Asked<N, Stored>
    where
        N: QuorumNode + CellBackend,
    {
        core.ask(core.quorum.all(), |core, node| {
            let (ballot, write) = (Ballot { node, owner }, Arc::clone(self));
            let may_vote = !absent.contains(node);
            async move { write.send_when_granted(core, ballot, may_vote).await }
        })
    }

    /// Sends the value to a node that has granted the lease. Another node votes for the lease first. A contender may have
    /// the vote for a moment, so the write asks several times, until it ends.
    async fn send_when_granted<N>(
        &self,
        core: Arc<Core<N>>,
        ballot: Ballot,
        may_vote: bool,
    ) -> Result<Stored>
    where
        N: QuorumNode + CellBackend,
    {
        let mut tries = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            match core.claims.given(&self.claim, ballot, core.clock.now()) {
                Given::Yes => return self.send(&core, ballot).await,
                Given::Soon(vote_ended) => {
                    within(&core.background, core.clock, PAUSE, vote_ended).await;
                }
                Given::No => {
                    let Some((request, floor)) = core.rest(&self.claim, ballot) else { break };
                    if !may_vote {
                        return Err(no_vote_in_time());
                    }
                    if tries == TRIES {
                        break;
                    }
                    tries += 1;
                    match Arc::clone(&core).vote(request, ballot, floor).await? {
                        Vote::Granted(_) => {}
                        Vote::Busy { .. } if !self.is_hurried.load(Ordering::Relaxed) => {
                            pause(&core.background, core.clock, PAUSE).await;
                        }
                        _ => break,
                    }
                }
            }
        }
        Ok(Stored::NotHeld)
    }

    /// Sends the value to a node that may have this ballot.
    async fn send<N>(&self, core: &Core<N>, ballot: Ballot) -> Result<Stored>
    where
        N: QuorumNode + CellBackend,
    {
        let (known, value) = (ballot.claim(&self.claim), self.value.as_deref());
        core.call(ballot.node, "store", |it| it.store(&known, self.token, value)).await
    }

    /// Until when the write waits for the last nodes: for half of the lease at most, because a commit has to release the
    /// lease before the lease ends.
    fn end<N: QuorumNode>(&self, core: &Core<N>, rest: Duration) -> Instant {
        let now = core.clock.now();
        let held = core.claims.held(&self.claim, now);
        held.map_or(now, |held| now + rest.min(held.valid_until.saturating_duration_since(now) / 2))
    }

    /// Whether the answers of all nodes count: the quorum removes the mark only if every node has it.
    fn needs_all(&self) -> bool {
        self.value.as_deref().is_none_or(|value| value == ERASED)
    }
}

/// The nodes that a write does not wait for once a majority has written: those that take no part, do not answer, or are
/// too far away to answer in time.
fn absent<N: QuorumNode>(core: &Core<N>, rest: Duration) -> NodeSet {
    let now = core.clock.now();
    let is_slow = |node: usize| {
        let pace = core.nodes[node].pace.lock();
        pace.is_silent(now, LATE.max(rest)) || pace.trip().is_some_and(|trip| trip > rest)
    };
    let is_out = |node: usize| core.nodes[node].state(|state| state.is_out());
    core.quorum.all().iter().filter(|&node| is_slow(node) || is_out(node)).collect()
}

/// Counts the answer of a node.
fn note<N: QuorumNode>(
    writes: &mut Writes,
    asked: &Asked<N, Stored>,
    (node, answer): (usize, Option<Stored>),
    is_over: bool,
) {
    match answer {
        Some(Stored::Written) => writes.wrote(is_over),
        Some(_) => writes.refused += 1,
        None if asked.error_of(node).is_none_or(Error::is_retryable) => writes.unclear += 1,
        None => {}
    }
}

fn outcome<N: QuorumNode>(writes: &Writes, asked: &Asked<N, Stored>) -> Result<(usize, Stored)> {
    let failure = || asked.failure("stored it", writes.written);
    match writes.fate(asked.open().len()) {
        Fate::Written => Ok((writes.written, Stored::Written)),
        Fate::Late => Err(Stored::in_doubt(late())),
        Fate::Refused => Ok((0, Stored::NotHeld)),
        Fate::InDoubt => Err(Stored::in_doubt(failure())),
        Fate::Failed => Err(failure()),
    }
}

fn late() -> Error {
    Error::new(
        ErrorKind::Timeout,
        "the lease was over before a majority had said that it stored it",
    )
}

fn no_vote_in_time() -> Error {
    let message = "it has not voted for the lease, and is known to answer late or not at all";
    Error::new(ErrorKind::NotReady, message)
}
