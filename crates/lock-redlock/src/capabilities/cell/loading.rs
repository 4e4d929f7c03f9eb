//! Loads a value from several nodes.

use std::sync::Arc;

use lock_core::{Cell, CellBackend, Claim, Error, ErrorKind, Key, QuorumNode, Result, Vote};

use super::loaded::Loaded;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::NodeSet;

/// Loads the values of these nodes. Stops as soon as no further answer can change the result.
///
/// # Errors
///
/// If the nodes that answer are no majority.
pub(super) async fn from<N: QuorumNode + CellBackend>(
    core: &Arc<Core<N>>,
    key: &Key,
    nodes: NodeSet,
) -> Result<Loaded> {
    let mut asked = core.ask(nodes, |core, node| {
        let key = key.clone();
        async move { load(&core, node, &key).await }
    });
    let mut loaded = Loaded { quorum: core.quorum, cells: Vec::new() };
    let needed = core.quorum.needed();
    while loaded.cells.len() + asked.open().len() >= needed {
        let Some((_, cell)) = asked.next().await else { break };
        loaded.cells.extend(cell);
        if !asked.has_ready() && loaded.cells.len() >= needed && loaded.is_decided() {
            break;
        }
    }
    if loaded.cells.len() < needed {
        return Err(asked.failure("loaded it", loaded.cells.len()));
    }
    Ok(loaded)
}

/// Asks the nodes outside `known` that vote for the lease, until the latest value is clear.
///
/// A node that has voted refuses the late writes of earlier holders, as the nodes that granted the lease do.
///
/// # Errors
///
/// If too few nodes answer to tell the latest value.
pub(super) async fn from_others<N: QuorumNode + CellBackend>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    known: NodeSet,
    mut loaded: Loaded,
) -> Result<Option<Cell>> {
    let owner = core.claims.view(claim).owner;
    let mut asked = core.ask(core.quorum.all().without(known), |core, node| {
        let claim = claim.clone();
        async move { vote_first(core, &claim, Ballot { node, owner }).await }
    });
    let mut latest = loaded.likeliest();
    while latest.is_err()
        && let Some((_, cell)) = asked.next().await
    {
        loaded.cells.extend(cell);
        latest = loaded.likeliest();
    }
    asked.finish();
    latest
}

/// The node votes for the lease, or repeats its vote. Then it tells its value.
async fn vote_first<N: QuorumNode + CellBackend>(
    core: Arc<Core<N>>,
    claim: &Claim,
    ballot: Ballot,
) -> Result<Option<Cell>> {
    let no_vote = || Error::new(ErrorKind::NotReady, "the node has no vote for the lease");
    let (request, floor) = core.rest(claim, ballot).ok_or_else(no_vote)?;
    let Vote::Granted(grant) = Arc::clone(&core).vote(request, ballot, floor).await? else {
        return Err(no_vote());
    };
    let cell = load(&core, ballot.node, &claim.key).await?;
    if core.clock.now() < grant.valid_until { Ok(cell) } else { Err(no_vote()) }
}

async fn load<N: QuorumNode + CellBackend>(
    core: &Core<N>,
    node: usize,
    key: &Key,
) -> Result<Option<Cell>> {
    core.call(node, "load", |it| it.load(key)).await
}
