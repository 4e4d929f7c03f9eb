//! Which nodes to ask first; pure.

use lock_core::Key;

use crate::quorum::{NodeSet, Quorum};

/// The constants of FNV-1a with 64 bits (Fowler, Noll and Vo, 1991).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// A majority of the nodes with these hashes of their names, without the missing nodes; and the first node of this
/// majority. `None` if too many nodes are missing.
///
/// All clients with one view of the missing nodes ask one majority for a key. So contenders meet at the same nodes.
/// Other keys have other majorities (rendezvous hashing; Thaler and Ravishankar, 1998).
pub(crate) fn majority(
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

/// Spreads each bit over all bits (the finalizer of SplitMix64; Steele, Lea and Flood, 2014).
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
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
