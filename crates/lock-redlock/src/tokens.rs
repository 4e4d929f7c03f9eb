//! Which fencing tokens a quorum gives.

use std::num::NonZeroU32;

use lock_core::{FencingToken, TokenRange};

use crate::quorum::{NodeSet, Quorum};

/// The tokens that the nodes granted to one claim, from which the tokens of the quorum follow.
///
/// The last token of the quorum is the highest token that any of its nodes gave. Every node of the quorum has to know
/// this token. A node knows the token if it gave the token itself. A node also knows the token if it has confirmed that
/// the claim still holds the key there, and that the node has given no higher token. Two quorums have a node in common.
/// The token that this node gives to the later claim is above the token of the earlier claim.
#[derive(Debug)]
pub(crate) struct Agreement {
    quorum: Quorum,
    wanted: NonZeroU32,
    shares: Vec<Option<Share>>,
    target: Option<FencingToken>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    tokens: TokenRange,
    /// The token that the node was last asked to confirm, and whether it has confirmed it.
    asked: Option<(FencingToken, bool)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More answers are needed.
    Wait,
    /// These nodes have to confirm this token.
    Confirm(FencingToken, NodeSet),
    /// These nodes agree.
    Agreed(TokenRange, NodeSet),
    /// Too few nodes can agree.
    Impossible,
}

impl Agreement {
    pub(crate) fn new(quorum: Quorum, wanted: NonZeroU32) -> Self {
        Self { quorum, wanted, shares: vec![None; quorum.nodes()], target: None }
    }

    /// A node has granted the claim, with these tokens.
    pub(crate) fn grant(&mut self, node: usize, tokens: TokenRange) {
        self.shares[node] = Some(Share { tokens, asked: None });
    }

    /// A node has confirmed this token. That says nothing about a higher token in a later question.
    pub(crate) fn confirm(&mut self, node: usize, token: FencingToken) {
        if let Some(Share { asked: Some((asked, confirmed)), .. }) = &mut self.shares[node]
            && *asked == token
        {
            *confirmed = true;
        }
    }

    /// A node has not confirmed a token, so its vote does not count.
    pub(crate) fn refuse(&mut self, node: usize) {
        self.shares[node] = None;
    }

    /// The highest token that any node gave.
    pub(crate) fn highest(&self) -> Option<FencingToken> {
        self.shares.iter().flatten().map(|share| share.tokens.last()).max()
    }

    /// The next step. `open` votes may still come.
    pub(crate) fn step(&mut self, open: usize) -> Step {
        let needed = self.quorum.needed();
        let granted = self.shares.iter().flatten().count();
        if granted < needed {
            return if granted + open < needed { Step::Impossible } else { Step::Wait };
        }
        let below = |target| self.nodes(|share| share.tokens.last() <= target).len();
        let reachable = |target| below(target) + open >= needed;
        let target = match self.target.filter(|&target| reachable(target)).or(self.highest()) {
            Some(target) => *self.target.insert(target),
            None => return Step::Impossible,
        };
        let agreed = self.nodes(|share| share.knows(target));
        if agreed.len() >= needed {
            return Step::Agreed(self.range(agreed, target), agreed);
        }
        let is_behind = |share: &Share| {
            share.tokens.last() < target && share.asked.is_none_or(|(asked, _)| asked != target)
        };
        let behind = self.nodes(is_behind);
        for node in behind.iter() {
            if let Some(share) = &mut self.shares[node] {
                share.asked = Some((target, false));
            }
        }
        if behind.is_empty() { Step::Wait } else { Step::Confirm(target, behind) }
    }

    /// The tokens up to the token that all these nodes know. The range goes down as far as none of these nodes has
    /// given its tokens to another claim.
    fn range(&self, agreed: NodeSet, last: FencingToken) -> TokenRange {
        let shares = agreed.iter().filter_map(|node| self.shares[node]);
        let first = shares.map(|share| share.tokens.first()).max().unwrap_or(last);
        let wanted = u64::from(self.wanted.get());
        let first = first.get().max(last.get().saturating_sub(wanted - 1));
        let more = u32::try_from(last.get() - first).unwrap_or(0);
        TokenRange::new(FencingToken::new(first), NonZeroU32::MIN.saturating_add(more))
    }

    fn nodes(&self, is_in: impl Fn(&Share) -> bool) -> NodeSet {
        let shares = self.shares.iter().enumerate();
        let shares = shares.filter(|(_, share)| share.as_ref().is_some_and(&is_in));
        shares.map(|(node, _)| node).collect()
    }
}

impl Share {
    fn knows(&self, token: FencingToken) -> bool {
        self.tokens.last() == token || self.asked == Some((token, true))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(first: u64, last: u64) -> TokenRange {
        let count = NonZeroU32::new((last - first) as u32 + 1).unwrap();
        TokenRange::new(FencingToken::new(first), count)
    }

    fn set(nodes: &[usize]) -> NodeSet {
        nodes.iter().copied().collect()
    }

    fn wanting(nodes: usize, wanted: u32) -> Agreement {
        Agreement::new(Quorum::of(nodes), NonZeroU32::new(wanted).unwrap())
    }

    #[test]
    fn nodes_in_step_need_no_second_round() {
        let mut agreement = wanting(3, 10);
        agreement.grant(2, range(95, 100));
        assert_eq!(agreement.step(2), Step::Wait);
        agreement.grant(0, range(91, 100));
        assert_eq!(agreement.step(1), Step::Agreed(range(95, 100), set(&[0, 2])));
    }

    #[test]
    fn who_is_behind_confirms_the_highest() {
        let mut agreement = wanting(5, 1);
        for (node, last) in [(0, 7), (1, 9), (4, 7)] {
            agreement.grant(node, range(last, last));
        }
        let token = FencingToken::new(9);
        assert_eq!(agreement.step(2), Step::Confirm(token, set(&[0, 4])));
        assert_eq!(agreement.step(2), Step::Wait);
        agreement.confirm(0, token);
        agreement.refuse(4);
        // A later vote counts at once if its token is the agreed one. A node with a lower token is
        // asked to confirm.
        agreement.grant(3, range(8, 8));
        assert_eq!(agreement.step(1), Step::Confirm(token, set(&[3])));
        agreement.confirm(3, token);
        assert_eq!(agreement.step(1), Step::Agreed(range(9, 9), set(&[0, 1, 3])));
    }

    #[test]
    fn a_token_that_cannot_be_agreed_on_is_given_up_for_a_higher() {
        let mut agreement = wanting(3, 1);
        agreement.grant(0, range(7, 7));
        agreement.grant(1, range(8, 8));
        assert_eq!(agreement.step(1), Step::Confirm(FencingToken::new(8), set(&[0])));
        agreement.grant(2, range(9, 9));
        agreement.refuse(0);
        assert_eq!(agreement.step(0), Step::Confirm(FencingToken::new(9), set(&[1])));
        agreement.refuse(1);
        assert_eq!(agreement.step(0), Step::Impossible);
        assert_eq!(agreement.highest(), Some(FencingToken::new(9)));
    }

    #[test]
    fn what_was_confirmed_of_a_lower_token_says_nothing_of_a_higher() {
        let mut agreement = wanting(5, 1);
        for (node, last) in [(0, 8), (1, 7), (2, 9)] {
            agreement.grant(node, range(last, last));
        }
        let [lower, higher] = [9, 11].map(FencingToken::new);
        assert_eq!(agreement.step(2), Step::Confirm(lower, set(&[0, 1])));
        agreement.refuse(1);
        agreement.grant(3, range(10, 10));
        agreement.grant(4, range(11, 11));
        assert_eq!(agreement.step(0), Step::Confirm(higher, set(&[0, 2, 3])));
        // The answer to the first question.
        agreement.confirm(0, lower);
        agreement.confirm(2, higher);
        assert_eq!(agreement.step(0), Step::Wait);
        agreement.confirm(0, higher);
        assert_eq!(agreement.step(0), Step::Agreed(range(11, 11), set(&[0, 2, 4])));
    }

    /// The counter of one node, and the tokens that it last gave to the claim.
    #[derive(Clone, Debug)]
    struct Vote {
        behind: u64,
        confirms: bool,
        votes: bool,
    }

    fn vote() -> impl Strategy<Value = Vote> {
        (0..6u64, prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(behind, confirms, votes)| Vote { behind, confirms, votes })
    }

    proptest! {
        /// If nodes agree on tokens, a quorum knows the last token, has given no higher token, and gave no token of
        /// the range before.
        #[test]
        fn what_is_agreed_on_is_above_all_that_a_quorum_gave_out(
            votes in prop::collection::vec(vote(), 1..=7),
            wanted in 1..20u32,
        ) {
            let quorum = Quorum::of(votes.len());
            let mut agreement = wanting(votes.len(), wanted);
            let mut counters = vec![0; votes.len()];
            let (mut asked, mut agreed) = (Vec::new(), None);
            for (node, vote) in votes.iter().enumerate() {
                let open = votes.len() - node - 1;
                if vote.votes {
                    // A node that is ahead of the floor gives its own next number.
                    let last = 100 + vote.behind;
                    agreement.grant(node, range(last - vote.behind.min(3), last));
                    counters[node] = last;
                }
                loop {
                    match agreement.step(open) {
                        Step::Confirm(token, nodes) => asked.extend(nodes.iter().map(|n| (n, token))),
                        Step::Agreed(tokens, nodes) => agreed = agreed.or(Some((tokens, nodes))),
                        Step::Wait | Step::Impossible => {}
                    }
                    let Some((node, token)) = asked.pop() else { break };
                    if votes[node].confirms && counters[node] <= token.get() {
                        counters[node] = token.get();
                        agreement.confirm(node, token);
                    } else {
                        agreement.refuse(node);
                    }
                }
                if agreed.is_some() {
                    break;
                }
            }
            let Some((tokens, nodes)) = agreed else { return Ok(()) };
            prop_assert!(nodes.len() >= quorum.needed());
            prop_assert!(tokens.count().get() <= wanted);
            for node in nodes.iter() {
                prop_assert_eq!(counters[node], tokens.last().get());
                let given = 100 + votes[node].behind;
                prop_assert!(tokens.first().get() >= given - votes[node].behind.min(3));
            }
        }
    }
}
