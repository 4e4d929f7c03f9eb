//! The holders of a lock, according to a majority.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use lock_core::{
    ClientMark, Error, FencingToken, Holder, InspectBackend, Inspection, Key, Label, List, Listed,
    Page, QuorumNode, Result,
};

use super::listing;
use crate::Redlock;
use crate::inner::Core;
use crate::quorum::Quorum;

/// Shows the holders that hold the lock on a majority of nodes. There is no queue.
///
/// A node names a holder by the token that it gave to the holder. After a split vote, the tokens of the nodes may
/// differ. Then the labels tell the holders apart, and without labels their order.
#[async_trait]
impl<N: QuorumNode + InspectBackend> InspectBackend for Redlock<N> {
    async fn inspect(&self, key: &Key) -> Result<Inspection> {
        let core = self.core();
        let mut asked = core.ask(core.quorum.all(), |core, node| {
            let key = key.clone();
            async move { core.call(node, "inspect", |it| it.inspect(&key)).await }
        });
        let inspections = asked.majority("inspected it").await?;
        let nodes: Vec<_> = inspections.into_iter().map(|(_, seen)| seen.holders).collect();
        let mut holders = holders(&nodes, core.quorum);
        let holding = holders.len() as u64;
        holders.truncate(Inspection::MAX);
        Ok(Inspection::new((holders, holding), (Vec::new(), 0)))
    }

    /// Walks through the lists of several nodes, one after the other: so many nodes that every majority has one of
    /// them. Inspects each lock by majority. A lock may be on several pages. The walk skips failed nodes, as long as
    /// enough nodes are left.
    async fn list(&self, list: &List) -> Result<Page> {
        let (keys, next) = listing::step(self.core(), list).await?;
        let looks = stream::iter(keys).map(async |key| {
            let inspection = self.inspect(&key).await?;
            let listed = (inspection.holding > 0).then(|| Listed::new(key, inspection));
            Ok::<_, Error>(listed)
        });
        let locks: Vec<_> = looks.buffer_unordered(AT_ONCE).try_collect().await?;
        Ok(Page::new(locks.into_iter().flatten().collect(), next))
    }

    async fn force_release(&self, key: &Key) -> Result<u64> {
        let core = self.core();
        let mut asked = core.ask(core.quorum.all(), |core, node| {
            let key = key.clone();
            async move { core.call(node, "force_release", |it| it.force_release(&key)).await }
        });
        let ended = asked.majority("released it").await?;
        let mut ended: Vec<_> = ended.into_iter().map(|(_, ended)| ended).collect();
        ended.sort_unstable_by(|a, b| b.cmp(a));
        // A majority has ended at least this many leases.
        Ok(ended.get(core.quorum.needed() - 1).copied().unwrap_or(0))
    }
}

/// How many inspections of a list run at once.
const AT_ONCE: usize = 32;

/// Tells every node the label of a client. A majority has to confirm it.
pub(crate) async fn introduce<N: QuorumNode>(
    core: &Arc<Core<N>>,
    client: ClientMark,
    label: &Label,
    keep: Duration,
) -> Result<()> {
    let mut asked = core.ask(core.quorum.all(), |core, node| {
        let label = label.clone();
        async move { core.nodes[node].backend.introduce(client, &label, keep).await }
    });
    asked.majority("were told a label").await.map(drop)
}

/// The holders that a majority of nodes knows.
///
/// A majority knows a holder by one token, or else by one label, or else only by its kind: the nodes may have given it
/// different tokens.
fn holders(nodes: &[Vec<Holder>], quorum: Quorum) -> Vec<Holder> {
    let mut nodes = nodes.to_vec();
    for holders in &mut nodes {
        holders.sort_by_key(|holder| (holder.token, holder.remaining));
    }
    let mut known = known_by(&mut nodes, quorum, |it| Some((it.kind, it.token)));
    known.extend(known_by(&mut nodes, quorum, |it| Some((it.kind, it.label.clone()?))));
    known.extend(known_by(&mut nodes, quorum, |it| Some(it.kind)));
    known
}

/// Takes the holders off the lists that a majority of the lists has under one name.
fn known_by<T: PartialEq>(
    nodes: &mut [Vec<Holder>],
    quorum: Quorum,
    name: impl Fn(&Holder) -> Option<T>,
) -> Vec<Holder> {
    let names: Vec<_> = nodes.iter().flatten().filter_map(&name).collect();
    let is = |holder: &Holder, wanted: &T| name(holder).as_ref() == Some(wanted);
    names.iter().filter_map(|wanted| take(nodes, quorum, |holder| is(holder, wanted))).collect()
}

/// Takes the first such holder off each list, if a majority of the lists has one.
fn take(
    nodes: &mut [Vec<Holder>],
    quorum: Quorum,
    is_it: impl Fn(&Holder) -> bool,
) -> Option<Holder> {
    let found = |holders: &Vec<Holder>| holders.iter().position(&is_it);
    if nodes.iter().filter(|holders| found(holders).is_some()).count() < quorum.needed() {
        return None;
    }
    let seen: Vec<Holder> = nodes
        .iter_mut()
        .filter_map(|holders| found(holders).map(|index| holders.remove(index)))
        .collect();
    let token: Option<FencingToken> = seen.iter().map(|holder| holder.token).max().flatten();
    let mut left: Vec<_> = seen.iter().map(|it| it.remaining.unwrap_or(Duration::MAX)).collect();
    left.sort_unstable();
    // How long a majority has the lease.
    let left = left[seen.len() - quorum.needed()];
    let remaining = (left < Duration::MAX).then_some(left);
    let label = seen.iter().find_map(|holder| holder.label.clone());
    seen.first().map(|first| Holder::new(first.kind, token, remaining).labelled(label))
}

#[cfg(test)]
mod tests {
    use lock_core::Kind;

    use super::*;

    fn holder(kind: Kind, token: u64, secs: u64) -> Holder {
        Holder::new(kind, Some(FencingToken::new(token)), Some(Duration::from_secs(secs)))
    }

    #[test]
    fn a_majority_is_believed() {
        let shared = |token, secs| holder(Kind::Shared, token, secs);
        let nodes = [
            vec![shared(7, 30), shared(9, 20)],
            vec![shared(9, 25), shared(8, 10)],
            vec![holder(Kind::Exclusive, 3, 5)],
        ];
        let quorum = Quorum::of(3);
        // 7 and 8 are one reader: the nodes gave it different tokens.
        assert_eq!(holders(&nodes, quorum), [shared(9, 20), shared(8, 10)]);
        assert_eq!(holders(&nodes[1..], quorum), []);
    }

    #[test]
    fn where_tokens_differ_labels_tell_holders_apart() {
        let of =
            |token, label: &str| holder(Kind::Shared, token, 9).labelled(Label::new(label).ok());
        let nodes = [vec![of(1, "a"), of(2, "b")], vec![of(3, "b"), of(4, "a")]];
        let seen: Vec<_> =
            holders(&nodes, Quorum::of(2)).into_iter().map(|it| (it.token, it.label)).collect();
        let expected = [of(4, "a"), of(3, "b")].map(|it| (it.token, it.label));
        assert_eq!(seen, expected);
    }
}
