//! The value that follows from the answers of the nodes; pure.

use lock_core::{Cell, Error, ErrorKind, FencingToken, Result};

use super::kept::{ERASED, decode};
use crate::quorum::Quorum;

/// What the nodes loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) quorum: Quorum,
    pub(super) cells: Vec<Option<Cell>>,
}

impl Loaded {
    /// Whether the result is final: no further answer can change the latest value, its `settled` or its `held`.
    pub(super) fn is_decided(&self) -> bool {
        let Some(token) = self.latest() else { return true };
        let [(value, count)] = *self.values(token) else { return false };
        let (held, free) = self.holding(token);
        let is_free = free > self.quorum.spare();
        let is_settled = self.quorum.is_met_by(count);
        is_settled && (value == ERASED || self.quorum.is_met_by(held) || is_free)
    }

    /// The latest value in the form in which the nodes keep it, as far as these nodes can tell.
    pub(super) fn likeliest(&self) -> Result<Option<Cell>> {
        let Some(token) = self.latest() else { return Ok(None) };
        let unknown = self.quorum.nodes() - self.cells.len();
        let values = self.values(token);
        let may_be_stored =
            |count: usize| values.len() == 1 || self.quorum.is_met_by(count + unknown);
        let mut likely = values.iter().filter(|(_, count)| may_be_stored(*count));
        let (value, count) = match (likely.next(), likely.next()) {
            (Some(&only), None) => only,
            (None, _) => values.iter().copied().max_by_key(|(_, count)| *count).unwrap_or_default(),
            (Some(_), Some(_)) => {
                let message =
                    "it cannot be told which of two values was stored later: too few nodes answer";
                return Err(Error::new(ErrorKind::NotReady, message));
            }
        };
        let (held, free) = self.holding(token);
        let held = held > 0 && free <= self.quorum.spare();
        let latest = Cell::new(value.to_vec(), token, held);
        Ok(Some(if self.quorum.is_met_by(count) { latest } else { latest.unsettled() }))
    }

    /// Whether a majority may have the last value under this token, if the silent nodes have it.
    pub(super) fn may_be_settled(&self, token: FencingToken) -> bool {
        let most = self.values(token).iter().map(|(_, count)| *count).max().unwrap_or_default();
        let silent = self.quorum.nodes() - self.cells.len();
        self.quorum.is_met_by(most + silent)
    }

    /// The value before the values under this token, if a node still has one.
    pub(super) fn before(&self, token: FencingToken) -> Option<Cell> {
        let earlier = self.cells.iter().flatten().filter(|cell| cell.token < token);
        let last = earlier.map(|cell| cell.token).max()?;
        let values = self.values(last);
        let (value, _) = values.iter().copied().max_by_key(|(_, count)| *count)?;
        // Another client has written later, so the writer of this value does not hold the lock any more.
        match decode(&Cell::new(value.to_vec(), last, false)) {
            None => self.before(last),
            cell => cell.map(Cell::unsettled),
        }
    }

    fn latest(&self) -> Option<FencingToken> {
        self.cells.iter().flatten().map(|cell| cell.token).max()
    }

    /// The different values under a token, with the number of nodes that have each value.
    fn values(&self, token: FencingToken) -> Vec<(&[u8], usize)> {
        let mut values: Vec<(&[u8], usize)> = Vec::new();
        for cell in self.cells.iter().flatten().filter(|cell| cell.token == token) {
            match values.iter_mut().find(|(value, _)| *value == cell.value) {
                Some((_, count)) => *count += 1,
                None => values.push((&cell.value, 1)),
            }
        }
        values
    }

    /// How many nodes say that the writer still holds the lock, and how many say that it does not.
    fn holding(&self, token: FencingToken) -> (usize, usize) {
        let cells = self.cells.iter().flatten().filter(|cell| cell.token == token);
        let (held, free): (Vec<_>, Vec<_>) = cells.partition(|cell| cell.held);
        (held.len(), free.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loaded(nodes: usize, cells: &[Option<(&[u8], u64, bool)>]) -> Loaded {
        let cell = |(value, token, held): (&[u8], u64, bool)| {
            Cell::new(value.to_vec(), FencingToken::new(token), held)
        };
        let cells = cells.iter().map(|loaded| loaded.map(cell)).collect();
        Loaded { quorum: Quorum::of(nodes), cells }
    }

    fn value(cell: &Option<Cell>) -> Option<(&[u8], bool, bool)> {
        cell.as_ref().map(|cell| (&*cell.value, cell.held, cell.settled))
    }

    #[test]
    fn the_highest_token_wins() {
        let one = loaded(3, &[Some((b"old", 7, false)), Some((b"new", 8, true))]);
        // Only the third node can say whether the value is settled, and whether its writer still
        // holds the lock.
        assert!(!one.is_decided());
        assert_eq!(value(&one.likeliest().unwrap()), Some((&b"new"[..], true, false)));
        let all = loaded(3, &[Some((b"new", 8, true)), None, Some((b"new", 8, true))]);
        assert!(all.is_decided());
        assert_eq!(value(&all.likeliest().unwrap()), Some((&b"new"[..], true, true)));
        let nothing = loaded(3, &[None, None]);
        assert!(nothing.is_decided());
        assert_eq!(nothing.likeliest().unwrap(), None);
    }

    #[test]
    fn what_a_minority_has_is_not_settled() {
        let few = loaded(4, &[Some((b"x", 7, false)), Some((b"x", 7, false)), None, None]);
        assert!(!few.is_decided());
        assert_eq!(value(&few.likeliest().unwrap()), Some((&b"x"[..], false, false)));
        // Equal bytes under two tokens are two values: other clients may see another value in
        // between.
        let twice = loaded(3, &[Some((b"x", 7, false)), Some((b"x", 8, false)), None]);
        assert!(!twice.is_decided());
        assert_eq!(value(&twice.likeliest().unwrap()), Some((&b"x"[..], false, false)));
    }

    #[test]
    fn what_was_erased_does_not_come_back() {
        let erased = Some((&ERASED[..], 8, true));
        let old = Some((&b"old"[..], 7, false));
        let loaded = loaded(3, &[old, erased, erased]);
        assert!(loaded.is_decided());
        let latest = loaded.likeliest().unwrap().unwrap();
        assert_eq!((decode(&latest), latest.settled), (None, true));
    }

    #[test]
    fn what_a_minority_has_erased_is_there_but_not_settled() {
        let erased = Some((&ERASED[..], 9, true));
        let loaded = loaded(3, &[erased, Some((b"old", 7, true)), Some((b"old", 7, true))]);
        assert!(!loaded.is_decided());
        let latest = loaded.likeliest().unwrap().unwrap();
        assert_eq!((decode(&latest), latest.settled), (None, false));
        assert!(!loaded.may_be_settled(latest.token));
        assert_eq!(value(&loaded.before(latest.token)), Some((&b"old"[..], false, false)));
    }

    #[test]
    fn what_may_have_been_erased_is_not_there() {
        let late = loaded(3, &[Some((b"old", 7, false)), Some((ERASED, 8, true))]);
        assert!(!late.is_decided());
        let latest = late.likeliest().unwrap().unwrap();
        assert!(decode(&latest).is_none() && late.may_be_settled(latest.token));
    }

    #[test]
    fn of_two_values_under_one_token_the_majority_has_the_later() {
        let first = Some((&b"first"[..], 7, true));
        let second = Some((&b"second"[..], 7, true));
        let all = loaded(3, &[second, first, second]);
        assert_eq!(value(&all.likeliest().unwrap()), Some((&b"second"[..], true, true)));
        let error = loaded(3, &[second, first]).likeliest().unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }

    /// Bytes that a node may have, from any client.
    fn stored() -> impl Strategy<Value = Vec<u8>> {
        let stem = prop_oneof![Just(vec![]), Just(ERASED.to_vec()), Just(ERASED[..15].to_vec())];
        let rest = prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 0..3);
        (stem, rest).prop_map(|(stem, rest)| [stem, rest].concat())
    }

    fn cells() -> impl Strategy<Value = Vec<Option<Cell>>> {
        let token = prop_oneof![4 => 7..9u64, 1 => Just(u64::MAX), 1 => Just(0)];
        let cell = (stored(), token, any::<bool>())
            .prop_map(|(value, token, held)| Cell::new(value, FencingToken::new(token), held));
        prop::collection::vec(prop::option::weighted(0.8, cell), 0..=7)
    }

    /// What the nodes have, and the number of silent nodes.
    fn answers() -> impl Strategy<Value = Loaded> {
        (cells(), 0..3usize)
            .prop_map(|(cells, silent)| (Quorum::of((cells.len() + silent).max(1)), cells))
            .prop_filter("a majority answers", |(quorum, cells)| cells.len() >= quorum.needed())
            .prop_map(|(quorum, cells)| Loaded { quorum, cells })
    }

    proptest! {
        /// In any state of the nodes, a loaded value is on one of them under the highest token.
        #[test]
        fn what_is_loaded_was_stored(loaded in answers()) {
            let Ok(Some(cell)) = loaded.likeliest() else { return Ok(()) };
            let mut stored = loaded.cells.iter().flatten();
            prop_assert_eq!(Some(cell.token), loaded.latest());
            prop_assert!(stored.any(|it| it.token == cell.token && it.value == cell.value));
            if let Some(before) = loaded.before(cell.token) {
                let mut stored = loaded.cells.iter().flatten().filter_map(decode);
                prop_assert!(stored.any(|it| it.value == before.value));
                prop_assert!(!before.settled && before.token < cell.token);
            }
        }

        /// The answers of silent nodes change nothing about an early decision.
        #[test]
        fn an_early_decision_is_final(
            mut loaded in answers(),
            latest in stored(),
            have_it in prop::collection::vec(prop::option::weighted(0.8, prop::bool::weighted(0.2)), 7),
            silent in cells(),
        ) {
            let theirs = loaded.cells.iter_mut().zip(have_it);
            theirs.for_each(|(cell, held)| if let Some(held) = held {
                *cell = Some(Cell::new(latest.clone(), FencingToken::new(8), held));
            });
            if !loaded.is_decided() {
                return Ok(());
            }
            let decided = loaded.likeliest().unwrap();
            let token = loaded.latest();
            // A silent node has no later value: that would be another value. It may have the latest value, too.
            let may_be = |cell: &Option<Cell>| cell.as_ref().map(|it| it.token) <= token;
            let silent = silent.into_iter().filter(may_be).chain(std::iter::repeat(None));
            let (quorum, mut cells) = (loaded.quorum, loaded.cells);
            cells.extend(silent.take(quorum.nodes() - cells.len()));
            let last = Loaded { quorum, cells }.likeliest().unwrap();
            // It does not matter whether the client that has erased the value still holds the lock.
            let held = |cell: Option<Cell>| cell.map(|mut cell| {
                cell.held |= decode(&cell).is_none();
                cell
            });
            prop_assert_eq!(held(decided), held(last));
        }

        /// Every later load sees a settled value, no matter which majority answers.
        #[test]
        fn every_majority_knows_what_is_settled(
            mut loaded in answers(),
            latest in stored(),
            have_it in prop::collection::vec(prop::bool::weighted(0.7), 7),
            rest in prop::collection::vec(cells(), 3),
            order in any::<prop::sample::Index>(),
        ) {
            let latest = Cell::new(latest, FencingToken::new(9), false);
            let theirs = loaded.cells.iter_mut().zip(have_it).filter(|(_, has_it)| *has_it);
            theirs.for_each(|(cell, _)| *cell = Some(latest.clone()));
            let Ok(Some(first)) = loaded.likeliest() else { return Ok(()) };
            prop_assume!(first.settled);
            // The silent nodes have no later value: that would be another value.
            let quorum = loaded.quorum;
            let may_be = |cell: &Option<Cell>| cell.as_ref().is_none_or(|it| it.token < first.token);
            let silent = rest.into_iter().flatten().filter(may_be).chain(std::iter::repeat(None));
            let mut nodes = loaded.cells.clone();
            nodes.extend(silent.take(quorum.nodes() - loaded.cells.len()));
            let start = order.index(quorum.nodes());
            nodes.rotate_left(start);
            nodes.truncate(quorum.needed());
            let later = Loaded { quorum, cells: nodes }.likeliest().unwrap();
            let later = later.map(|cell| (cell.value, cell.token));
            prop_assert_eq!(later, Some((first.value, first.token)));
        }
    }
}
