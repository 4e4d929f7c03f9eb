//! Which commit covers which grant; pure.

/// The commits of one server, of which one is under way at a time.
#[derive(Debug)]
pub(super) struct Rounds<T> {
    /// The number of the latest grant.
    latest: u64,
    /// The latest grant that the last commit covers, and the outcome.
    last: Option<(u64, T)>,
}

/// The number of a grant that is to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

impl<T> Default for Rounds<T> {
    fn default() -> Self {
        Self { latest: 0, last: None }
    }
}

impl<T: Clone> Rounds<T> {
    /// Notes a grant that has been answered.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.latest += 1;
        Ticket(self.latest)
    }

    /// The outcome of the last commit, if it began after this grant was answered.
    pub(super) fn outcome(&self, ticket: Ticket) -> Option<T> {
        let (covered, outcome) = self.last.as_ref()?;
        (*covered >= ticket.0).then(|| outcome.clone())
    }

    /// A commit begins. Returns the latest grant that it covers.
    pub(super) fn begin(&self) -> Ticket {
        Ticket(self.latest)
    }

    /// A commit that covers these grants is over.
    pub(super) fn end(&mut self, covered: Ticket, outcome: T) {
        self.last = Some((covered.0, outcome));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_commit_covers_the_grants_before_it_and_no_later_one() {
        let mut rounds = Rounds::default();
        let [first, second] = [rounds.ticket(), rounds.ticket()];
        assert_eq!(rounds.outcome(first), None);
        let covered = rounds.begin();
        let third = rounds.ticket();
        rounds.end(covered, "a");
        assert_eq!(
            [first, second, third].map(|it| rounds.outcome(it)),
            [Some("a"), Some("a"), None]
        );
        // A commit that was given up covers nothing.
        rounds.begin();
        assert_eq!(rounds.outcome(third), None);
        rounds.end(rounds.begin(), "b");
        assert_eq!([first, third].map(|it| rounds.outcome(it)), [Some("b"), Some("b")]);
    }

    proptest! {
        /// Each step is a grant, the beginning of a commit or its end.
        #[test]
        fn no_grant_counts_by_a_commit_that_began_before_it(steps in prop::collection::vec(0u8..3, 0..40)) {
            let mut rounds = Rounds::default();
            let (mut tickets, mut under_way) = (Vec::new(), None);
            for (now, step) in steps.into_iter().enumerate() {
                match (step, under_way.take()) {
                    (0, before) => {
                        tickets.push((now, rounds.ticket()));
                        under_way = before;
                    }
                    (_, Some((begun, covered))) if step == 2 => rounds.end(covered, begun),
                    _ => under_way = Some((now, rounds.begin())),
                }
                for (granted, ticket) in &tickets {
                    prop_assert!(rounds.outcome(*ticket).is_none_or(|begun| begun > *granted));
                }
            }
        }
    }
}
