//! A value beside a lock.

use std::sync::Arc;

use async_trait::async_trait;
use lock_core::{Cell, CellBackend, Claim, Error, ErrorKind, FencingToken, Key};
use lock_core::{QuorumNode, Result, Stored};

use crate::Redlock;
use crate::asked::late;
use crate::inner::Core;
use crate::quorum::Quorum;

/// What stands for no value on a node that had one. Nobody else stores these bytes, but by accident.
const ERASED: &[u8; 16] = b"\x9e\x1d\x5c\xa2\x07\xf3\x44\xb8\xe6\x2b\xd1\x70\x8a\x95\x3f\xc9";

/// A value is stored on a majority, so every majority that is asked for it knows it: what was reported as
/// [written](Stored::Written) is what every later load returns, until something is written after it.
///
/// A value whose storing failed may be seen or not, and by one load but not the next, until the next value is
/// stored. If it was stored under the token of the one before, and so few nodes answer that either may be the
/// later, loading fails with an error that invites to try again.
///
/// What erases a value is stored like one, and taken away when every node has it. A value of nearly
/// [`Cell::MAX_LEN`] bytes is refused if it begins with the 16 bytes that stand for this.
#[async_trait]
impl<N: QuorumNode + CellBackend> CellBackend for Redlock<N> {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let core = self.core();
        let nodes = core.quorum.nodes();
        let mut asked = core.ask(0..nodes, core.settings.patience(), |core, node| {
            let key = key.clone();
            async move {
                let loaded = core.nodes[node].backend.load(&key).await;
                core.noted(node, "load", loaded)
            }
        });
        let mut ballot = Ballot { quorum: core.quorum, cells: Vec::new() };
        let mut said = vec![None; nodes];
        while ballot.cells.len() + asked.open().len() >= core.quorum.needed() {
            let Some(batch) = asked.answers().await else { break };
            for (node, loaded) in batch {
                match loaded {
                    Ok(cell) => ballot.cells.push(cell),
                    Err(error) => said[node] = Some(error),
                }
            }
            if ballot.cells.len() >= core.quorum.needed()
                && let Some(cell) = ballot.decided()
            {
                return Ok(cell);
            }
        }
        if ballot.cells.len() < core.quorum.needed() {
            for node in asked.open().iter() {
                said[node] = Some(late(asked.limit()));
            }
            return Err(core.failure("loaded it", ballot.cells.len(), &said));
        }
        ballot.likeliest()
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
            // No node has an older value that could come back, so it need not be kept away.
            let _best_effort = store_on_all(core, claim, token, None).await;
        }
        Ok(outcome)
    }
}

/// How many have written it, and what that comes to.
async fn store_on_all<N: QuorumNode + CellBackend>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    token: FencingToken,
    value: Option<Vec<u8>>,
) -> Result<(usize, Stored)> {
    let (needed, nodes) = (core.quorum.needed(), core.quorum.nodes());
    let value: Option<Arc<[u8]>> = value.map(Into::into);
    // Taking it away is for all nodes or none, and so are the answers to storing what stands for that.
    let waits_for_all = value.as_deref().is_none_or(|value| value == ERASED);
    let mut asked = core.ask(0..nodes, core.settings.patience(), |core, node| {
        let (claim, value) = (claim.clone(), value.clone());
        async move {
            let stored = core.nodes[node].backend.store(&claim, token, value.as_deref()).await;
            core.noted(node, "store", stored)
        }
    });
    let (mut written, mut refused) = (0, 0);
    let mut said = vec![None; nodes];
    loop {
        let open = asked.open().len();
        let is_decided = written >= needed || refused > nodes - needed || written + open < needed;
        if open == 0 || (is_decided && !waits_for_all) {
            break;
        }
        let Some(batch) = asked.answers().await else { break };
        for (node, stored) in batch {
            match stored {
                Ok(Stored::Written) => written += 1,
                Ok(_) => refused += 1,
                Err(error) => said[node] = Some(error),
            }
        }
    }
    let open = asked.open();
    let limit = asked.limit();
    asked.finish(|_, _| {});
    if written >= needed {
        return Ok((written, Stored::Written));
    }
    if refused > nodes - needed {
        return Ok((written, Stored::NotHeld));
    }
    for node in open.iter() {
        said[node] = Some(late(limit));
    }
    Err(core.failure("stored it", written, &said))
}

/// What the nodes loaded.
struct Ballot {
    quorum: Quorum,
    cells: Vec<Option<Cell>>,
}

impl Ballot {
    /// The value, if nothing that the others may say would change it, or whether its writer still holds.
    fn decided(&self) -> Option<Option<Cell>> {
        let Some(token) = self.latest() else { return Some(None) };
        let [(value, count)] = *self.values(token) else { return None };
        if *value == ERASED[..] {
            return Some(None);
        }
        let needed = self.quorum.needed();
        let held = self.holding(token);
        let free = count - held;
        let held = match () {
            () if held >= needed => true,
            () if free > self.quorum.nodes() - needed => false,
            () => return None,
        };
        decode(value).map(|value| Some(Cell::new(value, token, held)))
    }

    /// The same, when all have answered that will.
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
        if value == ERASED {
            return Ok(None);
        }
        let missed = self.quorum.nodes() - count;
        let held = self.holding(token);
        let held = held > 0 && held + missed >= self.quorum.needed();
        Ok(decode(value).map(|value| Cell::new(value, token, held)))
    }

    fn latest(&self) -> Option<FencingToken> {
        self.cells.iter().flatten().map(|cell| cell.token).max()
    }

    /// The different values that were stored under a token, and by how many nodes each.
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

    /// How many nodes say that the writer still holds.
    fn holding(&self, token: FencingToken) -> usize {
        self.cells.iter().flatten().filter(|cell| cell.token == token && cell.held).count()
    }
}

/// A value as the nodes keep it: one that looks like none gets a byte more.
fn encode(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => ERASED.to_vec(),
        Some(value) if value.starts_with(ERASED) => [value, &[0]].concat(),
        Some(value) => value.to_vec(),
    }
}

fn decode(stored: &[u8]) -> Option<Vec<u8>> {
    if stored == ERASED {
        return None;
    }
    let escaped = stored.strip_suffix(&[0]).filter(|_| stored.starts_with(ERASED));
    Some(escaped.unwrap_or(stored).to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ballot(nodes: usize, cells: &[Option<(&[u8], u64, bool)>]) -> Ballot {
        let cell = |(value, token, held): (&[u8], u64, bool)| {
            Cell::new(value.to_vec(), FencingToken::new(token), held)
        };
        let cells = cells.iter().map(|loaded| loaded.map(cell)).collect();
        Ballot { quorum: Quorum::of(nodes), cells }
    }

    fn value(cell: Option<Cell>) -> Option<(Vec<u8>, bool)> {
        cell.map(|cell| (cell.value, cell.held))
    }

    #[test]
    fn the_highest_token_wins() {
        let one = ballot(3, &[Some((b"old", 7, false)), Some((b"new", 8, true))]);
        // Whether it is still held only the third can say.
        assert_eq!(one.decided(), None);
        assert_eq!(value(one.likeliest().unwrap()), Some((b"new".to_vec(), true)));
        let all = ballot(3, &[Some((b"new", 8, true)), None, Some((b"new", 8, true))]);
        assert_eq!(value(all.decided().unwrap()), Some((b"new".to_vec(), true)));
        assert_eq!(ballot(3, &[None, None]).decided(), Some(None));
    }

    #[test]
    fn what_was_erased_does_not_come_back() {
        let late = ballot(3, &[Some((b"old", 7, false)), Some((ERASED, 8, true))]);
        assert_eq!(late.decided(), Some(None));
        assert_eq!(late.likeliest().unwrap(), None);
    }

    #[test]
    fn of_two_values_under_one_token_the_majority_has_the_later() {
        let first = Some((&b"first"[..], 7, true));
        let second = Some((&b"second"[..], 7, true));
        let all = ballot(3, &[second, first, second]);
        assert_eq!(value(all.likeliest().unwrap()), Some((b"second".to_vec(), true)));
        let error = ballot(3, &[second, first]).likeliest().unwrap_err();
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
            prop_assert_eq!(decode(&encode(Some(&value))), Some(value));
        }
    }

    /// Bytes that a node may have, whoever put them there.
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

    proptest! {
        /// Whatever the nodes have, a value that is loaded was stored by one of them under the highest token,
        /// and what is decided early is what comes out in the end.
        #[test]
        fn what_is_loaded_was_stored(cells in cells(), silent in 0..3usize) {
            let nodes = cells.len() + silent;
            prop_assume!((1..=Quorum::MAX).contains(&nodes) && cells.len() >= Quorum::of(nodes).needed());
            let ballot = Ballot { quorum: Quorum::of(nodes), cells };
            let latest = ballot.latest();
            let (decided, likeliest) = (ballot.decided(), ballot.likeliest());
            if let Ok(Some(cell)) = &likeliest {
                let mut stored = ballot.cells.iter().flatten();
                let is_it = |it: &Cell| {
                    Some(it.token) == latest && decode(&it.value).as_ref() == Some(&cell.value)
                };
                prop_assert!(stored.any(is_it) && Some(cell.token) == latest);
            }
            if let Some(decided) = decided {
                prop_assert_eq!(decided, likeliest.unwrap());
            }
        }
    }
}
