//! Looking at locks, and ending their leases.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, SystemTime};

use futures::future::join_all;
use lock_core::document::Document;
use lock_core::{
    Cell, ClientMark, Clock, Cursor, Error, Inspection, Key, Label, List, Listed, OwnerToken, Page,
};

use crate::core::Core;
use crate::decide::{Ask, Known, Reading, Refresh, end_all, ranges};
use crate::failure;
use crate::link::{Operation, Range, Transaction};
use crate::member::{Member, Stands};
use crate::naming;

/// How many leases one request looks at.
const LIVES: usize = 100;

/// For how many holders etcd is asked how long they have left.
const TIMES: usize = 100;

impl Core {
    /// The document of a key, with all that lives in it.
    pub(crate) async fn look(&self, key: &Key) -> Result<Document<Member>, Error> {
        let reading = Reading::new(vec![key], BTreeSet::new());
        let found = reading.read(&self.link, &self.names).await?;
        let known = found.known.into_iter().next().unwrap_or_default();
        let mut documents = self.living(vec![known]).await?;
        documents.pop().ok_or_else(|| failure::protocol("no document"))
    }

    /// These documents, with all that lives in them.
    async fn living(&self, known: Vec<Known>) -> Result<Vec<Document<Member>>, Error> {
        let whole = |known: &Known| decode(known, &BTreeSet::new());
        let all = known.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let members = |document: &Document<Member>| {
            let members = document.holders().chain(document.waiters());
            members.map(|(_, member)| member.life()).collect::<Vec<_>>()
        };
        let lives: BTreeSet<i64> = all.iter().flat_map(members).collect();
        let lives: Vec<i64> = lives.into_iter().collect();
        let mut over = BTreeSet::new();
        for part in lives.chunks(LIVES) {
            let reading = Reading::new(Vec::new(), part.iter().copied().collect());
            over.extend(reading.read(&self.link, &self.names).await?.over);
        }
        self.note_over(&over);
        known.iter().map(|known| decode(known, &over)).collect()
    }

    pub(crate) async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        // A request of this client about the key, which may be under way, comes before.
        let turn = self.turn(key).await;
        let document = self.look(key).await;
        drop(turn);
        Ok(document?.load(Clock::boot().now()))
    }

    pub(crate) async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        let mut document = self.look(key).await?;
        let labels = self.labels_of(marks(&document).collect()).await?;
        let times = self.times(&document).await;
        Ok(inspection(&mut document, &labels, &times))
    }

    /// How long the leases of the first holders have left, as far as etcd answers.
    async fn times(&self, document: &Document<Member>) -> HashMap<i64, Duration> {
        let ids = document.holders().filter_map(|(_, member)| member.lease()).take(TIMES);
        let asked = ids.map(async |id| Some((id, self.link.time_left(id).await.ok()??)));
        join_all(asked).await.into_iter().flatten().collect()
    }

    pub(crate) async fn list(&self, list: &List) -> Result<Page, Error> {
        let first = self.names.documents(&list.prefix, list.raw);
        let key = match &list.from {
            // The cursor is the last key of the page before. The next key comes after it and a zero byte.
            Some(cursor) => [cursor.as_bytes(), &[0]].concat(),
            None => first.clone(),
        };
        let range_end = naming::after(&first);
        let range = Range { key, range_end, limit: list.most.get().into(), keys_only: false };
        let success = vec![Operation::range(range)];
        let answer = self.link.transact(&Transaction { success, ..Transaction::default() }).await?;
        let range = ranges(answer.responses).into_iter().next();
        let range = range.ok_or_else(|| failure::protocol("no range"))?;
        let last = range.kvs.last().filter(|_| range.more);
        let next = last.map(|kv| Cursor::new(kv.key.as_slice()));
        let keys: Vec<_> = range.kvs.iter().map(|kv| self.names.key_of(&kv.key)).collect();
        let known =
            |kv: crate::link::KeyValue| Known { revision: kv.mod_revision, bytes: kv.value };
        let documents = self.living(range.kvs.into_iter().map(known).collect()).await?;
        let labels = self.labels_of(documents.iter().flat_map(marks).collect()).await?;
        let mut locks = Vec::new();
        for (key, mut document) in keys.into_iter().zip(documents) {
            let inspection = inspection(&mut document, &labels, &HashMap::new());
            if let Some(key) = key.filter(|_| inspection.holding + inspection.waiting > 0) {
                locks.push(Listed::new(key, inspection));
            }
        }
        Ok(Page::new(locks, next))
    }

    /// Ends every lease of a key. The leases of etcd end first, so that no former holder can renew when another claim
    /// holds the key.
    pub(crate) async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        let mut ended = BTreeSet::new();
        let mut owners: Option<HashSet<OwnerToken>> = None;
        loop {
            let document = self.look(key).await?;
            let owners =
                owners.get_or_insert_with(|| document.holders().map(|(owner, _)| owner).collect());
            let holders = document.holders().filter(|(owner, _)| owners.contains(owner));
            let live: BTreeSet<i64> = holders.filter_map(|(_, member)| member.lease()).collect();
            let revoked = join_all(live.iter().map(|id| self.link.revoke(*id))).await;
            revoked.into_iter().collect::<Result<(), _>>()?;
            live.iter().for_each(|id| self.leases.forget(*id));
            self.note_over(&live);
            ended.extend(live);
            let forced = self.decide(Ask::about(key), Refresh::Never, |_, document, visit| {
                end_all(document, owners, visit)
            });
            if let Some(others) = forced.await?.answer {
                return Ok(others + ended.len() as u64);
            }
        }
    }
}

/// A document without the parties whose leases are over.
fn decode(known: &Known, over: &BTreeSet<i64>) -> Result<Document<Member>, Error> {
    if known.bytes.is_empty() {
        return Ok(Document::default());
    }
    Document::decode(&known.bytes, Clock::boot().now(), |member: &Member, ttl| {
        (!over.contains(&member.life())).then(|| ttl.duration())
    })
}

/// The marks of the owners that an inspection shows.
fn marks(document: &Document<Member>) -> impl Iterator<Item = ClientMark> {
    let holders = document.holders().take(Inspection::MAX);
    let waiters = document.waiters().take(Inspection::MAX);
    holders.chain(waiters).map(|(owner, _)| owner.client())
}

fn inspection(
    document: &mut Document<Member>,
    labels: &HashMap<ClientMark, Label>,
    times: &HashMap<i64, Duration>,
) -> Inspection {
    let label = |owner: &lock_core::OwnerToken| labels.get(&owner.client()).cloned();
    let mut inspection = document.inspect(&label, Clock::boot().now());
    for (holder, (_, member)) in inspection.holders.iter_mut().zip(document.holders()) {
        if let (Some(remaining), Some(left)) = (&mut holder.remaining, times.get(&member.life())) {
            // etcd counts whole seconds.
            *remaining = (*remaining).min((*left).max(Duration::from_secs(1)));
        }
    }
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for (waiter, (_, member)) in inspection.waiters.iter_mut().zip(document.waiters()) {
        waiter.waited = match member.stands {
            Stands::Session { since, .. } => {
                Some(wall.saturating_sub(Duration::from_millis(since)))
            }
            Stands::Lease(_) => None,
        };
    }
    inspection
}
