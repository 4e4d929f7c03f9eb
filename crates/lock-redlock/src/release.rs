//! Ends a lease on all nodes.

use std::sync::Arc;

use lock_core::{Claim, Error, QuorumNode, Released, Ttl};

use crate::agenda::Duty;
use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::catching_up::Owed;
use crate::counts::Releases;
use crate::inner::Core;
use crate::quorum::NodeSet;

/// Releases the ballots of a claim. Returns when a quorum has no ballot of the claim and is free for other claims. The
/// other releases go on in the background, which repeats them at unreachable nodes.
pub(crate) async fn release<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
) -> Result<Released, Error> {
    let now = core.clock.now();
    let (held, ballots, unheard) = core.claims.end(claim, now);
    let was_valid = held.is_some_and(|held| held.valid_until > now);
    let nodes = ballots.iter().map(|ballot| ballot.node);
    let mut releases = Releases::new(core.quorum, nodes, (core.away(), unheard), was_valid);
    let mut asked = Asked::new(core, core.settings.patience());
    for ballot in ballots {
        asked.ask(ballot.node, Owed::new(core, claim, ballot, Duty::Release).release());
    }
    while asked.has_ready() || releases.is_open(asked.open().len()) {
        let Some((node, released)) = asked.next().await else { break };
        if let Some(released) = released {
            releases.note(node, released);
        }
    }
    tracing::debug!(target: "lock_redlock", key = %claim.key, ?releases, "release");
    let answer = match releases.outcome() {
        Some(released) => {
            core.watched.released(&claim.key, releases.told);
            Ok(released)
        }
        None => Err(asked.failure("released it", releases.rid().len())),
    };
    asked.finish();
    answer
}

/// Releases ballots that were given up. Returns when each of the `granted` nodes has answered or has had time to answer:
/// these votes are in the way of other claims.
///
/// A node may also have a vote of which this process has not heard. So the function sends each release before it
/// returns. The background cannot do that as surely: it may have to open a connection first, for example to a node whose
/// answers are lost.
pub(crate) async fn give_up<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    ttl: Ttl,
    (dead, granted): (Vec<Ballot>, NodeSet),
) {
    let mut asked = Asked::new(core, core.settings.limit(ttl));
    for ballot in dead {
        asked.ask(ballot.node, Owed::new(core, claim, ballot, Duty::Release).release());
    }
    while granted.iter().any(|node| asked.open().contains(node)) && asked.next().await.is_some() {}
    while asked.next_until(core.clock.now()).await.is_some() {}
    if !asked.open().is_empty() {
        // A connection with requests under way leaves it to a task of this runtime to send another request.
        tokio::task::yield_now().await;
    }
    asked.finish();
}
