//! A backend over any store that can compare and swap.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::codec::StoredParty;
use super::entry::Document;
use super::store::{DocumentStore, Row};
use super::visit::{Audience, Party, Visit};
use crate::{
    Acquire, AcquireOutcome, Backend, Capabilities, Cell, CellBackend, Claim, Clock, Committed,
    Convert, ConvertBackend, Convertible, Error, ErrorKind, FencingToken, Hint, InspectBackend,
    Inspection, Instant, JointBackend, Key, PermitBackend, Permits, Released, Renew, Renewal,
    Resize, Resized, Result, SharedBackend, Stored, Watch,
};

/// A backend over a [`DocumentStore`]: every mode of a lease, permits, values, and inspection.
///
/// Each verb reads the row of its key, decides by the [`Document`] in it, and swaps the row. It starts over if another
/// client was faster, so some client always advances. A verb that changes nothing writes nothing. Only the release of a
/// claim that holds nothing writes, because a request of this claim may still be on its way.
///
/// The store sends no messages. So it has no queue, and a watch [polls](Watch::polling): every release of a key becomes a
/// [`Hint::Released`], and so does every change of its value. Waiters get the key in no particular order.
///
/// Clones share the store.
///
/// # Examples
///
/// The [first backend](crate::Backend#a-first-backend) is a store with this backend over it.
pub struct DocumentBackend<S> {
    store: Arc<S>,
}

impl<S: DocumentStore> DocumentBackend<S> {
    /// The backend over this store.
    pub fn new(store: S) -> Self {
        Self { store: Arc::new(store) }
    }

    /// Reads, decides and swaps until no other client was faster.
    async fn step<T>(
        &self,
        key: &Key,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T + Send + Sync,
        is_written: impl Fn(&T) -> bool + Send + Sync,
    ) -> Result<T> {
        loop {
            let sent = self.clock().now();
            let Row { bytes, version, time } = self.store.read(key).await?;
            let mut entry = Entry::decode(bytes.as_deref(), time)?;
            let before = entry.encode();
            let answer = entry.decide(sent, time, &act);
            if entry.encode() == before && !is_written(&answer) {
                return Ok(answer);
            }
            entry.version += 1;
            if self.store.swap(key, &version, entry.encode()).await? {
                return Ok(answer);
            }
        }
    }

    /// A step that writes only what it changes.
    async fn change<T>(
        &self,
        key: &Key,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T + Send + Sync,
    ) -> Result<T> {
        self.step(key, act, |_| false).await
    }

    async fn news(&self, key: &Key) -> Result<u64> {
        let Row { bytes, time, .. } = self.store.read(key).await?;
        Ok(Entry::decode(bytes.as_deref(), time)?.news)
    }
}

impl<S> Clone for DocumentBackend<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store) }
    }
}

impl<S> fmt::Debug for DocumentBackend<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentBackend").finish_non_exhaustive()
    }
}

#[async_trait]
impl<S: DocumentStore> Backend for DocumentBackend<S> {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        self.change(&request.claim.key, |document, visit| document.acquire(request, visit)).await?
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let renewed =
            self.change(&request.claim.key, |document, visit| document.renew(request, visit));
        renewed.await.unwrap_or_else(Renewal::Unknown)
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        // A new version keeps a request of this claim out that is still on its way.
        let is_written = |released: &Released| *released == Released::NotHeld;
        self.step(&claim.key, |document, visit| document.release(claim, visit), is_written).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        let (looking, resting, key) = (self.clone(), self.clone(), key.clone());
        let first = self.news(&key).await?;
        let look = move || {
            let (backend, key) = (looking.clone(), key.clone());
            async move { backend.news(&key).await }
        };
        let rest = move || {
            let store = Arc::clone(&resting.store);
            async move { store.rest().await }
        };
        Ok(Watch::polling(first, look, rest))
    }

    fn clock(&self) -> Clock {
        self.store.clock()
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let all = Capabilities::none().sharing(self).joining(self).converting(self);
        all.counting(self).keeping(self).inspecting(self).without_queue()
    }
}

impl<S: DocumentStore> SharedBackend for DocumentBackend<S> {
    type Conversion = Convertible;
}

impl<S: DocumentStore> JointBackend for DocumentBackend<S> {}

#[async_trait]
impl<S: DocumentStore> ConvertBackend for DocumentBackend<S> {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome> {
        let key = &request.request.claim.key;
        self.change(key, |document, visit| document.convert(request, visit)).await?
    }
}

#[async_trait]
impl<S: DocumentStore> PermitBackend for DocumentBackend<S> {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits> {
        self.change(key, |document, visit| document.permits(of, visit)).await?
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized> {
        self.change(key, |document, visit| document.resize(of, change, visit)).await?
    }

    async fn forget(&self, claim: &Claim) -> Result<Released> {
        if !claim.mode.counts() {
            return Err(Error::new(ErrorKind::InvalidConfig, "only permits can be forgotten"));
        }
        let is_written = |answer: &Result<Released>| matches!(answer, Ok(Released::NotHeld));
        self.step(&claim.key, |document, visit| document.forget_permits(claim, visit), is_written)
            .await?
    }

    async fn close(&self, key: &Key, of: u32) -> Result<()> {
        self.change(key, |document, visit| document.close(of, visit)).await?
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool> {
        Permits::check_undeclaring(claim)?;
        self.change(&claim.key, |document, visit| document.undeclare(claim, visit.now)).await
    }
}

#[async_trait]
impl<S: DocumentStore> CellBackend for DocumentBackend<S> {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let Row { bytes, time, .. } = self.store.read(key).await?;
        Ok(Entry::decode(bytes.as_deref(), time)?.document.load(time))
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        Cell::check(claim, value)?;
        self.change(&claim.key, |document, visit| document.store(claim, token, value, visit)).await
    }

    async fn commit(&self, claim: &Claim, token: FencingToken, value: &[u8]) -> Result<Committed> {
        Cell::check(claim, Some(value))?;
        self.change(&claim.key, |document, visit| document.commit(claim, token, value, visit)).await
    }
}

#[async_trait]
impl<S: DocumentStore> InspectBackend for DocumentBackend<S> {
    async fn inspect(&self, key: &Key) -> Result<Inspection> {
        let Row { bytes, time, .. } = self.store.read(key).await?;
        Ok(Entry::decode(bytes.as_deref(), time)?.document.inspect(&|_| None, time))
    }

    async fn force_release(&self, key: &Key) -> Result<u64> {
        self.change(key, |document, visit| document.force_release(visit)).await
    }
}

/// A row as it is decided on.
struct Entry {
    /// Counts the rows of the key, so that no row ever comes back.
    version: u64,
    /// Counts what the watchers of the key are to hear.
    news: u64,
    document: Document<Lasting>,
}

impl Entry {
    fn decode(row: Option<&[u8]>, now: Instant) -> Result<Self> {
        let Some(row) = row else {
            return Ok(Self { version: 0, news: 0, document: Document::default() });
        };
        let ([version, news], bytes) = counters(row).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "the store has a row that is none of ours")
        })?;
        let left = |lasting: &Lasting, _| {
            Some(lasting.0.saturating_duration_since(now)).filter(|left| !left.is_zero())
        };
        Ok(Self { version, news, document: Document::decode(bytes, now, left)? })
    }

    /// Decides about a request that was sent at `sent` by the client's clock and arrives at `now` by the store's clock.
    fn decide<T>(
        &mut self,
        sent: Instant,
        now: Instant,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T,
    ) -> T {
        let (client, mut news) = (Lasting(now), News(false));
        let answer = act(&mut self.document, &mut Visit::new(&client, sent, now, &mut news));
        self.news += u64::from(news.0);
        answer
    }

    fn encode(&mut self) -> Vec<u8> {
        for lease in &mut self.document.leases.0 {
            lease.client = Lasting(lease.ends);
        }
        let counters = [self.version.to_be_bytes(), self.news.to_be_bytes()];
        [counters.as_flattened(), &self.document.encode()].concat()
    }
}

/// Takes the two counters from the front of a row.
fn counters(row: &[u8]) -> Option<([u64; 2], &[u8])> {
    let (version, rest) = row.split_first_chunk()?;
    let (news, bytes) = rest.split_first_chunk()?;
    Some(([*version, *news].map(u64::from_be_bytes), bytes))
}

/// The end of a lease on the store's clock. It stands in the row beside the lease, where other stores name a party.
#[derive(Clone, Copy, Debug)]
struct Lasting(Instant);

impl Party for Lasting {
    fn is(&self, _: &Self) -> bool {
        false
    }
}

impl StoredParty for Lasting {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.0.as_nanos().to_be_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let (nanos, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(Self(Instant::from_nanos(u64::from_be_bytes(*nanos))))
    }
}

/// An audience that no hint reaches. It notes whether there was a hint for the watchers, who find it by polling.
struct News(bool);

impl Audience<Lasting> for News {
    fn reach(&self, _: &Lasting) -> bool {
        false
    }

    fn tell(&mut self, _: &Lasting, _: Hint) {}

    fn tell_all(&mut self, _: &Lasting, _: Hint) -> u32 {
        self.0 = true;
        0
    }
}
