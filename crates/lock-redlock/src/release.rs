//! Ending a lease on all nodes.

use std::sync::Arc;

use lock_core::{Claim, Error, QuorumNode, Released};

use crate::inner::Core;
use crate::owed::Owed;

/// Releases a claim on all nodes. Returns when a quorum is rid of it, which others can then have; the rest
/// goes on in the background, and is repeated at nodes that cannot be reached.
pub(crate) async fn release<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
) -> Result<Released, Error> {
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let now = core.clock.now();
    let held = core.claims.end(claim).filter(|held| held.valid_until > now);
    let mut asked = core.ask(0..nodes, core.settings.patience(), |core, node| {
        let owed = Owed::new(&core, claim, node);
        core.release(owed)
    });
    let (mut rid, mut freed, mut contended) = (0, 0, false);
    let mut said = vec![None; nodes];
    // Nodes that do not have it may never have voted, or have heard of this before. One that had it is needed to
    // say that a lease was there, and the others are waited for before it is said that a valid one was not.
    let is_open = |rid: usize, freed: usize| rid < needed || freed == 0 && held.is_some();
    while is_open(rid, freed) && rid + asked.open().len() >= needed {
        let Some(batch) = asked.answers().await else { break };
        for (node, answer) in batch {
            match answer {
                Ok(Released::Freed { contended: waited_for }) => {
                    rid += 1;
                    freed += 1;
                    contended |= waited_for;
                }
                Ok(_) => rid += 1,
                Err(error) => said[node] = Some(error),
            }
        }
    }
    let open = asked.open();
    for node in open.iter().filter(|_| rid < needed) {
        said[node] = Some(crate::asked::late(asked.limit()));
    }
    let unclear = nodes - rid;
    asked.finish(|_, _| {});
    tracing::debug!(target: "lock_redlock", key = %claim.key, rid, freed, "release");
    if rid < needed {
        return Err(core.failure("released it", rid, &said));
    }
    // A few votes are no lease.
    let was_held = freed > 0 && (held.is_some() || freed + unclear >= needed);
    Ok(if was_held { Released::Freed { contended } } else { Released::NotHeld })
}

/// Has nodes release a lease that nobody waits for to be released.
pub(crate) fn let_go<N: QuorumNode>(core: &Arc<Core<N>>, claim: &Claim) {
    let _over = core.claims.end(claim);
    (0..core.quorum.nodes()).for_each(|node| drop(Owed::new(core, claim, node)));
}
