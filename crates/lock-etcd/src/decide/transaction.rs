//! The transaction that carries out a plan if nothing has changed, and finds out what has changed otherwise. Pure, but
//! for the reading itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use lock_core::{Error, Key};

use super::plan::{Ask, Known, Plan, bytes_of, empty};
use super::turns::Seen;
use crate::failure;
use crate::link::{Compare, Link, Operation, Range, Ranged, Response, Transacted, Transaction};
use crate::naming::Names;
use crate::news::{self, News};

/// How many comparisons etcd takes in one transaction by default, and how many operations.
pub(crate) const ETCD: usize = 128;

/// How many leases of holders one transaction looks at.
const MOST_LEASES: usize = 48;

/// How many bytes of news one transaction carries.
pub(crate) const NEWS: usize = 256 * 1024;

/// How many leases of holders one transaction about so many keys looks at, and how many sessions of others it relies
/// on.
pub(crate) fn most(keys: usize) -> usize {
    // For each key: the document, the lease that the claim has, and the lease that it gets. Beside them, the session of
    // this client.
    let rest = ETCD.saturating_sub(1 + 3 * keys);
    MOST_LEASES.min(rest / 2)
}

/// What is read: documents, which leases live, and the record of the node if one is expected.
pub(crate) struct Reading<'a> {
    keys: Vec<&'a Key>,
    lives: BTreeSet<i64>,
    expects: Option<&'a str>,
}

/// What was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) known: Vec<Known>,
    pub(crate) alive: BTreeSet<i64>,
    pub(crate) over: BTreeSet<i64>,
    /// Whether the node has another record than expected.
    pub(crate) is_another: bool,
    /// The revision of the store.
    pub(crate) at: i64,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(keys: Vec<&'a Key>, lives: BTreeSet<i64>) -> Self {
        Self { keys, lives, expects: None }
    }

    pub(crate) fn operations(&self, names: &Names) -> Vec<Operation> {
        let documents = self.keys.iter().map(|key| Operation::get(names.document(key)));
        let lives = self.lives.iter().map(|id| {
            Operation::range(Range { key: names.alive(*id), keys_only: true, ..Range::default() })
        });
        let record = self.expects.map(|_| Operation::get(names.record()));
        documents.chain(lives).chain(record).collect()
    }

    /// What the answer to these operations says.
    pub(crate) fn found(&self, answer: Transacted) -> Result<Found, Error> {
        let mut ranges = ranges(answer.responses).into_iter();
        let mut next = || ranges.next().ok_or_else(|| failure::protocol("too few answers"));
        let mut found = Found { at: answer.header.map_or(0, |it| it.revision), ..Found::default() };
        for _ in &self.keys {
            let kv = next()?.kvs.into_iter().next();
            let known = kv.map(|kv| Known { revision: kv.mod_revision, bytes: kv.value });
            found.known.push(known.unwrap_or_default());
        }
        for id in &self.lives {
            let lives = !next()?.kvs.is_empty();
            let which = if lives { &mut found.alive } else { &mut found.over };
            which.insert(*id);
        }
        if let Some(record) = self.expects {
            found.is_another = next()?.kvs.first().is_none_or(|kv| kv.value != record.as_bytes());
        }
        Ok(found)
    }

    /// Reads all of it at one revision.
    pub(crate) async fn read(&self, link: &Link, names: &Names) -> Result<Found, Error> {
        let reading = Transaction { success: self.operations(names), ..Transaction::default() };
        // Most requests read nothing, so their futures have no room for it.
        let answer = Box::pin(link.transact(&reading)).await?;
        self.found(answer)
    }
}

/// The answers to reads, in their order.
pub(crate) fn ranges(answers: Vec<crate::link::Answer>) -> Vec<Ranged> {
    let range = |response| match response {
        Response::Range(ranged) => ranged,
        Response::Put(_) => Ranged::default(),
    };
    answers.into_iter().filter_map(|answer| answer.response.map(range)).collect()
}

/// A transaction that writes, and what it reads if it does not write.
pub(crate) struct Writing<'a> {
    pub(crate) transaction: Transaction,
    pub(crate) reading: Reading<'a>,
    /// News for which there was no room.
    pub(crate) later: BTreeMap<i64, Vec<News>>,
}

/// What a transaction needs to know beside the plans.
pub(crate) struct Terms<'a> {
    pub(crate) names: &'a Names,
    /// The leases of holders that were not seen alive yet.
    pub(crate) unverified: BTreeSet<i64>,
    /// The leases of the claims, and whether the key of each was written.
    pub(crate) taken: Vec<(i64, bool)>,
    /// The lease with which documents at rest go; 0 if there is none.
    pub(crate) retention: i64,
}

/// The transaction for these plans.
pub(crate) fn write<'a, T>(
    asks: &[Ask<'a>],
    seen: &[&Seen],
    plans: &[Plan<T>],
    terms: &Terms<'_>,
) -> Writing<'a> {
    let Terms { names, unverified, taken, .. } = terms;
    let Telling { told, later, sessions } = telling(plans);
    let mut lives = unverified.clone();
    lives.extend(sessions);
    lives.extend(plans.iter().flat_map(|plan| &plan.own));
    lives.extend(taken.iter().map(|(id, _)| *id));
    let is_new = |id: &i64| taken.iter().any(|(taken, is_planted)| taken == id && !is_planted);
    let (new, old): (Vec<i64>, Vec<i64>) = lives.iter().partition(|id| is_new(id));

    let documents = asks.iter().zip(seen).map(|(ask, seen)| {
        let revision = seen.known.as_ref().map_or(0, |known| known.revision);
        Compare::unchanged(names.document(ask.key), revision)
    });
    let expects = asks.iter().find_map(|ask| ask.expects).map(|it| it.record);
    let record = expects.map(|it| Compare::holds(names.record(), it.as_bytes().to_vec()));
    let lives_of_old = old.iter().map(|id| Compare::exists(names.alive(*id)));
    let compare = documents.chain(lives_of_old).chain(record).collect();
    let mut success = documents_and_bells(asks, seen, plans, terms);
    success.extend(new.iter().map(|id| Operation::put(names.alive(*id), Vec::new(), *id)));
    let news = told.iter();
    success.extend(news.map(|(id, it)| Operation::put(names.alive(*id), news::write(it), *id)));
    let keys = asks.iter().map(|ask| ask.key).collect();
    // A new lease has no key yet, so its key would not show that the lease lives.
    let reading = Reading { expects, ..Reading::new(keys, old.into_iter().collect()) };
    let failure = reading.operations(names);
    Writing { transaction: Transaction { compare, success, failure }, reading, later }
}

/// The news for each session.
struct Telling {
    told: BTreeMap<i64, Vec<News>>,
    /// News for which there is no room in the transaction.
    later: BTreeMap<i64, Vec<News>>,
    /// The sessions of others that the transaction relies on.
    sessions: BTreeSet<i64>,
}

fn telling<T>(plans: &[Plan<T>]) -> Telling {
    let mut told = BTreeMap::<i64, Vec<News>>::new();
    for (id, news) in plans.iter().flat_map(|plan| &plan.told) {
        told.entry(*id).or_default().extend(news.iter().cloned());
    }
    let others: BTreeSet<i64> = plans.iter().flat_map(|plan| &plan.others).copied().collect();
    // The sessions that get news come first.
    let (first, rest): (Vec<i64>, Vec<i64>) = others.iter().partition(|id| told.contains_key(id));
    let most = most(plans.len());
    let sessions: BTreeSet<i64> = first.into_iter().chain(rest).take(most).collect();
    let mut telling = Telling { told: BTreeMap::new(), later: BTreeMap::new(), sessions };
    let mut room = NEWS;
    for (id, mut news) in told {
        let is_now = is_own(plans, id) || telling.sessions.contains(&id);
        let rest =
            if is_now { news::split(&mut news, &mut room) } else { std::mem::take(&mut news) };
        for (to, part) in [(&mut telling.told, news), (&mut telling.later, rest)] {
            if !part.is_empty() {
                to.insert(id, part);
            }
        }
    }
    telling
}

fn documents_and_bells<T>(
    asks: &[Ask<'_>],
    seen: &[&Seen],
    plans: &[Plan<T>],
    Terms { names, retention, .. }: &Terms<'_>,
) -> Vec<Operation> {
    let mut operations = Vec::new();
    for ((ask, plan), seen) in asks.iter().zip(plans).zip(seen) {
        if let Some(bytes) = written(seen, plan) {
            let lease = if plan.document.is_at_rest() { *retention } else { 0 };
            operations.push(Operation::put(names.document(ask.key), bytes.into_owned(), lease));
        }
        if plan.bell.rings() {
            operations.push(Operation::put(names.bell(ask.key), plan.bell.write(), *retention));
        }
    }
    operations
}

fn is_own<T>(plans: &[Plan<T>], id: i64) -> bool {
    plans.iter().any(|plan| plan.own.contains(&id))
}

/// The document to write. One is also written if only that keeps an earlier transaction from being carried out late.
/// The answer is the same before and after [`Seen::send`], which marks only the documents that are written.
pub(super) fn written<'a, T>(seen: &'a Seen, plan: &'a Plan<T>) -> Option<Cow<'a, [u8]>> {
    if plan.is_changed {
        return Some(Cow::Borrowed(&plan.bytes));
    }
    seen.unsure?;
    Some(seen.known.as_ref().map_or_else(|| Cow::Owned(empty()), bytes_of))
}
