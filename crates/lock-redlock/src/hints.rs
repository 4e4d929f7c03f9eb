//! One watch from the watches of several nodes.

use std::time::Duration;

use lock_core::{Hint, Instant};

use crate::quorum::{NodeSet, Quorum};

/// How long a hint waits for company that may not come because some nodes are not heard.
const SHORT: Duration = Duration::from_millis(5);

/// How long it waits although enough nodes are heard that did not say the same.
const LONG: Duration = Duration::from_secs(1);

/// How much longer than at first a hint waits after others of few nodes, at most.
const MOST: u32 = 8;

/// How long after a hint was passed on the others may still say the same.
const ECHO: Duration = Duration::from_millis(50);

/// Passes hints on once a quorum of nodes gave one.
///
/// A single node may become free because somebody who missed a quorum gave up its vote there. To wake
/// everybody for that would have them do the same in turn. So a hint of few nodes waits, and the longer the
/// more often it was of no use.
#[derive(Debug)]
pub(crate) struct Merger {
    quorum: Quorum,
    listening: NodeSet,
    /// The nodes that gave a hint since one was passed on, the strongest of theirs, and when it is passed
    /// on although they are few.
    heard: NodeSet,
    hint: Option<(Hint, Instant)>,
    /// Those that may still repeat what was passed on, and until when.
    echoes: (NodeSet, Instant),
    /// How often in a row a hint of few nodes was passed on.
    lonely: u32,
}

impl Merger {
    pub(crate) fn new(quorum: Quorum) -> Self {
        Self {
            quorum,
            listening: NodeSet::default(),
            heard: NodeSet::default(),
            hint: None,
            echoes: (NodeSet::default(), Instant::from_nanos(0)),
            lonely: 0,
        }
    }

    /// A node is listened to from now on. If that makes a quorum, hints may have been missed before.
    pub(crate) fn listen(&mut self, node: usize) -> Option<Hint> {
        let before = self.is_sure();
        self.listening.insert(node);
        (!before && self.is_sure()).then_some(Hint::Resync)
    }

    /// A node has not been heard since some time ago. If the others are not a quorum, hints may be missed; and
    /// they may have been if another was not heard either, which may not be known yet.
    pub(crate) fn lose(&mut self, node: usize, now: Instant) -> Option<Hint> {
        let before = self.is_sure();
        self.listening.remove(node);
        if before && !self.is_sure() {
            return Some(Hint::Resync);
        }
        self.echoes.0.remove(node);
        self.hear(node, Hint::Resync, now)
    }

    /// Whether every release is heard: by a majority of nodes one of those that held is listened to.
    pub(crate) fn is_sure(&self) -> bool {
        self.listening.len() >= self.quorum.needed()
    }

    /// A node gave a hint.
    pub(crate) fn hear(&mut self, node: usize, hint: Hint, now: Instant) -> Option<Hint> {
        if matches!(hint, Hint::Granted { .. } | Hint::Wanted) {
            // A vote never stands in a node's queue.
            return None;
        }
        if self.echoes.0.remove(node) && now < self.echoes.1 {
            return None;
        }
        self.heard.insert(node);
        let strongest = match self.hint {
            Some((before, _)) if strength(before) >= strength(hint) => before,
            _ => hint,
        };
        if self.heard.len() >= self.quorum.needed() {
            self.lonely = 0;
            return Some(self.pass(strongest, now));
        }
        let at = self.hint.map_or(Instant::FAR_FUTURE, |(_, at)| at);
        self.hint = Some((strongest, at.min(now + self.patience())));
        None
    }

    /// The lock has changed hands, so hints were of use although few gave them.
    pub(crate) fn moved(&mut self) {
        self.lonely = 0;
    }

    /// When to call [`fire`](Self::fire).
    pub(crate) fn due(&self) -> Option<Instant> {
        self.hint.map(|(_, at)| at)
    }

    /// Passes on what has waited long enough.
    pub(crate) fn fire(&mut self, now: Instant) -> Option<Hint> {
        let (hint, _) = self.hint.filter(|&(_, at)| at <= now)?;
        self.lonely = self.lonely.saturating_add(1);
        Some(self.pass(hint, now))
    }

    fn pass(&mut self, hint: Hint, now: Instant) -> Hint {
        self.echoes = (self.listening.without(self.heard), now + ECHO);
        self.heard = NodeSet::default();
        self.hint = None;
        hint
    }

    /// How long to wait for the others: not for long if with those that are not heard it may be a quorum.
    fn patience(&self) -> Duration {
        let deaf = self.quorum.nodes() - self.listening.len();
        let times = 2u32.saturating_pow(self.lonely.min(8));
        if self.heard.len() + deaf < self.quorum.needed() {
            return LONG * times.min(MOST);
        }
        LONG.min(SHORT * times)
    }
}

fn strength(hint: Hint) -> u8 {
    match hint {
        Hint::Resync => 3,
        Hint::Released => 2,
        Hint::Changed => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listening(nodes: usize, to: usize) -> Merger {
        let mut merger = Merger::new(Quorum::of(nodes));
        for node in 0..to {
            merger.listen(node);
        }
        merger
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0) + Duration::from_millis(millis)
    }

    #[test]
    fn a_quorum_is_believed_at_once_and_once() {
        let mut merger = listening(3, 3);
        for round in [0, 100, 200] {
            assert_eq!(merger.hear(0, Hint::Expired, at(round)), None);
            assert_eq!(merger.hear(0, Hint::Expired, at(round)), None);
            assert_eq!(merger.hear(2, Hint::Released, at(round + 1)), Some(Hint::Released));
            assert_eq!(merger.hear(1, Hint::Released, at(round + 2)), None);
            assert_eq!(merger.due(), None);
        }
    }

    #[test]
    fn few_have_to_wait() {
        let mut merger = listening(3, 3);
        assert_eq!(merger.hear(1, Hint::Released, at(0)), None);
        assert_eq!(merger.due(), Some(at(1000)));
        // With one that is not heard they may be a quorum.
        let mut merger = listening(3, 2);
        for wait in [5, 10, 20, 40, 80] {
            assert_eq!(merger.hear(1, Hint::Released, at(1000)), None);
            assert_eq!(merger.due(), Some(at(1000 + wait)));
            assert_eq!(merger.fire(at(1000)), None);
            assert_eq!(merger.fire(at(1000 + wait)), Some(Hint::Released));
        }
    }

    #[test]
    fn few_who_were_right_have_to_wait_no_longer() {
        let mut merger = listening(3, 2);
        for wait in [5, 10] {
            assert_eq!(merger.hear(1, Hint::Released, at(0)), None);
            assert_eq!(merger.fire(at(wait)), Some(Hint::Released));
        }
        merger.moved();
        assert_eq!(merger.hear(1, Hint::Released, at(0)), None);
        assert_eq!(merger.due(), Some(at(5)));
    }

    #[test]
    fn it_says_when_it_may_have_missed_something() {
        let mut merger = listening(5, 3);
        assert!(merger.is_sure());
        assert_eq!(merger.lose(1, at(0)), Some(Hint::Resync));
        assert_eq!(merger.lose(2, at(0)), None);
        assert_eq!(merger.listen(4), None);
        assert_eq!(merger.listen(3), Some(Hint::Resync));
        assert_eq!(merger.listen(1), None);
    }

    #[test]
    fn gaps_that_may_overlap_are_told() {
        let mut merger = listening(3, 3);
        assert_eq!(merger.lose(0, at(0)), None);
        assert_eq!(merger.listen(0), None);
        assert_eq!(merger.lose(2, at(0)), Some(Hint::Resync));
        merger.listen(2);
        assert_eq!(merger.lose(1, at(0)), None);
        merger.listen(1);
        assert_eq!(merger.fire(at(1000)), Some(Hint::Resync));
    }

    proptest! {
        /// Whatever is heard of a first release, something is passed on, and within a second.
        #[test]
        fn nothing_is_swallowed_for_good(
            nodes in 1..=7usize,
            deaf in 0..4usize,
            hints in prop::collection::vec((0..7usize, 1..100u64), 1..30),
        ) {
            let mut merger = listening(nodes, nodes.saturating_sub(deaf).max(1));
            let (mut now, mut passed) = (0, false);
            for (node, pause) in hints {
                now += pause;
                passed |= merger.fire(at(now)).is_some();
                passed |= merger.hear(node % nodes, Hint::Released, at(now)).is_some();
                prop_assert!(passed || merger.due().is_some_and(|due| due <= at(now + 1000)));
            }
        }
    }
}
