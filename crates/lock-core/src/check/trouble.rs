//! What a rehearsal means for locks.

use super::{Finding, Findings, Outcome, Rehearsal, Severity};
use crate::ErrorKind;

/// What went wrong in a [`Rehearsal`].
///
/// The [example](Rehearsal::judge) of a judgement matches one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trouble<'a> {
    /// Another client had the lock.
    Busy,
    /// The lock was gone a moment after it was granted.
    Vanished,
    /// A request failed with an error of this kind, and of this text.
    Failed(ErrorKind, &'a str),
    /// The holders of the lock could not be listed, for this reason.
    Unseen(&'a str),
    /// The lock could not be watched, for this reason.
    Unwatched(&'a str),
    /// A claim got no place in the queue.
    Unqueued,
    /// No message of a release came in time.
    Unheard,
    /// The message of a grant came, and its claim did not have the lock.
    Uncounted,
}

impl Rehearsal {
    /// Adds a finding for each trouble:
    ///
    /// | trouble | code | severity |
    /// | --- | --- | --- |
    /// | [`Busy`](Trouble::Busy) | `rehearsal-busy` | unknown |
    /// | [`Vanished`](Trouble::Vanished) | `lock-vanished` | critical |
    /// | [`Failed`](Trouble::Failed) | `lock-refused` | critical |
    /// | [`Unseen`](Trouble::Unseen) | `holders-unseen` | warning |
    /// | [`Unwatched`](Trouble::Unwatched) | `watch-refused` | warning |
    /// | [`Unqueued`](Trouble::Unqueued) | `queue-refused` | warning |
    /// | [`Unheard`](Trouble::Unheard), [`Uncounted`](Trouble::Uncounted) | `releases-unheard` | warning |
    ///
    /// `advise` gets each finding with general words. It returns that finding with the remedy of its store, or another
    /// finding, or none.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::check::{Findings, Outcome, Rehearsal, Trouble};
    ///
    /// let mut rehearsal = Rehearsal::default();
    /// rehearsal.outcome = Outcome::Vanished;
    /// let mut found = Findings::at("db.example:5432");
    /// rehearsal.judge(&mut found, |trouble, finding| match trouble {
    ///     Trouble::Vanished => Some(finding.why("a client deletes rows").remedy("find that client")),
    ///     _ => Some(finding),
    /// });
    /// let found = found.into_list();
    /// assert_eq!((found[0].code, &*found[0].remedy), ("lock-vanished", "find that client"));
    /// ```
    pub fn judge(
        &self,
        found: &mut Findings<'_>,
        advise: impl Fn(Trouble<'_>, Finding) -> Option<Finding>,
    ) {
        for trouble in self.troubles() {
            let finding = trouble.finding(found.server());
            found.extend(advise(trouble, finding));
        }
    }

    fn troubles(&self) -> impl Iterator<Item = Trouble<'_>> {
        let outcome = match &self.outcome {
            Outcome::Worked => None,
            Outcome::Busy => Some(Trouble::Busy),
            Outcome::Vanished => Some(Trouble::Vanished),
            Outcome::Failed(kind, why) => Some(Trouble::Failed(*kind, why)),
        };
        let rest = [
            self.unseen.as_deref().map(Trouble::Unseen),
            self.unwatched.as_deref().map(Trouble::Unwatched),
            self.unqueued.then_some(Trouble::Unqueued),
            self.unheard.then_some(Trouble::Unheard),
            self.uncounted.then_some(Trouble::Uncounted),
        ];
        outcome.into_iter().chain(rest.into_iter().flatten())
    }
}

impl Trouble<'_> {
    /// The finding at this server, with words that fit every store.
    fn finding(self, server: &str) -> Finding {
        let (severity, code) = self.kind();
        Finding::new(severity, code, server).because(self.what(), self.why()).remedy(self.remedy())
    }

    fn kind(self) -> (Severity, &'static str) {
        match self {
            Self::Busy => (Severity::Unknown, "rehearsal-busy"),
            Self::Vanished => (Severity::Critical, "lock-vanished"),
            Self::Failed(..) => (Severity::Critical, "lock-refused"),
            Self::Unseen(_) => (Severity::Warning, "holders-unseen"),
            Self::Unwatched(_) => (Severity::Warning, "watch-refused"),
            Self::Unqueued => (Severity::Warning, "queue-refused"),
            Self::Unheard | Self::Uncounted => (Severity::Warning, "releases-unheard"),
        }
    }

    fn what(self) -> String {
        match self {
            Self::Busy => "another client holds the lock of the rehearsal".to_owned(),
            Self::Vanished => "a lock was gone a moment after it was granted".to_owned(),
            Self::Failed(_, why) => {
                format!("a lock could not be acquired, renewed and handed over: {why}")
            }
            Self::Unseen(why) => format!("the holders of a lock cannot be listed: {why}"),
            Self::Unwatched(why) => format!("a lock cannot be watched: {why}"),
            Self::Unqueued => "a claim got no place in the queue".to_owned(),
            Self::Unheard | Self::Uncounted => "no message of a release came in time".to_owned(),
        }
    }

    fn why(self) -> &'static str {
        match self {
            Self::Busy => "the check did not acquire, renew and hand over a lock",
            Self::Vanished => "two holders can be inside at once",
            Self::Failed(..) => "no lock of the app can be relied on",
            Self::Unseen(_) => "an inspection fails",
            Self::Unqueued => {
                "waiters are not served in order, and a release does not hand the lock over"
            }
            Self::Unwatched(_) | Self::Unheard | Self::Uncounted => {
                "waiters rely on time alone: they ask again when a lease ends, and not when the lock is released"
            }
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Busy => "check again in ten seconds: the other client probably runs this check",
            Self::Vanished => "find the client that deletes locks",
            Self::Failed(..) => {
                "look for the cause at the store and in the network, and check again"
            }
            Self::Unseen(_) | Self::Unwatched(_) | Self::Unqueued => {
                "grant the user the rights of an app"
            }
            Self::Unheard | Self::Uncounted => "look for a proxy that does not deliver messages",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(change: impl FnOnce(&mut Rehearsal)) -> Vec<Finding> {
        let mut rehearsal = Rehearsal::default();
        change(&mut rehearsal);
        let mut found = Findings::at("a:1");
        rehearsal.judge(&mut found, |_, finding| Some(finding));
        found.into_list()
    }

    #[test]
    fn each_trouble_is_one_finding_with_its_reason_and_remedy() {
        type Case = (&'static str, fn(&mut Rehearsal));

        let no = || Some("no".to_owned());
        let cases: [Case; 8] = [
            ("rehearsal-busy", |it| it.outcome = Outcome::Busy),
            ("lock-vanished", |it| it.outcome = Outcome::Vanished),
            ("lock-refused", |it| it.outcome = Outcome::Failed(ErrorKind::Other, "no".to_owned())),
            ("holders-unseen", |it| it.unseen = Some("no".to_owned())),
            ("watch-refused", |it| it.unwatched = Some("no".to_owned())),
            ("queue-refused", |it| it.unqueued = true),
            ("releases-unheard", |it| it.unheard = true),
            ("releases-unheard", |it| it.uncounted = true),
        ];
        for (code, change) in cases {
            let found = judged(change);
            assert_eq!((found.len(), found[0].code, &*found[0].server), (1, code, "a:1"));
            assert!(!found[0].reason.is_empty() && !found[0].remedy.is_empty(), "{code}");
        }
        assert_eq!(judged(|_| ()), []);
        let both = judged(|it| (it.outcome, it.unwatched) = (Outcome::Busy, no()));
        assert_eq!(both.len(), 2);
    }

    #[test]
    fn a_store_may_drop_a_finding() {
        let rehearsal = Rehearsal { unheard: true, ..Rehearsal::default() };
        let mut found = Findings::at("a:1");
        rehearsal.judge(&mut found, |trouble, it| (trouble != Trouble::Unheard).then_some(it));
        assert_eq!(found.into_list(), []);
    }
}
