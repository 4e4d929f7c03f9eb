//! Which nodes to ask first; pure.

use std::time::Duration;

use lock_core::{Instant, Key};

use crate::hash::{hash, mix};
use crate::quorum::{NodeSet, Quorum};

/// The shortest time that the nodes of a majority have before the request also asks other nodes.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);

/// Which nodes to ask later. By default the round asks all nodes at once.
#[derive(Clone, Copy, Default)]
pub(crate) struct Order {
    /// The nodes to ask when the others have voted.
    pub(crate) rest: NodeSet,
    /// The nodes to ask when the others cannot decide alone, or have not decided by that time.
    pub(crate) later: Option<(NodeSet, Instant)>,
}

/// How long the nodes of a majority have before the request also asks other nodes: two round trips of a quorum. `limit`: how
/// long a node may take to answer. The other nodes keep most of this time.
pub(crate) fn head_start(trip: Duration, limit: Duration) -> Duration {
    (2 * trip).max(SHORTEST).min(limit / 4)
}

/// A majority first, and the other nodes `later`. `None` if too many nodes are missing: then a request asks all nodes at
/// once.
///
/// If the lock `is_contended`, each client asks the first node alone, and only the client with the vote of that node asks
/// the others. So a refused client has sent one request, and clients do not split the votes.
pub(crate) fn order(
    quorum: Quorum,
    names: impl Iterator<Item = u64>,
    missing: NodeSet,
    key: &Key,
    is_contended: bool,
    later: Instant,
) -> Option<Order> {
    let (first, majority) = majority(quorum, names, missing, key)?;
    let others = majority.without([first].into_iter().collect());
    let rest = if is_contended { others } else { NodeSet::default() };
    Some(Order { rest, later: Some((quorum.all().without(majority), later)) })
}

/// A majority of the nodes with these hashes of their names, without the missing nodes; and the first node of this
/// majority. `None` if too many nodes are missing.
///
/// All clients with one view of the missing nodes ask one majority for a key. So contenders meet at the same nodes.
/// Other keys have other majorities (rendezvous hashing; Thaler and Ravishankar, 1998).
fn majority(
    quorum: Quorum,
    names: impl Iterator<Item = u64>,
    missing: NodeSet,
    key: &Key,
) -> Option<(usize, NodeSet)> {
    let key = hash(key.as_bytes());
    let mut ranked: Vec<_> = names.map(|name| mix(name ^ key)).zip(0..).collect();
    ranked.sort_unstable();
    let there = ranked.into_iter().map(|(_, node)| node).filter(|&node| !missing.contains(node));
    let first: Vec<_> = there.take(quorum.needed()).collect();
    (first.len() == quorum.needed()).then(|| (first[0], first.into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_clients_ask_one_majority_and_each_node_gets_its_share() {
        let names = |order: [usize; 5]| order.map(|name| hash(name.to_string().as_bytes()));
        let (one, other) = ([1, 2, 3, 4, 5], [4, 1, 5, 3, 2]);
        let quorum = Quorum::of(5);
        let mut asked = [0; 5];
        for number in 0..1_000 {
            let key = Key::new(format!("orders/{number}")).unwrap();
            let of = |order: [usize; 5]| {
                let none = NodeSet::default();
                let (first, nodes) =
                    majority(quorum, names(order).into_iter(), none, &key).unwrap();
                assert!(nodes.contains(first));
                let mut names: Vec<_> = nodes.iter().map(|node| order[node]).collect();
                names.sort_unstable();
                names
            };
            assert_eq!(of(one), of(other));
            assert_eq!(of(one).len(), 3);
            of(one).into_iter().for_each(|name| asked[name - 1] += 1);
        }
        assert!(asked.iter().all(|asked| (500..700).contains(asked)), "{asked:?}");
    }

    #[test]
    fn a_contended_lock_is_asked_for_at_one_node_first() {
        let (quorum, key, later) =
            (Quorum::of(5), Key::new("orders").unwrap(), Instant::FAR_FUTURE);
        let none = NodeSet::default();
        let (first, majority) = majority(quorum, 0..5, none, &key).unwrap();
        for is_contended in [false, true] {
            let order = order(quorum, 0..5, none, &key, is_contended, later).unwrap();
            assert_eq!(order.later, Some((quorum.all().without(majority), later)));
            let others = majority.iter().filter(|&node| is_contended && node != first).collect();
            assert_eq!(order.rest, others);
        }
        assert!(order(quorum, 0..5, majority, &key, false, later).is_none());
    }

    #[test]
    fn a_majority_has_two_round_trips_and_leaves_time_for_the_others() {
        let millis = Duration::from_millis;
        assert_eq!(head_start(millis(30), millis(1_000)), millis(60));
        assert_eq!(head_start(Duration::from_micros(100), millis(1_000)), SHORTEST);
        assert_eq!(head_start(millis(30), millis(100)), millis(25));
    }

    #[test]
    fn the_next_nodes_take_the_places_of_those_that_are_missing() {
        let (quorum, key) = (Quorum::of(5), Key::new("orders").unwrap());
        let of = |missing| majority(quorum, 0..5, missing, &key).map(|(_, nodes)| nodes);
        let first = of(NodeSet::default()).unwrap();
        let missing: NodeSet = first.iter().take(2).collect();
        let others: NodeSet = (0..5).filter(|&node| !missing.contains(node)).collect();
        assert_eq!(of(missing), Some(others));
        assert_eq!(of(first), None);
    }
}
