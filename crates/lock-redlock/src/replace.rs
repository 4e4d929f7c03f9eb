//! Replaces a node.
//!
//! First, the nodes that stay leave the former membership, so that its clients have no majority any more. Only then
//! does the new node begin its quarantine, and the nodes that stay become members together with the new node.

use std::sync::Arc;

use lock_core::{Error, Membership, QuorumNode, Terms};

use crate::background::pause;
use crate::inner::{Core, invalid};
use crate::quorum::NodeSet;
use crate::register::LOOK;

/// Makes the node `new` take the place of the node `old`, which is no node of this quorum.
pub(crate) async fn replace<N: QuorumNode>(
    core: &Arc<Core<N>>,
    old: &str,
    new: &str,
) -> Result<(), Error> {
    let node = check(core, old, new)?;
    let names = core.nodes.iter().map(|node| &*node.name);
    let former = Membership::of(names.map(|name| if name == new { old } else { name }));
    let ours = core.terms.clone();
    let vacant = Terms::new(Membership::none(), ours.max_ttl).ending(ours.ending);
    let others: NodeSet = core.quorum.all().without([node].into_iter().collect());
    check_new(core, node, others).await?;

    // From now on no client of the former quorum gets the votes of a majority.
    let left = reassign(core, others, former, vacant.clone()).await?;
    // Nor does a client renew a lease, once its last look at a node that stays is too old.
    pause(&core.background, core.clock, LOOK + LOOK / 10).await;
    let admitted = core.call(node, "admit", |it| it.admit(&ours));
    core.in_time(node, core.settings.patience(), admitted).await?;
    core.register.forget(node);
    reassign(core, left, vacant.membership, ours).await?;
    Ok(())
}

fn check<N>(core: &Core<N>, old: &str, new: &str) -> Result<usize, Error> {
    let position = |name: &str| core.nodes.iter().position(|node| &*node.name == name);
    if !core.settings.quarantine {
        return Err(invalid("without quarantine, nodes record no members"));
    }
    if position(old).is_some() {
        return Err(invalid(format!("{old} is a node of this quorum, so it is not replaced")));
    }
    position(new).ok_or_else(|| invalid(format!("this quorum has no node {new}")))
}

/// Refuses a new node whose earlier votes may still count.
async fn check_new<N: QuorumNode>(
    core: &Arc<Core<N>>,
    node: usize,
    others: NodeSet,
) -> Result<(), Error> {
    let standing = core.in_time(node, core.settings.patience(), core.meet(node)).await?;
    let Some(standing) = standing else {
        return Err(invalid(format!("{} cannot tell its standing", core.nodes[node].name)));
    };
    if standing.max_ttl.is_none() {
        return Ok(());
    }
    // If this call is a repetition, some nodes have changed before.
    let mut asked = core.ask(others, |core, node| async move { core.meet(node).await });
    let others = asked.all().await;
    if others.iter().flat_map(|(_, standing)| standing).any(|standing| core.is_member(standing)) {
        return Ok(());
    }
    let name = &core.nodes[node].name;
    Err(invalid(format!("{name} votes in a quorum: delete its data first, or name it anew")))
}

/// Makes nodes leave one membership for another. Returns the nodes that have the new membership.
///
/// # Errors
///
/// If so few nodes have the new membership that the others and the replaced node may be a majority.
async fn reassign<N: QuorumNode>(
    core: &Arc<Core<N>>,
    nodes: NodeSet,
    from: Membership,
    to: Terms,
) -> Result<NodeSet, Error> {
    let mut asked = core.ask(nodes, |core, node| {
        let (from, to) = (from.clone(), to.clone());
        async move { core.leave(node, &from, &to).await }
    });
    let changed: NodeSet = asked.all().await.into_iter().map(|(node, ())| node).collect();
    if changed.len() > core.quorum.spare() {
        return Ok(changed);
    }
    Err(asked.failure("changed their membership", changed.len()))
}

impl<N: QuorumNode> Core<N> {
    /// Makes one node leave one membership for another. A node that is already a member of this quorum need not change.
    async fn leave(
        self: &Arc<Self>,
        node: usize,
        from: &Membership,
        to: &Terms,
    ) -> Result<(), Error> {
        let standing = self.call(node, "reassign", |it| it.reassign(from, to)).await?;
        self.register.forget(node);
        if standing.membership == to.membership || self.is_member(&standing) {
            return Ok(());
        }
        Err(invalid("it is a member of a third quorum"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_wait_is_longer_than_a_look_by_more_than_the_drift() {
        let wait = LOOK + LOOK / 10;
        assert!(wait > LOOK.mul_f64(1.05) && wait < Duration::from_secs(1));
    }
}
