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
pub(crate) struct Shares {
    quorum: Quorum,
    wanted: NonZeroU32,
    shares: Vec<Option<Share>>,
}

#[derive(Clone, Copy, Debug)]
struct Share {
    /// The first token that the node gave.
    first: FencingToken,
    /// The last token that the node gave or confirmed.
    last: FencingToken,
}

impl Shares {
    pub(crate) fn new(quorum: Quorum, wanted: NonZeroU32) -> Self {
        Self { quorum, wanted, shares: vec![None; quorum.nodes()] }
    }

    /// A node has granted the claim, with these tokens.
    pub(crate) fn grant(&mut self, node: usize, tokens: TokenRange) {
        self.shares[node] = Some(Share { first: tokens.first(), last: tokens.last() });
    }

    /// A node has confirmed this token, which is above its own.
    pub(crate) fn confirm(&mut self, node: usize, token: FencingToken) {
        if let Some(share) = &mut self.shares[node] {
            share.last = token;
        }
    }

    /// A node has not confirmed a token, so its vote does not count.
    pub(crate) fn refuse(&mut self, node: usize) {
        self.shares[node] = None;
    }

    /// The highest token that any node gave, and the nodes that have to confirm it. `None` if too few nodes have granted
    /// the claim.
    pub(crate) fn target(&self) -> Option<(FencingToken, NodeSet)> {
        let granted = self.shares.iter().flatten();
        let target = granted.clone().map(|share| share.last).max()?;
        let is_met = self.quorum.is_met_by(granted.count());
        is_met.then(|| (target, self.nodes(|share| share.last < target)))
    }

    /// The tokens up to a token that a majority knows, and the nodes that know it. `None` if too few nodes know it. The
    /// range goes down as far as none of these nodes has given its tokens to another claim.
    pub(crate) fn agreed(&self, last: FencingToken) -> Option<(TokenRange, NodeSet)> {
        let agreed = self.nodes(|share| share.last == last);
        if !self.quorum.is_met_by(agreed.len()) {
            return None;
        }
        let shares = agreed.iter().filter_map(|node| self.shares[node]);
        let first = shares.map(|share| share.first).max().unwrap_or(last);
        let wanted = u64::from(self.wanted.get());
        let first = first.get().max(last.get().saturating_sub(wanted - 1));
        let more = u32::try_from(last.get() - first).unwrap_or(0);
        let count = NonZeroU32::MIN.saturating_add(more);
        Some((TokenRange::new(FencingToken::new(first), count), agreed))
    }

    fn nodes(&self, is_in: impl Fn(&Share) -> bool) -> NodeSet {
        let shares = self.shares.iter().enumerate();
        let shares = shares.filter(|(_, share)| share.as_ref().is_some_and(&is_in));
        shares.map(|(node, _)| node).collect()
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

    fn wanting(nodes: usize, wanted: u32) -> Shares {
        Shares::new(Quorum::of(nodes), NonZeroU32::new(wanted).unwrap())
    }

    #[test]
    fn nodes_in_step_need_no_second_round() {
        let mut shares = wanting(3, 10);
        shares.grant(2, range(95, 100));
        assert_eq!(shares.target(), None);
        shares.grant(0, range(91, 100));
        let token = FencingToken::new(100);
        assert_eq!(shares.target(), Some((token, NodeSet::default())));
        assert_eq!(shares.agreed(token), Some((range(95, 100), set(&[0, 2]))));
    }

    #[test]
    fn who_is_behind_confirms_the_highest() {
        let mut shares = wanting(5, 1);
        for (node, last) in [(0, 7), (1, 9), (4, 7)] {
            shares.grant(node, range(last, last));
        }
        let token = FencingToken::new(9);
        assert_eq!(shares.target(), Some((token, set(&[0, 4]))));
        shares.confirm(0, token);
        shares.refuse(4);
        assert_eq!((shares.agreed(token), shares.target()), (None, None));
        // A later vote counts at once if its token is the agreed one. A node with a lower token is asked to confirm.
        shares.grant(3, range(8, 8));
        assert_eq!(shares.target(), Some((token, set(&[3]))));
        shares.confirm(3, token);
        assert_eq!(shares.agreed(token), Some((range(9, 9), set(&[0, 1, 3]))));
    }

    #[test]
    fn a_token_that_cannot_be_agreed_on_is_given_up_for_a_higher() {
        let mut shares = wanting(3, 1);
        shares.grant(0, range(7, 7));
        shares.grant(1, range(8, 8));
        assert_eq!(shares.target(), Some((FencingToken::new(8), set(&[0]))));
        shares.refuse(0);
        shares.grant(2, range(9, 9));
        assert_eq!(shares.target(), Some((FencingToken::new(9), set(&[1]))));
        shares.refuse(1);
        assert_eq!(shares.target(), None);
    }

    #[test]
    fn what_was_confirmed_of_a_lower_token_says_nothing_of_a_higher() {
        let mut shares = wanting(3, 1);
        shares.grant(0, range(7, 7));
        shares.grant(1, range(8, 8));
        let [lower, higher] = [8, 11].map(FencingToken::new);
        shares.confirm(0, lower);
        shares.refuse(1);
        shares.grant(2, range(11, 11));
        assert_eq!(shares.target(), Some((higher, set(&[0]))));
        assert_eq!(shares.agreed(higher), None);
        shares.confirm(0, higher);
        assert_eq!(shares.agreed(higher), Some((range(11, 11), set(&[0, 2]))));
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
            let mut shares = wanting(votes.len(), wanted);
            let (mut counters, mut agreed) = (vec![0; votes.len()], None);
            for (node, vote) in votes.iter().enumerate() {
                if vote.votes {
                    // A node that is ahead of the floor gives its own next number.
                    let last = 100 + vote.behind;
                    shares.grant(node, range(last - vote.behind.min(3), last));
                    counters[node] = last;
                }
                let Some((token, behind)) = shares.target() else { continue };
                for node in behind.iter() {
                    if votes[node].confirms && counters[node] <= token.get() {
                        counters[node] = token.get();
                        shares.confirm(node, token);
                    } else {
                        shares.refuse(node);
                    }
                }
                agreed = shares.agreed(token);
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
