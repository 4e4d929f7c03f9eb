//! What clients stored and loaded beside the locks, and what must be true of that.

use lock_core::FencingToken;

use crate::history::Wrong;

/// All writes and loads of a story. Each begin and each end is a step, and the steps have numbers that increase.
#[derive(Debug, Default)]
pub(crate) struct Values {
    steps: u64,
    writes: Vec<Write>,
    loads: Vec<Load>,
}

/// A write of one value. The client may repeat the request.
#[derive(Debug)]
struct Write {
    key: usize,
    /// No other write on this key has this token.
    token: FencingToken,
    erases: bool,
    began: u64,
    outcome: Outcome,
}

/// What the writer knows of its write.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// There is no answer yet.
    Open,
    /// An answer said at this step that the value is stored.
    Written(u64),
    /// No node has the value.
    Refused,
    /// Some nodes may have the value.
    Unknown,
}

/// The answer to one request of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Written,
    Refused,
    Unknown,
}

/// A load that has an answer.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) key: usize,
    /// The token of the holder, if a holder has loaded under its claim.
    pub(crate) under: Option<FencingToken>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) found: Option<Found>,
}

/// The value that a load returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The number of the write of this value.
    pub(crate) write: usize,
    pub(crate) token: FencingToken,
    pub(crate) settled: bool,
}

impl Values {
    pub(crate) fn step(&mut self) -> u64 {
        self.steps += 1;
        self.steps
    }

    /// Notes that a write begins, and returns its number.
    pub(crate) fn begin(&mut self, key: usize, token: FencingToken, erases: bool) -> usize {
        let began = self.step();
        self.writes.push(Write { key, token, erases, began, outcome: Outcome::Open });
        self.writes.len() - 1
    }

    /// Notes the answer to one request of a write. After a request in doubt, a refusal of the next request says nothing
    /// about the first.
    pub(crate) fn answered(&mut self, write: usize, answer: Answer) {
        let now = self.step();
        let outcome = &mut self.writes[write].outcome;
        *outcome = match (*outcome, answer) {
            (Outcome::Written(at), _) => Outcome::Written(at),
            (_, Answer::Written) => Outcome::Written(now),
            (Outcome::Open | Outcome::Refused, Answer::Refused) => Outcome::Refused,
            (Outcome::Unknown, Answer::Refused) | (_, Answer::Unknown) => Outcome::Unknown,
        };
    }

    /// Notes the answer to a load. A load that failed says nothing.
    pub(crate) fn loaded(&mut self, load: Load) {
        self.loads.push(load);
    }

    pub(crate) fn check(&self) -> Vec<(Wrong, String)> {
        let loads = self.loads.iter().filter_map(|load| self.wrong_load(load));
        let writes = self.writes.iter().filter_map(|write| self.wrong_write(write));
        loads.chain(writes).collect()
    }

    fn wrong_load(&self, load: &Load) -> Option<(Wrong, String)> {
        let late = self.wrong_value(load).or_else(|| {
            let token = settled(load)?;
            let missed = self.missed(load.key, token, load.began)?;
            Some(format!("{load:?} found what a later holder did not find: {missed:?}"))
        });
        let late = late.map(|what| (Wrong::Late, what));
        late.or_else(|| self.lost(load).map(|what| (Wrong::Value, what)))
    }

    /// A value that no node should have.
    fn wrong_value(&self, load: &Load) -> Option<String> {
        let found = load.found?;
        let write = &self.writes[found.write];
        let is_other = (write.key, write.token) != (load.key, found.token);
        let is_wrong = is_other || matches!(write.outcome, Outcome::Refused);
        is_wrong.then(|| format!("{load:?} found {write:?}"))
    }

    /// A value that the load had to find, and did not find.
    fn lost(&self, load: &Load) -> Option<String> {
        let known = self.known(load)?;
        let is_found = self.seen(load).is_some_and(|seen| seen >= known);
        // After the mark of an erasure is removed, an earlier value may return to single nodes.
        let may_return = load.found.is_some_and(|found| !found.settled)
            && self.erased(load).any(|token| token >= known);
        let is_lost = !is_found && !may_return;
        is_lost.then(|| format!("{load:?} must find {known:?} or a later value"))
    }

    /// The token of the last value that was written, or that an earlier load returned as settled, before this load began.
    fn known(&self, load: &Load) -> Option<FencingToken> {
        let written = self.written(load.key, load.began);
        let earlier = |other: &&Load| other.key == load.key && other.ended < load.began;
        let found = self.loads.iter().filter(earlier).filter_map(settled);
        written.map(|write| write.token).chain(found).max()
    }

    /// The writes that an answer before this step said to be stored.
    fn written(&self, key: usize, step: u64) -> impl Iterator<Item = &Write> {
        let is_written =
            move |write: &&Write| matches!(write.outcome, Outcome::Written(at) if at < step);
        self.writes.iter().filter(move |write| write.key == key).filter(is_written)
    }

    /// The load by a later holder that ended before this step and did not find the value with this token. Such a value is
    /// not settled, and never will be.
    fn missed(&self, key: usize, token: FencingToken, step: u64) -> Option<&Load> {
        self.loads.iter().find(|load| {
            let is_passed = load.under.is_some_and(|under| under > token);
            let is_missed = self.seen(load).is_none_or(|seen| seen < token);
            load.key == key && load.ended < step && is_passed && is_missed
        })
    }

    /// The token of the value that the load found. A load that found no value may have found any value that was erased.
    fn seen(&self, load: &Load) -> Option<FencingToken> {
        let found = load.found.map(|found| found.token);
        found.or_else(|| self.erased(load).max())
    }

    /// The tokens of the writes that may have erased the value before the load ended.
    fn erased(&self, load: &Load) -> impl Iterator<Item = FencingToken> {
        let may_be_seen = |write: &&Write| {
            let is_refused = matches!(write.outcome, Outcome::Refused);
            write.erases && write.key == load.key && write.began < load.ended && !is_refused
        };
        self.writes.iter().filter(may_be_seen).map(|write| write.token)
    }

    fn wrong_write(&self, write: &Write) -> Option<(Wrong, String)> {
        let Outcome::Written(at) = write.outcome else { return None };
        if let Some(load) = self.missed(write.key, write.token, at) {
            return Some((Wrong::Late, format!("{write:?} was written after {load:?}")));
        }
        let mut written = self.written(write.key, write.began);
        let later = written.find(|other| other.token > write.token)?;
        Some((Wrong::Late, format!("{write:?} was written after {later:?}")))
    }
}

/// The token of the value that the load returned as settled.
fn settled(load: &Load) -> Option<FencingToken> {
    load.found.filter(|found| found.settled).map(|found| found.token)
}
