//! Makes nodes agree on a fencing token.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Claim, Error, OwnerToken, QuorumNode, TokenRange};

use crate::asked::Asked;
use crate::ballot::Ballot;
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::tokens::Shares;

/// The nodes that did not confirm a token. There is no error if a node refused to confirm it.
pub(crate) type Failed = Vec<(usize, Option<Error>)>;

impl<N: QuorumNode> Core<N> {
    /// Makes a majority of the nodes that have granted a claim know one token. Returns the tokens of the quorum, and the
    /// nodes that agree. A node has the time of its `limit` to confirm the token, and no longer than the `patience`.
    ///
    /// # Errors
    ///
    /// If too few nodes confirm the token. The other nodes may agree yet, together with nodes that grant the claim
    /// later. So the shares have only these other nodes.
    pub(crate) async fn agree(
        self: &Arc<Self>,
        (claim, owner): (&Claim, OwnerToken),
        shares: &mut Shares,
        (limit, patience): (Duration, Option<Duration>),
    ) -> Result<(TokenRange, NodeSet), Failed> {
        let Some((token, mut behind)) = shares.target() else { return Err(Failed::new()) };
        let mut asked = Asked::new(self, limit);
        let end = patience.map(|patience| self.clock.now() + patience);
        for node in behind.iter() {
            let (core, claim) = (Arc::clone(self), Ballot { node, owner }.claim(claim));
            asked.ask(node, async move {
                let confirm = core.nodes[node].timed(core.clock, |it| it.confirm(&claim, token));
                core.noted(node, "confirm", confirm.await)
            });
        }
        let agreed = loop {
            let agreed = shares.agreed(token);
            if agreed.is_some() {
                break agreed;
            }
            let answer = match end {
                Some(end) => asked.next_until(end).await,
                None => asked.next().await,
            };
            let Some((node, answer)) = answer else { break None };
            if answer == Some(true) {
                shares.confirm(node, token);
                behind.remove(node);
            }
        };
        let mut said = asked.said();
        asked.finish();
        agreed.ok_or_else(|| {
            behind.iter().for_each(|node| shares.refuse(node));
            behind.iter().map(|node| (node, said[node].take())).collect()
        })
    }
}
