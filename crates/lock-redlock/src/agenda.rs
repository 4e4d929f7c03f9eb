//! What a node still has to do, and when to ask it; pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use lock_core::{Backoff, Claim, Instant};

use crate::ballot::Ballot;

/// How many requests of an agenda are under way at once, as long as the node answers.
const WINDOW: usize = 64;

/// How long to wait before asking an unreachable node again.
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// What a node has to do with a ballot of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// To release the ballot.
    Release,
    /// To vote for a held lease.
    Vote,
}

/// The ballots that one node still has to release, or to vote for.
#[derive(Debug)]
pub(crate) struct Agenda {
    items: HashMap<(Claim, Ballot), Item>,
    /// The items without a request under way, the oldest first.
    line: VecDeque<(Claim, Ballot)>,
    /// How many items are releases.
    releases: usize,
    running: usize,
    window: usize,
    backoff: Backoff,
    is_paused: bool,
}

#[derive(Debug)]
struct Item {
    duty: Duty,
    /// When the ballot ends by itself.
    until: Instant,
    is_running: bool,
    /// Whether the duty has changed since the request under way began.
    again: bool,
}

impl Agenda {
    /// How many ballots an agenda remembers. If there are more, it forgets the oldest ones, which
    /// end with their leases.
    const MAX: usize = 10_000;

    pub(crate) fn new() -> Self {
        let (items, line, releases, running) = Default::default();
        let (window, backoff, is_paused) = (WINDOW, BACKOFF, false);
        Self { items, line, releases, running, window, backoff, is_paused }
    }

    /// Puts a duty on the agenda. It replaces an earlier duty for the ballot.
    pub(crate) fn want(&mut self, claim: &Claim, ballot: Ballot, duty: Duty, until: Instant) {
        let name = (claim.clone(), ballot);
        self.releases += usize::from(duty == Duty::Release);
        if let Some(item) = self.items.get_mut(&name) {
            self.releases -= usize::from(item.duty == Duty::Release);
            // The request under way carries out the earlier duty.
            item.again = item.is_running;
            (item.duty, item.until) = (duty, until);
            return;
        }
        if self.items.len() >= Self::MAX
            && let Some(oldest) = self.line.pop_front()
        {
            self.remove(&oldest);
        }
        self.line.push_back(name.clone());
        self.items.insert(name, Item { duty, until, is_running: false, again: false });
    }

    /// The next request to the node, if there is one to send now.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<(Claim, Ballot, Duty)> {
        while self.running < self.window && !self.is_paused {
            let name = self.line.pop_front()?;
            let Some(item) = self.items.get_mut(&name) else { continue };
            if item.until <= now {
                self.remove(&name);
                continue;
            }
            item.is_running = true;
            self.running += 1;
            return Some((name.0, name.1, item.duty));
        }
        None
    }

    /// The node has done the item, or need not do it any more.
    pub(crate) fn done(&mut self, claim: &Claim, ballot: Ballot) {
        self.window = (2 * self.window).min(WINDOW);
        self.backoff.reset();
        self.end(claim, ballot, false);
    }

    /// The node could not be asked. Returns the pause that begins now, after which the agenda [goes on](Self::resume).
    pub(crate) fn failed(&mut self, claim: &Claim, ballot: Ballot) -> Option<Duration> {
        self.end(claim, ballot, true);
        // One request finds out whether the node answers again.
        self.window = 1;
        let begins = !std::mem::replace(&mut self.is_paused, true);
        begins.then(|| self.backoff.fail())
    }

    pub(crate) fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Forgets the items without a request under way.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
        self.items.retain(|_, item| item.is_running);
        self.items.values_mut().for_each(|item| item.again = false);
        self.releases = self.items.values().filter(|item| item.duty == Duty::Release).count();
    }

    /// How many ballots the node has to release.
    pub(crate) fn releases(&self) -> usize {
        self.releases
    }

    /// Whether the node has missed something: it has ballots to release, or has failed lately and has not caught up yet.
    /// That a held lease waits for the vote of the node says nothing about the node.
    pub(crate) fn is_behind(&self) -> bool {
        self.releases > 0 || self.window < WINDOW && !self.items.is_empty()
    }

    fn remove(&mut self, name: &(Claim, Ballot)) {
        let removed = self.items.remove(name).filter(|item| item.duty == Duty::Release);
        self.releases -= usize::from(removed.is_some());
    }

    fn end(&mut self, claim: &Claim, ballot: Ballot, has_failed: bool) {
        self.running -= 1;
        let name = (claim.clone(), ballot);
        let Some(item) = self.items.get_mut(&name) else { return };
        item.is_running = false;
        if std::mem::replace(&mut item.again, false) || has_failed {
            self.line.push_back(name);
        } else {
            self.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use lock_core::{Key, OwnerToken};

    use super::*;

    const NOW: Instant = Instant::from_nanos(0);
    const LATER: Instant = Instant::from_nanos(9);

    fn claim(number: usize) -> (Claim, Ballot) {
        let owner = OwnerToken::from_bytes([7; 16]);
        let key = Key::new(number.to_string()).unwrap();
        (Claim::exclusive(key, owner), Ballot { node: 0, owner })
    }

    fn with(count: usize) -> Agenda {
        let mut agenda = Agenda::new();
        for (claim, ballot) in (0..count).map(claim) {
            agenda.want(&claim, ballot, Duty::Release, LATER);
        }
        agenda
    }

    fn begun(agenda: &mut Agenda) -> usize {
        std::iter::from_fn(|| agenda.begin(NOW)).count()
    }

    #[test]
    fn a_node_is_asked_for_as_much_at_once_as_the_window_lets_through() {
        let mut agenda = with(WINDOW + 2);
        assert_eq!(begun(&mut agenda), WINDOW);
        for number in 0..2 {
            let (claim, ballot) = claim(number);
            agenda.done(&claim, ballot);
            assert_eq!(begun(&mut agenda), 1);
        }
        assert_eq!(agenda.releases(), WINDOW);
    }

    #[test]
    fn after_a_failure_one_request_finds_out_whether_the_node_answers() {
        let mut agenda = with(3);
        assert_eq!(begun(&mut agenda), 3);
        let (first, second) = (claim(0), claim(1));
        assert_eq!(agenda.failed(&first.0, first.1), Some(Duration::from_millis(50)));
        assert_eq!(agenda.failed(&second.0, second.1), None);
        let third = claim(2);
        agenda.failed(&third.0, third.1);
        assert_eq!(begun(&mut agenda), 0);
        agenda.resume();
        assert_eq!(begun(&mut agenda), 1);
        assert_eq!(agenda.failed(&first.0, first.1), Some(Duration::from_millis(100)));
        agenda.resume();
        assert_eq!(begun(&mut agenda), 1);
        agenda.done(&second.0, second.1);
        assert_eq!(begun(&mut agenda), 2);
    }

    #[test]
    fn a_node_is_behind_with_its_releases_and_after_a_failure_but_not_with_votes() {
        let mut agenda = Agenda::new();
        let (one, other) = (claim(0), claim(1));
        agenda.want(&one.0, one.1, Duty::Vote, LATER);
        agenda.want(&other.0, other.1, Duty::Release, LATER);
        assert!(agenda.is_behind());
        // The node has got the release, and fails to vote.
        assert_eq!(begun(&mut agenda), 2);
        agenda.done(&other.0, other.1);
        assert!(!agenda.is_behind());
        agenda.failed(&one.0, one.1);
        assert!(agenda.is_behind());
        agenda.resume();
        assert_eq!(begun(&mut agenda), 1);
        agenda.done(&one.0, one.1);
        assert!(!agenda.is_behind());
    }

    #[test]
    fn what_comes_to_be_wanted_during_a_request_is_asked_for_after_it() {
        let mut agenda = Agenda::new();
        let (claim, ballot) = claim(0);
        agenda.want(&claim, ballot, Duty::Vote, LATER);
        assert_eq!(agenda.begin(NOW), Some((claim.clone(), ballot, Duty::Vote)));
        agenda.want(&claim, ballot, Duty::Release, LATER);
        assert_eq!(agenda.begin(NOW), None);
        agenda.done(&claim, ballot);
        assert_eq!(agenda.begin(NOW), Some((claim.clone(), ballot, Duty::Release)));
        agenda.done(&claim, ballot);
        assert_eq!((agenda.releases(), agenda.items.len()), (0, 0));
    }

    #[test]
    fn a_lease_that_is_over_needs_no_release_and_the_oldest_of_too_many_gets_none() {
        let mut agenda = with(Agenda::MAX + 1);
        assert_eq!(agenda.releases(), Agenda::MAX);
        assert_eq!(agenda.begin(NOW).unwrap().0, claim(1).0);
        assert_eq!(agenda.begin(LATER), None);
        assert_eq!(agenda.releases(), 1);
    }
}
