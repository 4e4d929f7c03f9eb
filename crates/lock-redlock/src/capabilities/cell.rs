//! A value beside a lock.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Cell, CellBackend, Claim, Error, ErrorKind, FencingToken, Key};
use lock_core::{QuorumNode, Result, Stored};

use crate::Redlock;
use crate::inner::Core;
use crate::quorum::{NodeSet, Quorum};

/// The mark that replaces an erased value on a node. Callers store these bytes only by accident.
const ERASED: &[u8; 16] = b"\x9e\x1d\x5c\xa2\x07\xf3\x44\xb8\xe6\x2b\xd1\x70\x8a\x95\x3f\xc9";

/// A majority stores each value, so every majority has a node that knows it. If a write was reported as
/// [written](Stored::Written), every later load returns its value, until a later value is written. Only the nodes that
/// took part in the write have the value: the quorum copies it to no other node later. A node that has lost its data
/// votes again after a while, and counts as a node that never had the value.
///
/// A value counts as not written only if every node has refused it. If some nodes have it or do not answer, and they
/// are no majority, the write fails with a retryable error.
///
/// If a value has reached fewer nodes than a majority, one load may see it and the next load may not, until the next
/// value is stored. Such a value is not [settled](Cell::settled): a value is settled only if a majority has said that
/// it has the value, under one token. If two values have one token, and too few nodes answer to tell which is later,
/// the load fails with a retryable error.
///
/// To erase a value, the quorum stores a mark of 16 bytes in its place, and removes the mark when every node has it.
/// If the mark has certainly not reached a majority, a load still returns the value, as not settled. If that is
/// unknown because nodes are silent, a load returns no value. If the erasure then fails, other clients may see the
/// value again. The quorum refuses a value of nearly [`Cell::MAX_LEN`] bytes that begins with these 16 bytes.
///
/// The holder [loads](CellBackend::load_under) the values of the nodes that granted its claim and still have its lease
/// when they answer. This majority refuses the late writes of earlier holders. So a value that the holder does not see
/// there cannot become settled.
#[async_trait]
impl<N: QuorumNode + CellBackend> CellBackend for Redlock<N> {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let core = self.core();
        let (loaded, latest) = load_from(core, key, (0..core.quorum.nodes()).collect()).await?;
        Ok(latest.and_then(|latest| match decode(&latest) {
            None if !loaded.may_be_settled(latest.token) => loaded.before(latest.token),
            seen => seen,
        }))
    }

    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>> {
        let core = self.core();
        let Some(held) = core.claims.held(claim, core.clock.now()) else {
            let message = "it cannot be loaded under a claim that is not held here";
            return Err(Error::new(ErrorKind::NotHeld, message));
        };
        let (_, latest) = load_from(core, &claim.key, held.nodes).await?;
        let now = core.clock.now();
        // The same nodes may have renewed the lease meanwhile.
        let renewed = || core.claims.held(claim, now).map(|held| held.nodes).unwrap_or_default();
        if now >= held.valid_until && !held.nodes.without(renewed()).is_empty() {
            let message = "the lease may have been over before a majority had said what was stored";
            return Err(Error::new(ErrorKind::NotReady, message));
        }
        Ok(latest.as_ref().and_then(decode))
    }

    fn load_is_conclusive(&self) -> bool {
        self.core().quorum.nodes() == 1
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        Cell::check(claim, value)?;
        let core = self.core();
        let stored = encode(value);
        let (written, outcome) = store_on_all(core, claim, token, Some(stored)).await?;
        if value.is_none() && written == core.quorum.nodes() {
            // No node has an older value that could come back, so the mark is not needed any more.
            let _best_effort = store_on_all(core, claim, token, None).await;
        }
        Ok(outcome)
    }
}

/// The values of these nodes, as far as they matter, and the latest value in the form in which the
/// nodes keep it.
async fn load_from<N: QuorumNode + CellBackend>(
    core: &Arc<Core<N>>,
    key: &Key,
    nodes: NodeSet,
) -> Result<(Loaded, Option<Cell>)> {
    let mut asked = core.ask(nodes.iter(), core.settings.patience(), |core, node| {
        let key = key.clone();
        async move { core.call(node, "load", |it| it.load(&key)).await }
    });
    let mut loaded = Loaded { quorum: core.quorum, cells: Vec::new() };
    while loaded.cells.len() + asked.open().len() >= core.quorum.needed() {
        let Some((_, cell)) = asked.next().await else { break };
        loaded.cells.extend(cell);
        if !asked.has_ready()
            && loaded.cells.len() >= core.quorum.needed()
            && let Some(latest) = loaded.decided()
        {
            return Ok((loaded, latest));
        }
    }
    if loaded.cells.len() < core.quorum.needed() {
        return Err(asked.failure("loaded it", loaded.cells.len()));
    }
    let latest = loaded.likeliest()?;
    Ok((loaded, latest))
}

/// How many nodes have written the value, and the outcome.
async fn store_on_all<N: QuorumNode + CellBackend>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    token: FencingToken,
    value: Option<Vec<u8>>,
) -> Result<(usize, Stored)> {
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let value: Option<Arc<[u8]>> = value.map(Into::into);
    // The quorum removes the mark only if every node has it, so the answers of all nodes count.
    let waits_for_all = value.as_deref().is_none_or(|value| value == ERASED);
    let mut known = claim.clone();
    known.owner = core.claims.owner(claim);
    let mut asked = core.ask(0..nodes, core.settings.patience(), |core, node| {
        let (claim, value) = (known.clone(), value.clone());
        async move {
            core.call(node, "store", |it| it.store(&claim, token, value.as_deref())).await
        }
    });
    let (mut written, mut refused, mut unclear) = (0, 0, 0);
    loop {
        let open = asked.open().len();
        // A later holder may find a value that one node has. So a value counts as not written only if all nodes have
        // refused it.
        let fails = written + open < needed && written + unclear > 0;
        let is_decided = written >= needed || fails;
        if open == 0 || (is_decided && !waits_for_all && !asked.has_ready()) {
            break;
        }
        match asked.next().await {
            Some((_, Some(Stored::Written))) => written += 1,
            Some((_, Some(_))) => refused += 1,
            Some((node, None)) => {
                unclear += usize::from(asked.error_of(node).is_none_or(Error::is_retryable));
            }
            None => break,
        }
    }
    unclear += asked.open().len();
    let outcome = match () {
        () if written >= needed => Ok((written, Stored::Written)),
        () if refused == nodes => Ok((written, Stored::NotHeld)),
        () if written + unclear == 0 => Err(asked.failure("stored it", 0)),
        () => Err(in_doubt(asked.failure("stored it", written))),
    };
    asked.finish();
    outcome
}

/// An error after which some nodes may have the value.
fn in_doubt(error: Error) -> Error {
    if error.is_retryable() {
        return error;
    }
    Error::with_source(ErrorKind::NotReady, error.to_string(), error)
}

/// What the nodes loaded.
#[derive(Debug)]
struct Loaded {
    quorum: Quorum,
    cells: Vec<Option<Cell>>,
}

impl Loaded {
    /// The latest value in the form in which the nodes keep it. `None` while a further answer may change the value,
    /// whether it is settled, or whether its writer still holds the lock.
    fn decided(&self) -> Option<Option<Cell>> {
        let Some(token) = self.latest() else { return Some(None) };
        let [(value, count)] = *self.values(token) else { return None };
        if !self.is_settled(count) {
            return None;
        }
        let needed = self.quorum.needed();
        let held = self.holding(token);
        let free = count - held;
        let held = match () {
            () if value == ERASED || held >= needed => true,
            () if free > self.quorum.nodes() - needed => false,
            () => return None,
        };
        Some(Some(Cell::new(value.to_vec(), token, held)))
    }

    /// The latest value in the form in which the nodes keep it, once no more nodes will answer.
    fn likeliest(&self) -> Result<Option<Cell>> {
        let Some(token) = self.latest() else { return Ok(None) };
        let unknown = self.quorum.nodes() - self.cells.len();
        let values = self.values(token);
        let may_be_stored =
            |count: usize| values.len() == 1 || count + unknown >= self.quorum.needed();
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
        let missed = self.quorum.nodes() - count;
        let held = self.holding(token);
        let held = held > 0 && held + missed >= self.quorum.needed();
        let latest = Cell::new(value.to_vec(), token, held);
        let settled = self.is_settled(count);
        Ok(Some(if settled { latest } else { latest.unsettled() }))
    }

    /// Whether every majority has one of this many nodes.
    fn is_settled(&self, count: usize) -> bool {
        count >= self.quorum.needed()
    }

    /// Whether a majority may have the last value under this token, if the silent nodes have it.
    fn may_be_settled(&self, token: FencingToken) -> bool {
        let most = self.values(token).iter().map(|(_, count)| *count).max().unwrap_or_default();
        let silent = self.quorum.nodes() - self.cells.len();
        self.is_settled(most + silent)
    }

    /// The value before the values under this token, if a node still has one.
    fn before(&self, token: FencingToken) -> Option<Cell> {
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

    /// How many nodes say that the writer still holds the lock.
    fn holding(&self, token: FencingToken) -> usize {
        self.cells.iter().flatten().filter(|cell| cell.token == token && cell.held).count()
    }
}

/// A value as the nodes keep it. A value that looks like the mark gets one more byte.
fn encode(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => ERASED.to_vec(),
        Some(value) if value.starts_with(ERASED) => [value, &[0]].concat(),
        Some(value) => value.to_vec(),
    }
}

fn decode(kept: &Cell) -> Option<Cell> {
    let stored = &*kept.value;
    if stored == ERASED {
        return None;
    }
    let escaped = stored.strip_suffix(&[0]).filter(|_| stored.starts_with(ERASED));
    let mut cell = kept.clone();
    cell.value = escaped.unwrap_or(stored).to_vec();
    Some(cell)
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
        assert_eq!(one.decided(), None);
        assert_eq!(value(&one.likeliest().unwrap()), Some((&b"new"[..], true, false)));
        let all = loaded(3, &[Some((b"new", 8, true)), None, Some((b"new", 8, true))]);
        assert_eq!(value(&all.decided().unwrap()), Some((&b"new"[..], true, true)));
        assert_eq!(loaded(3, &[None, None]).decided(), Some(None));
    }

    #[test]
    fn what_a_minority_has_is_not_settled() {
        let few = loaded(4, &[Some((b"x", 7, false)), Some((b"x", 7, false)), None, None]);
        assert_eq!(few.decided(), None);
        assert_eq!(value(&few.likeliest().unwrap()), Some((&b"x"[..], false, false)));
        // Equal bytes under two tokens are two values: other clients may see another value in
        // between.
        let twice = loaded(3, &[Some((b"x", 7, false)), Some((b"x", 8, false)), None]);
        assert_eq!(twice.decided(), None);
        assert_eq!(value(&twice.likeliest().unwrap()), Some((&b"x"[..], false, false)));
    }

    #[test]
    fn what_was_erased_does_not_come_back() {
        let erased = Some((&ERASED[..], 8, true));
        let old = Some((&b"old"[..], 7, false));
        let latest = loaded(3, &[old, erased, erased]).decided().unwrap().unwrap();
        assert_eq!((decode(&latest), latest.settled), (None, true));
    }

    #[test]
    fn what_a_minority_has_erased_is_there_but_not_settled() {
        let erased = Some((&ERASED[..], 9, true));
        let loaded = loaded(3, &[erased, Some((b"old", 7, true)), Some((b"old", 7, true))]);
        assert_eq!(loaded.decided(), None);
        let latest = loaded.likeliest().unwrap().unwrap();
        assert_eq!((decode(&latest), latest.settled), (None, false));
        assert!(!loaded.may_be_settled(latest.token));
        assert_eq!(value(&loaded.before(latest.token)), Some((&b"old"[..], false, false)));
    }

    #[test]
    fn what_may_have_been_erased_is_not_there() {
        let late = loaded(3, &[Some((b"old", 7, false)), Some((ERASED, 8, true))]);
        assert_eq!(late.decided(), None);
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

    proptest! {
        #[test]
        fn a_value_is_kept_as_it_is(
            stem in prop_oneof![Just(vec![]), Just(ERASED.to_vec())],
            rest in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let value = [stem, rest].concat();
            prop_assert_ne!(encode(Some(&value)), encode(None));
            let kept = Cell::new(encode(Some(&value)), FencingToken::new(7), true);
            prop_assert_eq!(decode(&kept).map(|cell| cell.value), Some(value));
        }
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
        /// In any state of the nodes, a loaded value is on one of them under the highest token, and an early
        /// decision is the final one.
        #[test]
        fn what_is_loaded_was_stored(loaded in answers()) {
            let latest = loaded.latest();
            let (decided, likeliest) = (loaded.decided(), loaded.likeliest());
            if let Ok(Some(cell)) = &likeliest {
                let mut stored = loaded.cells.iter().flatten();
                prop_assert_eq!(Some(cell.token), latest);
                prop_assert!(stored.any(|it| it.token == cell.token && it.value == cell.value));
                if let Some(before) = loaded.before(cell.token) {
                    let mut stored = loaded.cells.iter().flatten().filter_map(decode);
                    prop_assert!(stored.any(|it| it.value == before.value));
                    prop_assert!(!before.settled && before.token < cell.token);
                }
            }
            if let Some(decided) = decided {
                let likeliest = likeliest.unwrap();
                let erased = decided.is_some() && decided.as_ref().and_then(decode).is_none();
                // It does not matter whether the client that has erased the value still holds the lock.
                let held = |mut cell: Cell| {
                    cell.held |= erased;
                    cell
                };
                prop_assert_eq!(decided.map(held), likeliest.map(held));
            }
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
