//! What the sentinels of a service say about its primary; pure.

use lock_core::{Error, ErrorKind};

use crate::wire::{Address, Reply};

/// What one sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// How often the service has failed over, as far as this sentinel knows.
    epoch: u64,
    primary: Address,
}

impl View {
    pub(super) fn primary(&self) -> &Address {
        &self.primary
    }

    /// Reads the reply to `SENTINEL MASTER`.
    pub(super) fn read(reply: &Reply, asked: &Address) -> Option<Self> {
        let Reply::List(words) = reply else { return None };
        let field = |name: &str| {
            let pair = words.chunks_exact(2).find(|pair| pair[0] == Reply::Text(name.into()))?;
            let Reply::Text(value) = &pair[1] else { return None };
            std::str::from_utf8(value).ok()
        };
        let epoch = field("config-epoch")?.parse().ok()?;
        let primary = Address::named(field("ip")?, field("port")?.parse().ok()?, asked)?;
        Some(Self { epoch, primary })
    }
}

/// The answers of the sentinels so far.
#[derive(Debug)]
pub(super) struct Survey {
    asked: usize,
    answers: usize,
    /// The views with the most failovers, each primary once.
    best: Vec<View>,
    trouble: Option<Error>,
}

impl Survey {
    pub(super) fn of(asked: usize) -> Self {
        Self { asked, answers: 0, best: Vec::new(), trouble: None }
    }

    /// Notes what a sentinel said. The view with the most failovers counts: the other sentinels have not heard of the
    /// last failover yet. Several views count if sentinels disagree without a failover.
    pub(super) fn hear(&mut self, answer: Result<View, Error>) {
        match answer {
            Ok(view) => {
                self.answers += 1;
                self.best.retain(|best| best.epoch >= view.epoch);
                let counts = self.best.first().is_none_or(|best| best.epoch == view.epoch);
                if counts && !self.best.contains(&view) {
                    self.best.push(view);
                }
            }
            // The most telling error: that of a sentinel that answered.
            Err(error) => {
                if self.trouble.as_ref().is_none_or(Error::is_retryable) {
                    self.trouble = Some(error);
                }
            }
        }
    }

    /// Whether most of the sentinels have said where the primary is.
    pub(super) fn is_decided(&self) -> bool {
        self.answers > self.asked / 2
    }

    /// The primary, and every other server that may be it.
    ///
    /// # Errors
    ///
    /// The error of one of the sentinels, if none knows.
    pub(super) fn outcome(self) -> Result<Named, Error> {
        match (self.best.first(), self.trouble) {
            (Some(&View { epoch, .. }), _) => {
                let servers = self.best.into_iter().map(|view| view.primary).collect();
                Ok(Named { epoch, servers })
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::new(ErrorKind::Unreachable, "no sentinel answers")),
        }
    }
}

/// The servers that may be the primary: one, unless sentinels disagree without a failover.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// How often the service has failed over, as far as the sentinels know that have answered.
    pub(super) epoch: u64,
    pub(super) servers: Vec<Address>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn at(host: &str) -> Address {
        Address::Tcp { host: host.to_owned(), port: 6379 }
    }

    fn view(epoch: u64, host: &str) -> Result<View, Error> {
        Ok(View { epoch, primary: at(host) })
    }

    fn reply(fields: &[&str]) -> Reply {
        Reply::List(fields.iter().map(|it| Reply::Text(it.as_bytes().to_vec())).collect())
    }

    #[test]
    fn a_view_is_read_among_any_other_facts() {
        let told = ["name", "main", "ip", "h1", "port", "6379", "quorum", "2", "config-epoch", "7"];
        assert_eq!(View::read(&reply(&told), &at("s")), view(7, "h1").ok());
        for missing in [2..4, 4..6, 8..10] {
            let mut told = told.to_vec();
            told.drain(missing);
            assert_eq!(View::read(&reply(&told), &at("s")), None, "{told:?}");
        }
    }

    #[test]
    fn the_latest_failover_counts_in_any_order_of_answers() {
        for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
            let mut survey = Survey::of(3);
            let views = [view(4, "old"), view(5, "new"), view(4, "old")];
            order.into_iter().for_each(|index: usize| survey.hear(views[index].clone()));
            assert_eq!(survey.outcome().unwrap(), Named { epoch: 5, servers: vec![at("new")] });
        }
    }

    #[test]
    fn sentinels_that_disagree_without_a_failover_all_count() {
        let mut survey = Survey::of(4);
        for view in [view(3, "old"), view(4, "a"), view(4, "b"), view(4, "a"), view(3, "old")] {
            survey.hear(view);
        }
        assert_eq!(survey.outcome().unwrap(), Named { epoch: 4, servers: vec![at("a"), at("b")] });
    }

    #[test]
    fn most_of_the_sentinels_decide_and_one_is_enough_if_the_others_are_down() {
        let down = || Err(Error::new(ErrorKind::Unreachable, "no"));
        let mut survey = Survey::of(3);
        survey.hear(view(1, "a"));
        survey.hear(down());
        assert!(!survey.is_decided());
        survey.hear(view(1, "a"));
        assert!(survey.is_decided());
        let mut survey = Survey::of(3);
        [down(), view(1, "a"), down()].into_iter().for_each(|answer| survey.hear(answer));
        assert_eq!(survey.outcome().unwrap(), Named { epoch: 1, servers: vec![at("a")] });
    }

    #[test]
    fn of_several_errors_the_lasting_one_is_told() {
        let mut survey = Survey::of(2);
        survey.hear(Err(Error::new(ErrorKind::Unreachable, "no")));
        survey.hear(Err(Error::new(ErrorKind::InvalidConfig, "no such service")));
        assert_eq!(survey.outcome().unwrap_err().kind(), ErrorKind::InvalidConfig);
        assert_eq!(Survey::of(0).outcome().unwrap_err().kind(), ErrorKind::Unreachable);
    }

    proptest! {
        #[test]
        fn no_reply_does_harm(reply in garbage::replies()) {
            prop_assert_eq!(View::read(&reply, &at("s")), None);
        }
    }
}
