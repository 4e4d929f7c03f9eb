//! Ending a lease on all nodes.

use std::sync::Arc;

use lock_core::{Claim, Error, QuorumNode, Released};

use crate::asked::{Asked, late};
use crate::inner::Core;
use crate::owed::Owed;

/// Releases the ballots of a claim. Returns when a quorum is rid of them, which others can then have; the rest goes
/// on in the background, and is repeated at nodes that cannot be reached.
pub(crate) async fn release<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
) -> Result<Released, Error> {
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let now = core.clock.now();
    let (held, ballots) = core.claims.end(claim, now);
    let was_valid = held.is_some_and(|held| held.valid_until > now);
    let mut asked = Asked::new(core, core.settings.patience());
    let mut left = vec![0; nodes];
    for ballot in ballots {
        left[ballot.node] += 1;
        asked.ask(ballot.node, Arc::clone(core).release(Owed::new(core, claim, ballot)));
    }
    let mut rid = left.iter().filter(|left| **left == 0).count();
    let (mut freed, mut contended) = (0, false);
    let mut said = vec![None; nodes];
    // Nodes that do not have it may never have voted, or have heard of this before. One that had it is needed to
    // say that a lease was there, and the others are waited for before it is said that a valid one was not.
    let is_open = |rid: usize, freed: usize| rid < needed || freed == 0 && was_valid;
    while is_open(rid, freed) && rid + asked.open().len() >= needed {
        let Some(batch) = asked.answers().await else { break };
        for (node, answer) in batch {
            let answer = answer.inspect_err(|error| said[node] = Some(error.clone()));
            let Ok(released) = answer else { continue };
            left[node] -= 1;
            rid += usize::from(left[node] == 0);
            if let Released::Freed { contended: is_wanted } = released {
                freed += 1;
                contended |= is_wanted;
            }
        }
    }
    for node in asked.open().iter().filter(|_| rid < needed) {
        said[node] = Some(late(asked.limit()));
    }
    let unclear = nodes - rid;
    asked.finish(|_, _| {});
    tracing::debug!(target: "lock_redlock", key = %claim.key, rid, freed, "release");
    if rid < needed {
        return Err(core.failure("released it", rid, &said));
    }
    // A few votes are no lease.
    let was_held = freed > 0 && (was_valid || freed + unclear >= needed);
    Ok(if was_held { Released::Freed { contended } } else { Released::NotHeld })
}

/// Has nodes release a lease for whose release no task waits.
pub(crate) fn let_go<N: QuorumNode>(core: &Arc<Core<N>>, claim: &Claim) {
    let (_held, ballots) = core.claims.end(claim, core.clock.now());
    ballots.into_iter().for_each(|ballot| drop(Owed::new(core, claim, ballot)));
}
