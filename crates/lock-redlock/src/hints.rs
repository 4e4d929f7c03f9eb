//! Makes one watch of the watches of several nodes.

use std::time::Duration;

use lock_core::{Hint, Instant};

use crate::quorum::{NodeSet, Quorum};

/// How long a hint waits if the client may have missed this hint from other nodes.
const SHORT: Duration = Duration::from_millis(5);

/// How long a hint waits if the client hears enough nodes, and the others have not given this hint.
const LONG: Duration = Duration::from_secs(1);

/// How long the other nodes may repeat a hint after the client has passed it on.
const ECHO: Duration = Duration::from_millis(50);

/// Passes a hint on once a quorum of nodes has given it.
///
/// A single node may become free because a client without a quorum gave its vote back there. If that woke all waiters,
/// each of them would do so in turn, and wake the others. So a hint of few nodes waits.
///
/// After the client has passed a hint on, each of the other nodes may repeat the hint: an echo. An echo and the first
/// hint about the next lease look alike. So the next hint of such a node is in doubt. A hint in doubt wakes no waiter
/// alone, but counts beside other hints.
#[derive(Clone, Debug)]
pub(crate) struct Merger {
    quorum: Quorum,
    listening: NodeSet,
    /// The nodes that gave a hint since the last hint was passed on.
    heard: NodeSet,
    /// The nodes whose hint is in doubt.
    doubted: NodeSet,
    /// The strongest hint, and when to pass it on although few nodes gave it.
    hint: Option<(Hint, Instant)>,
    /// The nodes that may repeat the last hint, and until when.
    echoes: (NodeSet, Instant),
}

impl Merger {
    pub(crate) fn new(quorum: Quorum) -> Self {
        let (listening, heard, doubted) = Default::default();
        let echoes = (NodeSet::default(), Instant::from_nanos(0));
        Self { quorum, listening, heard, doubted, hint: None, echoes }
    }

    /// The client hears a node from now on. If the client only now hears a quorum, it may have missed hints before.
    pub(crate) fn listen(&mut self, node: usize) -> Option<Hint> {
        let before = self.is_sure();
        self.listening.insert(node);
        (!before && self.is_sure()).then_some(Hint::Resync)
    }

    /// The client has not heard a node for some time. If the other nodes are no quorum, the client may have missed
    /// hints. It may also have missed hints if another node is silent, too, and the client does not know that yet.
    pub(crate) fn lose(&mut self, node: usize, now: Instant) -> Option<Hint> {
        let before = self.is_sure();
        self.listening.remove(node);
        if before && !self.is_sure() {
            return Some(Hint::Resync);
        }
        self.echoes.0.remove(node);
        self.hear(node, Hint::Resync, now)
    }

    /// The nodes that the client hears.
    pub(crate) fn listening(&self) -> NodeSet {
        self.listening
    }

    /// Whether the client hears every release, because each majority has a node that the client
    /// hears.
    pub(crate) fn is_sure(&self) -> bool {
        self.quorum.is_met_by(self.listening.len())
    }

    /// A node gave a hint.
    pub(crate) fn hear(&mut self, node: usize, hint: Hint, now: Instant) -> Option<Hint> {
        if matches!(hint, Hint::Granted { .. } | Hint::Contended) {
            // A vote has no place in the queue of a node.
            return None;
        }
        let (echoes, until) = &mut self.echoes;
        if now >= *until + ECHO {
            self.doubted = NodeSet::default();
        }
        let is_echo = echoes.remove(node) && now < *until;
        if is_echo {
            self.doubted.insert(node)
        } else {
            self.heard.insert(node)
        }
        let strongest = match &self.hint {
            Some((before, _)) if strength(before) >= strength(&hint) => before.clone(),
            _ => hint,
        };
        if self.quorum.is_met_by(self.heard.len()) {
            return Some(self.pass(strongest, now));
        }
        if let Some(patience) = self.patience() {
            let at = self.hint.as_ref().map_or(Instant::FAR_FUTURE, |(_, at)| *at);
            self.hint = Some((strongest, at.min(now + patience)));
        }
        None
    }

    /// When to call [`fire`](Self::fire).
    pub(crate) fn due(&self) -> Option<Instant> {
        self.hint.as_ref().map(|(_, at)| *at)
    }

    /// Passes a hint on that has waited long enough.
    pub(crate) fn fire(&mut self, now: Instant) -> Option<Hint> {
        let (hint, _) = self.hint.take_if(|(_, at)| *at <= now)?;
        Some(self.pass(hint, now))
    }

    fn pass(&mut self, hint: Hint, now: Instant) -> Hint {
        self.echoes = (self.listening.without(self.heard).without(self.doubted), now + ECHO);
        (self.heard, self.doubted, self.hint) = Default::default();
        hint
    }

    /// How long a hint waits for the other nodes. `None` if all hints are in doubt, and there are
    /// too few of them.
    fn patience(&self) -> Option<Duration> {
        let deaf = self.quorum.nodes() - self.listening.len();
        let maybe = self.heard.len() + self.doubted.without(self.heard).len() + deaf;
        match self.quorum.is_met_by(maybe) {
            true => Some(SHORT),
            false => (!self.heard.is_empty()).then_some(LONG),
        }
    }
}

fn strength(hint: &Hint) -> u8 {
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
        // These nodes may be a quorum together with the node that the client does not hear.
        let mut merger = listening(3, 2);
        for now in [1000, 2000] {
            assert_eq!(merger.hear(1, Hint::Released, at(now)), None);
            assert_eq!(merger.due(), Some(at(now + 5)));
            assert_eq!(merger.fire(at(now)), None);
            assert_eq!(merger.fire(at(now + 5)), Some(Hint::Released));
        }
    }

    /// The holder of the next lease has the vote of a node that did not vote for the last lease.
    #[test]
    fn a_hint_about_the_next_lease_is_not_taken_for_an_echo() {
        let mut merger = listening(5, 5);
        for node in [0, 1] {
            assert_eq!(merger.hear(node, Hint::Released, at(0)), None);
        }
        assert_eq!(merger.hear(2, Hint::Released, at(0)), Some(Hint::Released));
        for order in [[0, 1, 3], [3, 0, 1]] {
            let mut merger = merger.clone();
            for node in order {
                assert_eq!(merger.hear(node, Hint::Released, at(10)), None);
            }
            assert_eq!(merger.due(), Some(at(15)), "{order:?}");
            assert_eq!(merger.fire(at(15)), Some(Hint::Released));
        }
    }

    #[test]
    fn echoes_alone_wake_no_waiter() {
        let mut merger = listening(5, 5);
        for node in 0..5 {
            let passed = merger.hear(node, Hint::Released, at(0));
            assert_eq!(passed, (node == 2).then_some(Hint::Released));
        }
        assert_eq!(merger.due(), None);
        // An echo of long ago does not count any more.
        assert_eq!(merger.hear(0, Hint::Released, at(200)), None);
        assert_eq!(merger.due(), Some(at(1200)));
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
        /// Any hint about a first release leads to a hint for the waiters within a second.
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
