//! What faults exclude long after they were healed.

use std::collections::BTreeSet;

use lock_core::Instant;

use super::Property;
use super::terms::{Terms, Window};
use super::trouble::Trouble;
use crate::chaos::table::{
    MISSES_VALUES, SETS_TOKENS_BACK, is_forgetful, keeps_writes_away, sets_tokens_back,
};
use crate::chaos::{Deployment, Fault};

impl Terms {
    /// The time after a server forgot the tokens that it gave out when its clock was ahead.
    pub(super) fn set_back(&self, property: Property) -> Option<Window> {
        use Property::{Commits, Resource, Snapshots, Tokens};

        if !matches!(property, Tokens | Resource | Commits | Snapshots) {
            return None;
        }
        let forgot = self.troubles.iter().filter(|then| {
            let ahead = |first: &Trouble| {
                first.begin <= then.end
                    && sets_tokens_back(self.deployment, first.fault, then.fault)
            };
            self.troubles.iter().any(ahead)
        });
        forgot.min_by_key(|then| then.begin).map(|then| from_then_on(then, SETS_TOKENS_BACK))
    }

    /// The time after a minority of a quorum forgot a value, if other nodes may have missed the value before, and the
    /// nodes without the value are a majority together.
    pub(super) fn missed(&self, property: Property) -> Option<Window> {
        use Property::{Commits, Snapshots, Values};

        if !matches!(self.deployment, Deployment::Quorum(_))
            || !matches!(property, Values | Commits | Snapshots)
        {
            return None;
        }
        let minority = self.deployment.minority();
        let without = |then: &Trouble| -> BTreeSet<usize> {
            let all = self.troubles.iter();
            let before = all.filter(|it| keeps_writes_away(it.fault) && it.begin < then.begin);
            before.chain([then]).flat_map(|it| it.servers.iter().copied()).collect()
        };
        let forgot = self.troubles.iter().filter(|then| {
            is_forgetful(then.fault)
                && then.servers.len() <= minority
                && without(then).len() > minority
        });
        forgot.min_by_key(|then| then.begin).map(|then| from_then_on(then, MISSES_VALUES))
    }

    /// Whether the store may have no token for a write at this time: servers whose clock was ahead give a lease no
    /// further tokens until their clocks have caught up. The clients bring the tokens of the other nodes of a quorum
    /// into step with those of such a node.
    pub(super) fn may_lack_tokens(&self, at: Instant) -> bool {
        let was_set = |it: &Trouble| it.fault == Fault::ClockJump && it.begin <= at;
        self.troubles.iter().any(was_set)
    }
}

fn from_then_on(trouble: &Trouble, why: &'static str) -> Window {
    let (begin, end) = (trouble.begin, Instant::FAR_FUTURE);
    Window { begin, end, why, fault: Some(trouble.fault) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::scene::at;
    use super::*;
    use crate::chaos::Extent;

    fn trouble(fault: Fault, server: usize, when: u64) -> Trouble {
        let (begin, end, extent) = (at(when), at(when), Extent::Minority);
        Trouble { fault, extent, servers: vec![server], workers: vec![], begin, end }
    }

    fn terms(deployment: Deployment, troubles: Vec<Trouble>) -> Terms {
        let mut terms = Terms::new(deployment, Duration::from_secs(1));
        terms.troubles = troubles;
        terms
    }

    #[test]
    fn a_value_may_be_gone_if_one_node_missed_it_and_another_forgot_it() {
        use Fault::{Duplicate, Flush, StopServer};

        let begin = |deployment, troubles: &[(Fault, usize)]| {
            let troubles = troubles.iter().zip(1..);
            let troubles =
                troubles.map(|(&(fault, server), number)| trouble(fault, server, number));
            let terms = terms(deployment, troubles.collect());
            assert!(terms.missed(Property::Exclusion).is_none());
            terms.missed(Property::Values).map(|window| (window.begin, window.end))
        };
        let three = |troubles: &[(Fault, usize)]| begin(Deployment::Quorum(3), troubles);
        assert_eq!(three(&[(Flush, 0), (StopServer, 0), (Flush, 0)]), None);
        assert_eq!(three(&[(StopServer, 0), (StopServer, 1)]), None);
        assert_eq!(three(&[(Flush, 0), (StopServer, 1)]), None);
        assert_eq!(three(&[(Duplicate, 0), (Flush, 1)]), None);
        let gone = Some((at(2), Instant::FAR_FUTURE));
        assert_eq!(three(&[(StopServer, 0), (Flush, 1)]), gone);
        let two = [(StopServer, 0), (Flush, 1)];
        assert_eq!(begin(Deployment::Quorum(5), &two), None);
        assert_eq!(begin(Deployment::Redis, &two), None);
    }

    #[test]
    fn tokens_may_decrease_after_a_server_has_forgotten_those_of_a_clock_that_was_ahead() {
        use Fault::{ClockJump, Flush};

        let begins = |deployment, first, then| {
            let terms = terms(deployment, vec![trouble(first, 0, 1), trouble(then, 1, 2)]);
            terms.set_back(Property::Tokens).map(|window| window.begin)
        };
        for deployment in [Deployment::Redis, Deployment::Quorum(3)] {
            assert_eq!(begins(deployment, ClockJump, Flush), Some(at(2)));
            assert_eq!(begins(deployment, Flush, ClockJump), None);
        }
        assert_eq!(begins(Deployment::Members, ClockJump, Flush), None);
    }

    #[test]
    fn a_store_may_have_no_token_once_its_clock_was_set() {
        let terms = terms(Deployment::Quorum(3), vec![trouble(Fault::ClockJump, 2, 5)]);
        assert_eq!([4, 5, 90_000].map(|when| terms.may_lack_tokens(at(when))), [false, true, true]);
    }
}
