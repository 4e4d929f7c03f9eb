//! Majorities.

use std::fmt;

/// The number of nodes, and the size of a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quorum {
    nodes: usize,
}

impl Quorum {
    /// The highest number of nodes.
    pub(crate) const MAX: usize = 31;

    /// A quorum of this many nodes: at least one, and at most [`MAX`](Self::MAX).
    pub(crate) fn of(nodes: usize) -> Self {
        Self { nodes }
    }

    pub(crate) fn nodes(self) -> usize {
        self.nodes
    }

    /// The size of a majority: any two majorities have a node in common.
    pub(crate) fn needed(self) -> usize {
        self.nodes / 2 + 1
    }

    /// Whether this many nodes are a majority.
    pub(crate) fn is_met_by(self, count: usize) -> bool {
        count >= self.needed()
    }

    /// How many nodes may be missing while the other nodes are a majority.
    pub(crate) fn spare(self) -> usize {
        self.nodes - self.needed()
    }

    pub(crate) fn all(self) -> NodeSet {
        (0..self.nodes).collect()
    }
}

/// Some of the nodes, by their numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct NodeSet(u32);

impl NodeSet {
    pub(crate) fn insert(&mut self, node: usize) {
        self.0 |= 1 << node;
    }

    /// Removes a node. Returns whether it was in the set.
    pub(crate) fn remove(&mut self, node: usize) -> bool {
        let was_in = self.contains(node);
        self.0 &= !(1 << node);
        was_in
    }

    pub(crate) fn contains(self, node: usize) -> bool {
        self.0 & (1 << node) != 0
    }

    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..Quorum::MAX).filter(move |&node| self.contains(node))
    }

    /// The nodes that are not in `other`.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_majorities_meet() {
        for nodes in 1..=Quorum::MAX {
            let needed = Quorum::of(nodes).needed();
            assert!(2 * needed > nodes && 2 * (needed - 1) <= nodes, "{needed} of {nodes}");
        }
        assert_eq!([1, 2, 3, 4, 5, 7].map(|nodes| Quorum::of(nodes).needed()), [1, 2, 2, 3, 3, 4]);
    }

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set: NodeSet = (0..Quorum::MAX).collect();
        assert_eq!(set.len(), Quorum::MAX);
        assert!(set.remove(30) && !set.remove(30) && !set.contains(30));
        let odd: NodeSet = (1..30).step_by(2).collect();
        assert_eq!(set.without(odd).iter().collect::<Vec<_>>(), Vec::from_iter((0..30).step_by(2)));
        assert!(odd.without(set).is_empty());
    }
}
