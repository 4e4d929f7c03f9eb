//! Counts the answers of the nodes to renewals, releases and writes; pure.

use lock_core::{Instant, Released};

use crate::quorum::{NodeSet, Quorum};
use crate::validity;

/// The answers to a renewal.
#[derive(Debug)]
pub(crate) struct Renewals {
    quorum: Quorum,
    /// The nodes that have renewed the lease, and until when.
    pub(crate) deadlines: Vec<(usize, Instant)>,
    /// How many nodes have lost their ballot.
    pub(crate) lost: usize,
}

impl Renewals {
    /// The caller does not ask `lost` nodes. They count as nodes that have lost their ballot.
    pub(crate) fn new(quorum: Quorum, lost: usize) -> Self {
        Self { quorum, deadlines: Vec::new(), lost }
    }

    /// Until when a majority has the lease, and which nodes have it.
    pub(crate) fn until(&self) -> Option<(Instant, NodeSet)> {
        validity::until(&self.deadlines, self.quorum.needed())
    }

    /// Whether one of `open` further answers may still decide between a renewal by a majority and a loss.
    pub(crate) fn is_open(&self, open: usize) -> bool {
        let (quorum, renewed) = (self.quorum, self.deadlines.len());
        let is_decided = quorum.is_met_by(renewed) || self.is_lost();
        !is_decided && (quorum.is_met_by(renewed + open) || self.is_lost_with(open))
    }

    /// Whether too few nodes can still have the lease. A node without a ballot of a held lease has lost nothing: its
    /// vote may yet take the place of another vote. Often a bare majority granted the lease a moment ago.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost_with(0)
    }

    fn is_lost_with(&self, more: usize) -> bool {
        self.lost + more > self.quorum.spare()
    }
}

/// The answers to the releases of one claim.
#[derive(Debug)]
pub(crate) struct Releases {
    quorum: Quorum,
    /// How many ballots each node still has to release.
    left: Vec<usize>,
    /// The nodes that count as free for other clients once they have no ballot of the claim. A missing node without a
    /// ballot does not count. A node whose vote may arrive after its release does not count either: the quorum releases
    /// that vote once more.
    reachable: NodeSet,
    freed: usize,
    /// The greatest number of other clients that heard of the release at one node.
    pub(crate) told: u32,
    was_valid: bool,
}

impl Releases {
    /// `ballots` names the node of each ballot. The nodes in `away` may be missing. The votes of the nodes in `unheard`
    /// may still arrive.
    pub(crate) fn new(
        quorum: Quorum,
        ballots: impl IntoIterator<Item = usize>,
        (away, unheard): (NodeSet, NodeSet),
        was_valid: bool,
    ) -> Self {
        let mut left = vec![0; quorum.nodes()];
        ballots.into_iter().for_each(|node| left[node] += 1);
        let is_reachable = |node: &usize| match left[*node] {
            0 => !away.contains(*node),
            _ => !unheard.contains(*node),
        };
        let reachable = quorum.all().iter().filter(is_reachable).collect();
        Self { quorum, left, reachable, freed: 0, told: 0, was_valid }
    }

    pub(crate) fn note(&mut self, node: usize, released: Released) {
        self.left[node] -= 1;
        if let Released::Freed { told } = released {
            self.freed += 1;
            self.told = self.told.max(told);
        }
    }

    /// The nodes that have no ballot of the claim, or no longer have one.
    pub(crate) fn rid(&self) -> NodeSet {
        self.quorum.all().iter().filter(|&node| self.left[node] == 0).collect()
    }

    /// Whether to wait on, if `open` nodes still have to answer.
    ///
    /// A node without a ballot has never voted, or has heard of the release before. If the lease was valid, the
    /// release waits until a node says that it had a ballot, or all nodes have answered.
    pub(crate) fn is_open(&self, open: usize) -> bool {
        let (rid, needed) = (self.rid(), self.quorum.needed());
        let unfree = self.reachable.without(rid).len();
        let is_free = self.reachable.len() - unfree >= needed.min(self.reachable.len());
        let is_decided = is_free && rid.len() >= needed && (self.freed > 0 || !self.was_valid);
        !is_decided && rid.len() + open >= needed
    }

    /// The answer to the caller, if enough nodes are rid of the claim. A few votes are no lease.
    pub(crate) fn outcome(&self) -> Option<Released> {
        let rid = self.rid().len();
        let may_have_been_held = self.freed + self.quorum.nodes() - rid;
        let was_held = self.was_valid || self.quorum.is_met_by(may_have_been_held);
        let released = match self.freed > 0 && was_held {
            true => Released::Freed { told: self.told },
            false => Released::NotHeld,
        };
        self.quorum.is_met_by(rid).then_some(released)
    }
}

/// The answers to a write.
#[derive(Debug)]
pub(crate) struct Writes {
    quorum: Quorum,
    /// Whether the answers of all nodes count.
    needs_all: bool,
    /// The nodes for which the write does not wait once a majority has written.
    absent: NodeSet,
    /// How many nodes have written the value.
    pub(crate) written: usize,
    /// Whether the lease was over when the answers of a majority had come.
    is_late: bool,
    pub(crate) refused: usize,
    /// How many nodes may have written the value, or could not be asked.
    pub(crate) unclear: usize,
}

/// What has become of the value of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A majority has the value.
    Written,
    /// A majority has the value, but its answers came only when the lease was over. A later holder may have loaded the
    /// earlier value before.
    Late,
    /// All nodes have refused the value.
    Refused,
    /// Some nodes may have the value.
    InDoubt,
    /// No node has the value, but some nodes have not refused it.
    Failed,
}

impl Writes {
    pub(crate) fn new(quorum: Quorum, needs_all: bool, absent: NodeSet) -> Self {
        Self { quorum, needs_all, absent, written: 0, is_late: false, refused: 0, unclear: 0 }
    }

    /// A node has written the value. `is_over`: the lease of the writer is over.
    pub(crate) fn wrote(&mut self, is_over: bool) {
        self.written += 1;
        self.is_late |= is_over && self.written == self.quorum.needed();
    }

    /// Whether the write is a success without further answers.
    pub(crate) fn is_enough(&self) -> bool {
        self.quorum.is_met_by(self.written) && !self.needs_all
    }

    /// Whether to wait for the nodes in `open`, which still have to answer.
    pub(crate) fn is_open(&self, open: NodeSet) -> bool {
        let awaited = if self.is_enough() { open.without(self.absent) } else { open };
        !awaited.is_empty() && (self.needs_all || !self.is_lost(open.len()))
    }

    /// Whether the value will not be on a majority, but may be on some nodes, if `open` nodes still have to answer.
    fn is_lost(&self, open: usize) -> bool {
        !self.quorum.is_met_by(self.written + open) && self.written + self.unclear > 0
    }

    /// What has become of the value, if `open` nodes have not answered.
    ///
    /// A later holder may find a value that one node has. So a value counts as refused only if all nodes have refused
    /// it.
    pub(crate) fn fate(&self, open: usize) -> Fate {
        match () {
            () if self.quorum.is_met_by(self.written) && self.is_late => Fate::Late,
            () if self.quorum.is_met_by(self.written) => Fate::Written,
            () if self.refused == self.quorum.nodes() => Fate::Refused,
            () if self.written + self.unclear + open > 0 => Fate::InDoubt,
            () => Fate::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(nodes: impl IntoIterator<Item = usize>) -> NodeSet {
        nodes.into_iter().collect()
    }

    fn none() -> NodeSet {
        NodeSet::default()
    }

    /// What a node answers: yes, no, or nothing that says so.
    fn answers() -> impl Strategy<Value = Vec<Option<bool>>> {
        prop::collection::vec(any::<Option<bool>>(), 1..=9)
    }

    /// The outcomes that are possible while `open` nodes may still answer in any way.
    fn endings<T: PartialEq>(open: usize, fate: impl Fn(&[Option<bool>]) -> T) -> Vec<T> {
        let mut fates = Vec::new();
        for number in 0..3usize.pow(open as u32) {
            let answer = |node: u32| [None, Some(false), Some(true)][number / 3usize.pow(node) % 3];
            fates.push(fate(&(0..open as u32).map(answer).collect::<Vec<_>>()));
        }
        fates.dedup();
        fates
    }

    proptest! {
        /// The caller waits exactly as long as an answer may still change the outcome.
        #[test]
        fn a_renewal_waits_while_an_answer_may_decide(answers in answers(), open in 0..5usize) {
            let quorum = Quorum::of(answers.len());
            let open = open.min(answers.len());
            let heard = &answers[open..];
            let renewals = |answers: &[&[Option<bool>]]| {
                let mut renewals = Renewals::new(quorum, 0);
                for (node, answer) in answers.iter().copied().flatten().enumerate() {
                    match answer {
                        Some(true) => renewals.deadlines.push((node, Instant::FAR_FUTURE)),
                        Some(false) => renewals.lost += 1,
                        None => {}
                    }
                }
                renewals
            };
            let endings = endings(open, |rest| {
                let renewals = renewals(&[heard, rest]);
                (renewals.until().is_some(), renewals.is_lost())
            });
            prop_assert_eq!(renewals(&[heard]).is_open(open), endings.len() > 1);
        }

        /// A write that waits no longer ends in one way, whatever the other nodes answer.
        #[test]
        fn a_write_waits_until_its_fate_is_clear(
            answers in answers(),
            open in 0..5usize,
            needs_all: bool,
        ) {
            let quorum = Quorum::of(answers.len());
            let open = open.min(answers.len());
            let heard = &answers[open..];
            let writes = |answers: &[&[Option<bool>]]| {
                let mut writes = Writes::new(quorum, needs_all, none());
                for answer in answers.iter().copied().flatten() {
                    match answer {
                        Some(true) => writes.wrote(false),
                        Some(false) => writes.refused += 1,
                        None => writes.unclear += 1,
                    }
                }
                writes
            };
            let endings = endings(open, |rest| writes(&[heard, rest]).fate(0));
            let now = writes(&[heard]);
            if !now.is_open(nodes(0..open)) {
                prop_assert!(endings.len() == 1 && now.fate(open) == endings[0]);
                prop_assert!(open == 0 || !needs_all);
            } else if !now.is_enough() && !needs_all {
                prop_assert!(endings.len() > 1);
            }
            let is_on_majority = quorum.is_met_by(now.written);
            prop_assert_eq!(now.fate(open) == Fate::Written, is_on_majority);
        }
    }

    #[test]
    fn a_written_value_waits_for_no_absent_node() {
        let mut writes = Writes::new(Quorum::of(3), false, nodes([2]));
        assert!(writes.is_open(nodes(0..3)) && writes.is_open(nodes([2])));
        (0..2).for_each(|_| writes.wrote(false));
        assert!(!writes.is_open(nodes([2])) && writes.is_open(nodes([1, 2])));
        let mut mark = Writes::new(Quorum::of(3), true, nodes([2]));
        (0..2).for_each(|_| mark.wrote(false));
        assert!(mark.is_open(nodes([2])) && !mark.is_enough());
    }

    #[test]
    fn a_write_that_a_majority_has_only_after_the_lease_is_late() {
        for (over, fate) in
            [([false, false, true], Fate::Written), ([false, true, true], Fate::Late)]
        {
            let mut writes = Writes::new(Quorum::of(3), false, none());
            over.into_iter().for_each(|is_over| writes.wrote(is_over));
            assert_eq!(writes.fate(0), fate);
        }
    }

    #[test]
    fn a_value_that_no_node_has_is_refused_only_by_all_nodes() {
        let mut writes = Writes::new(Quorum::of(3), false, none());
        (0..2).for_each(|_| writes.refused += 1);
        assert_eq!((writes.fate(1), writes.fate(0)), (Fate::InDoubt, Fate::Failed));
        writes.refused += 1;
        assert_eq!(writes.fate(0), Fate::Refused);
    }

    const FREED: Released = Released::Freed { told: 4 };

    #[test]
    fn a_release_waits_for_a_majority_that_is_free() {
        let mut releases = Releases::new(Quorum::of(3), 0..3, (none(), nodes([1])), true);
        assert!(releases.is_open(3));
        releases.note(0, FREED);
        // The vote of this node may come later, so it does not count as free.
        releases.note(1, Released::NotHeld);
        assert!(releases.is_open(1) && releases.outcome().is_some());
        releases.note(2, Released::NotHeld);
        assert!(!releases.is_open(0));
        assert_eq!(releases.outcome(), Some(FREED));
    }

    #[test]
    fn a_release_waits_for_no_missing_node_and_not_for_a_majority_that_cannot_answer() {
        let ballots = [0, 1];
        let mut releases = Releases::new(Quorum::of(3), ballots, (nodes([2]), none()), false);
        releases.note(0, Released::NotHeld);
        assert!(releases.is_open(1));
        releases.note(1, Released::NotHeld);
        assert!(!releases.is_open(0));
        let mut lost = Releases::new(Quorum::of(3), 0..3, (none(), none()), true);
        lost.note(0, FREED);
        assert!(lost.is_open(1) && !lost.is_open(0));
        assert_eq!(lost.outcome(), None);
    }

    #[test]
    fn a_release_of_a_valid_lease_waits_until_a_node_had_it() {
        let mut releases = Releases::new(Quorum::of(3), 0..3, (none(), none()), true);
        (0..2).for_each(|node| releases.note(node, Released::NotHeld));
        assert!(releases.is_open(1));
        releases.note(2, FREED);
        assert!(!releases.is_open(0));
    }

    #[test]
    fn a_few_votes_are_no_lease() {
        for (was_valid, outcome) in [(true, FREED), (false, Released::NotHeld)] {
            let mut releases = Releases::new(Quorum::of(3), [0], (none(), none()), was_valid);
            releases.note(0, FREED);
            assert_eq!(releases.outcome(), Some(outcome));
        }
    }

    /// A node that has two ballots is rid of the claim when it has released both.
    #[test]
    fn a_node_releases_each_of_its_ballots() {
        let mut releases = Releases::new(Quorum::of(1), [0, 0], (none(), none()), false);
        releases.note(0, FREED);
        assert_eq!((releases.rid(), releases.outcome()), (none(), None));
        releases.note(0, Released::NotHeld);
        assert_eq!(releases.outcome(), Some(FREED));
    }
}
