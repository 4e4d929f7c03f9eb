//! Counts the votes so far.

use std::collections::BTreeMap;

use lock_core::{Instant, OwnerTag};

use crate::quorum::{NodeSet, Quorum};

/// The answers of the nodes to one claim.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    quorum: Quorum,
    me: OwnerTag,
    answers: Vec<Option<Answer>>,
}

/// The answer of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted,
    /// Another claim has the vote of the node: until `free_at`, unless that claim renews its lease.
    Busy {
        holder: Option<OwnerTag>,
        free_at: Option<Instant>,
    },
    /// The node does not vote, or its vote does not count any more.
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A quorum is possible and not there yet, or a vote may still come that is in the way of another claim.
    Open,
    Won,
    /// Another claim has a quorum, or will get it.
    Held,
    /// No claim has a quorum, and the claims with votes are in the way of one another.
    Split {
        /// Whether the other claims give way to this claim.
        favourite: bool,
    },
    /// Too few nodes vote.
    Unable,
}

impl Tally {
    pub(crate) fn new(quorum: Quorum, me: OwnerTag) -> Self {
        Self { quorum, me, answers: vec![None; quorum.nodes()] }
    }

    /// Notes an answer, which may replace an earlier answer.
    pub(crate) fn note(&mut self, node: usize, answer: Answer) {
        self.answers[node] = Some(answer);
    }

    /// The node will be asked again.
    pub(crate) fn forget(&mut self, node: usize) {
        self.answers[node] = None;
    }

    /// The nodes that have not answered.
    pub(crate) fn open(&self) -> NodeSet {
        self.nodes(|answer| answer.is_none())
    }

    pub(crate) fn granted(&self) -> NodeSet {
        self.nodes(|answer| matches!(answer, Some(Answer::Granted)))
    }

    /// The nodes that have voted for another claim, and the owner of that claim.
    pub(crate) fn rivals(&self) -> Vec<(usize, Option<OwnerTag>)> {
        let answers = self.answers.iter().enumerate();
        let rivals = answers.filter_map(|(node, answer)| match *answer {
            Some(Answer::Busy { holder, .. }) => Some((node, holder)),
            _ => None,
        });
        rivals.collect()
    }

    /// The verdict, as early as it is certain: when the answers of the nodes in [`open`](Self::open) can no longer
    /// change whether this claim has a quorum. Of these nodes, only the nodes in `asked` may still vote for this
    /// claim.
    pub(crate) fn verdict(&self, asked: NodeSet) -> Verdict {
        let (needed, open) = (self.quorum.needed(), self.open().len());
        let granted = self.granted().len();
        let rivals = self.rivals();
        if granted >= needed {
            return Verdict::Won;
        }
        if granted + open >= needed {
            return Verdict::Open;
        }
        if granted + rivals.len() + open < needed {
            return Verdict::Unable;
        }
        // A node that still has an earlier ballot of the claim names the claim itself.
        let mine = granted + rivals.iter().filter(|(_, holder)| *holder == Some(self.me)).count();
        // Clients of other libraries do not know the rule by which one claim gives way to another.
        let strangers = rivals.iter().filter(|(_, holder)| holder.is_none()).count();
        if strangers > self.quorum.spare() {
            return Verdict::Held;
        }
        let mut votes = BTreeMap::new();
        for holder in rivals.into_iter().filter_map(|(_, holder)| holder) {
            *votes.entry(holder).or_default() += 1;
        }
        votes.insert(self.me, mine);
        if votes.iter().any(|(tag, &votes)| *tag != self.me && votes >= needed) {
            return Verdict::Held;
        }
        // Without a vote, this claim is not in the way of other claims. But a vote may still come: if every
        // contender gave up before its only vote had come, no contender would get the lock.
        if mine == 0 {
            let may_come = self.open().iter().any(|node| asked.contains(node));
            return if may_come { Verdict::Open } else { Verdict::Held };
        }
        // The first tag among the tags with the most votes: all clients that see the same votes pick the same
        // favourite.
        let most = votes.values().copied().max();
        let favourite = votes.iter().find(|(_, votes)| Some(**votes) == most).map(|(tag, _)| *tag);
        Verdict::Split { favourite: favourite == Some(self.me) }
    }

    /// The verdict if only nodes that are `away` have not answered. A wait for these nodes would only keep rival votes in
    /// the way of one another. `None` if other nodes still have to answer, or if the wait is worth it.
    pub(crate) fn verdict_without(&self, away: NodeSet) -> Option<Verdict> {
        let open = self.open();
        if open.is_empty() || !open.without(away).is_empty() {
            return None;
        }
        let mut rest = self.clone();
        open.iter().for_each(|node| rest.note(node, Answer::Out));
        match rest.verdict(NodeSet::default()) {
            // Another claim may lack the votes that this claim has.
            Verdict::Held if !self.granted().is_empty() => None,
            verdict => matches!(verdict, Verdict::Held | Verdict::Split { .. }).then_some(verdict),
        }
    }

    /// When a quorum will be free, because enough leases of other claims have ended, if no claim renews its lease.
    /// If too few nodes have answered to tell, the latest known end of a lease. `None` if that lease has no known
    /// end.
    pub(crate) fn free_at(&self, now: Instant) -> Option<Instant> {
        let mut free = Vec::new();
        for answer in self.answers.iter().flatten() {
            match *answer {
                Answer::Granted => free.push(now),
                Answer::Busy { free_at, .. } => free.push(free_at.unwrap_or(Instant::FAR_FUTURE)),
                Answer::Out => {}
            }
        }
        free.sort_unstable();
        let at = *free.get(self.quorum.needed() - 1).or(free.last())?;
        (at < Instant::FAR_FUTURE).then_some(at)
    }

    fn nodes(&self, is_in: impl Fn(&Option<Answer>) -> bool) -> NodeSet {
        (0..self.answers.len()).filter(|&node| is_in(&self.answers[node])).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ME: OwnerTag = OwnerTag::new(5);

    fn busy(holder: u32) -> Answer {
        Answer::Busy { holder: Some(OwnerTag::new(holder)), free_at: None }
    }

    fn tally(answers: &[Option<Answer>]) -> Tally {
        let mut tally = Tally::new(Quorum::of(answers.len()), ME);
        for (node, answer) in answers.iter().enumerate() {
            if let Some(answer) = answer {
                tally.note(node, *answer);
            }
        }
        tally
    }

    #[test]
    fn a_split_goes_to_who_has_the_most_votes() {
        let (mine, out) = (Some(Answer::Granted), Some(Answer::Out));
        let none = NodeSet::default();
        let verdict = |answers: &[_]| tally(answers).verdict(none);
        let split = |favourite| Verdict::Split { favourite };
        assert_eq!(verdict(&[mine, mine, Some(busy(1)), Some(busy(2)), out]), split(true));
        assert_eq!(verdict(&[mine, mine, Some(busy(1)), Some(busy(1)), out]), split(false));
        assert_eq!(verdict(&[mine, mine, Some(busy(9)), Some(busy(9)), out]), split(true));
        assert_eq!(
            verdict(&[mine, Some(busy(1)), Some(busy(1)), Some(busy(1)), None]),
            Verdict::Held
        );
        assert_eq!(verdict(&[mine, out, out, out, None]), Verdict::Unable);
        let contended = tally(&[None, Some(busy(1)), Some(busy(2))]);
        assert_eq!(contended.verdict(none), Verdict::Held);
        assert_eq!(contended.verdict(contended.open()), Verdict::Open);
        let held = tally(&[None, Some(busy(1)), Some(busy(1))]);
        assert_eq!(held.verdict(held.open()), Verdict::Held);
        let stranger = Some(Answer::Busy { holder: None, free_at: None });
        assert_eq!(verdict(&[mine, stranger, stranger]), Verdict::Held);
        assert_eq!(verdict(&[mine, mine, None, None, None]), Verdict::Open);
        // Earlier ballots of the claim, which some nodes still have to release.
        let earlier = Some(busy(5));
        assert_eq!(verdict(&[earlier, earlier, earlier]), split(true));
        assert_eq!(verdict(&[earlier, Some(busy(1)), Some(busy(1)), mine, out]), split(false));
        assert_eq!(verdict(&[mine, mine, mine, None, None]), Verdict::Won);
    }

    #[test]
    fn votes_that_are_split_wait_for_no_missing_node() {
        let (mine, none) = (Some(Answer::Granted), NodeSet::default());
        let away: NodeSet = [2].into_iter().collect();
        let split = tally(&[mine, Some(busy(1)), None]);
        assert_eq!(split.verdict(away), Verdict::Open);
        assert_eq!(split.verdict_without(away), Some(Verdict::Split { favourite: false }));
        assert_eq!(split.verdict_without(none), None);
        let held = tally(&[Some(busy(1)), Some(busy(2)), None]);
        assert_eq!(held.verdict_without(away), Some(Verdict::Held));
        // Too few nodes vote.
        let lonely = tally(&[mine, Some(Answer::Out), None]);
        assert_eq!(lonely.verdict_without(away), None);
        assert_eq!(tally(&[mine, mine, mine]).verdict_without(away), None);
    }

    #[test]
    fn it_is_free_when_a_quorum_is() {
        let at = |nanos| {
            let free_at = Some(Instant::from_nanos(nanos));
            Some(Answer::Busy { holder: None, free_at })
        };
        let (now, mine) = (Instant::from_nanos(10), Some(Answer::Granted));
        let free_at = |answers: &[_]| tally(answers).free_at(now).map(Instant::as_nanos);
        assert_eq!(free_at(&[at(30), at(20), at(40)]), Some(30));
        assert_eq!(free_at(&[mine, at(20), at(40)]), Some(20));
        assert_eq!(free_at(&[mine, Some(Answer::Out), at(40)]), Some(40));
        assert_eq!(free_at(&[None, Some(Answer::Out), at(40)]), Some(40));
        assert_eq!(free_at(&[mine, Some(busy(1)), Some(busy(1))]), None);
    }

    fn answer() -> impl Strategy<Value = Answer> {
        prop_oneof![
            Just(Answer::Granted),
            (1..9u32).prop_map(busy),
            Just(Answer::Busy { holder: None, free_at: None }),
            Just(Answer::Out),
        ]
    }

    proptest! {
        /// Once the verdict says whether there is a quorum, no further answer changes that. The last answer decides at
        /// the latest.
        #[test]
        fn a_verdict_is_early_and_final(
            answers in prop::collection::vec(answer(), 1..=9),
            order in any::<prop::sample::Index>(),
        ) {
            let nodes = answers.len();
            let mut tally = Tally::new(Quorum::of(nodes), ME);
            let mut decided = None;
            for step in 0..nodes {
                let node = (step + order.index(nodes)) % nodes;
                tally.note(node, answers[node]);
                let verdict = tally.verdict(NodeSet::default());
                let (granted, open) = (tally.granted().len(), tally.open().len());
                let needed = Quorum::of(nodes).needed();
                let is_open = granted < needed && granted + open >= needed;
                prop_assert_eq!(verdict == Verdict::Open, is_open);
                if let Some(won) = decided {
                    prop_assert_eq!(verdict == Verdict::Won, won);
                } else if verdict != Verdict::Open {
                    decided = Some(verdict == Verdict::Won);
                }
            }
            prop_assert!(decided.is_some());
        }

        /// If the contenders together have the votes of all nodes, exactly one contender is the
        /// favourite.
        #[test]
        fn a_split_has_one_favourite(votes in prop::collection::vec(1..9u32, 1..=9)) {
            let quorum = Quorum::of(votes.len());
            let favourites = (1..9).filter(|&me| {
                let mut tally = Tally::new(quorum, OwnerTag::new(me));
                for (node, &voter) in votes.iter().enumerate() {
                    let answer = if voter == me { Answer::Granted } else { busy(voter) };
                    tally.note(node, answer);
                }
                let verdict = tally.verdict(NodeSet::default());
                matches!(verdict, Verdict::Won | Verdict::Split { favourite: true })
            });
            prop_assert_eq!(favourites.count(), 1);
        }
    }
}
