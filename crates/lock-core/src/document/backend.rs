//! A backend over any store that can compare and swap.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::codec::StoredParty;
use super::entry::Document;
use super::store::{DocumentStore, Row};
use super::visit::{Audience, Party, Visit};
use crate::{
    Acquire, AcquireOutcome, Backend, Capabilities, Cell, CellBackend, Claim, Clock, Committed,
    Convert, ConvertBackend, Convertible, Error, ErrorKind, FencingToken, Hint, InspectBackend,
    Inspection, Instant, JointBackend, Key, Limits, Mode, OwnerToken, PermitBackend, Permits,
    Released, Renew, Renewal, Resize, Resized, Result, SharedBackend, Stored, Watch,
};

/// How many swaps of one request may fail. So many clients in a row were faster, or the store never writes.
const MOST_SWAPS: u32 = 100;

/// After so many swaps that failed, a request rests before each further swap.
const QUICK_SWAPS: u32 = 3;

/// A backend over a [`DocumentStore`]: every mode of a lease, permits, values, and inspection.
///
/// Each verb reads the row of its key, decides by the [`Document`] in it, and swaps the row. It starts over if another
/// client was faster, and rests after a few such attempts. After a hundred attempts it ends with
/// [`ErrorKind::NotReady`]: then it has written nothing. A refused request writes nothing, and neither does a look.
///
/// The store sends no messages. So it has no queue, and a watch [polls](Watch::polling): each change of a key that may
/// let another claim in becomes a [`Hint::Released`], and so does each change of its value. Waiters get the key in no
/// particular order.
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

    /// Reads, decides and swaps until no other client was faster. Writes what has changed. It also writes if `is_written`:
    /// the new version refuses a swap of this client that may still be on its way.
    async fn step<T>(
        &self,
        key: &Key,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T + Send + Sync,
        is_written: impl Fn(&T) -> bool + Send + Sync,
    ) -> Result<T> {
        for tries in 0..MOST_SWAPS {
            if tries > QUICK_SWAPS {
                self.store.rest().await;
            }
            let sent = self.clock().now();
            let Row { bytes, version, time } = self.store.read(key).await?;
            let mut entry = Entry::decode(bytes.as_deref(), time)?;
            let before = entry.encode();
            let answer = entry.decide(sent, time, &act);
            if entry.encode() == before && !is_written(&answer) {
                return Ok(answer);
            }
            (entry.version, entry.written) = (entry.version + 1, time);
            if self.store.swap(key, &version, entry.encode()).await? {
                return Ok(answer);
            }
        }
        Err(Error::new(ErrorKind::NotReady, "other clients change the key all the time"))
    }

    /// A step that writes only what it changes.
    async fn change<T>(
        &self,
        key: &Key,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T + Send + Sync,
    ) -> Result<T> {
        self.step(key, act, |_| false).await
    }

    /// A step that may grant a lease. A grant is written even if the row has it already.
    async fn attempt(
        &self,
        key: &Key,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> Result<AcquireOutcome>
        + Send
        + Sync,
    ) -> Result<AcquireOutcome> {
        self.step(key, act, |it| matches!(it, Ok(AcquireOutcome::Granted(_)))).await?
    }

    /// The row of a key, as it is.
    async fn look(&self, key: &Key) -> Result<(Entry, Instant)> {
        let Row { bytes, time, .. } = self.store.read(key).await?;
        Ok((Entry::decode(bytes.as_deref(), time)?, time))
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
        self.attempt(&request.claim.key, |document, visit| document.acquire(request, visit)).await
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        let claim = &request.claim;
        let renew = |document: &mut Document<Lasting>, visit: &mut Visit<'_, Lasting>| {
            let left = document.left(claim, visit.now);
            (document.renew(request, visit), visit.sent + left)
        };
        let is_written = |(it, _): &(Renewal, _)| matches!(it, Renewal::Renewed { .. });
        match self.step(&claim.key, renew, is_written).await {
            // The lease may have been over when the swap arrived.
            Ok((Renewal::Renewed { .. }, end)) if end <= self.clock().now() => {
                self.release(claim).await.map_or_else(Renewal::Unknown, |_| Renewal::Lost)
            }
            Ok((renewal, _)) => renewal,
            Err(error) => Renewal::Unknown(error),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let is_written = |released: &Released| *released == Released::NotHeld;
        self.step(&claim.key, |document, visit| document.release(claim, visit), is_written).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        let (backend, store, key) = (self.clone(), Arc::clone(&self.store), key.clone());
        let (first, _) = self.look(&key).await?;
        let look = move || {
            let (backend, key) = (backend.clone(), key.clone());
            async move { Ok(backend.look(&key).await?.0.news) }
        };
        let rest = move || {
            let store = Arc::clone(&store);
            async move { store.rest().await }
        };
        Ok(Watch::polling(first.news, look, rest))
    }

    fn limits(&self) -> Limits {
        self.store.limits()
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
        self.attempt(key, |document, visit| document.convert(request, visit)).await
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
        let (mut entry, now) = self.look(key).await?;
        Ok(entry.document.load(now))
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
        let (mut entry, now) = self.look(key).await?;
        Ok(entry.document.inspect(&|_| None, now))
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
    /// When the row was written, by the store's clock.
    written: Instant,
    document: Document<Lasting>,
}

impl Entry {
    fn decode(row: Option<&[u8]>, now: Instant) -> Result<Self> {
        let Some(row) = row else {
            return Ok(Self { version: 0, news: 0, written: now, document: Document::default() });
        };
        let ([version, news, written], bytes) = header(row).ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "the store has a row that is none of ours")
        })?;
        let left = |lasting: &Lasting, _| {
            Some(lasting.0.saturating_duration_since(now)).filter(|left| !left.is_zero())
        };
        let mut document = Document::decode(bytes, now, left)?;
        let written = Instant::from_nanos(written);
        if let Some(semaphore) = &mut document.semaphore {
            let ends = document.leases.as_slice().iter().map(|lease| lease.ends);
            semaphore.was_used(ends.fold(written, Instant::max));
        }
        Ok(Self { version, news, written, document })
    }

    /// Decides about a request that was sent at `sent` by the client's clock and arrives at `now` by the store's clock.
    fn decide<T>(
        &mut self,
        sent: Instant,
        now: Instant,
        act: impl Fn(&mut Document<Lasting>, &mut Visit<'_, Lasting>) -> T,
    ) -> T {
        let leases = self.document.leases.as_slice().iter();
        let before: Vec<_> = leases.map(|lease| (lease.owner, lease.mode)).collect();
        let (client, mut news) = (Lasting(now), News(false));
        let answer = act(&mut self.document, &mut Visit::new(&client, sent, now, &mut news));
        // A document sends no hint to a claim that may have room, because elsewhere such a claim has a place.
        let leases = self.document.leases.as_slice();
        let is_as_strong = |(owner, mode): &(OwnerToken, Mode)| {
            let is_it = |now: Mode| now == *mode || now.is_stronger_than(*mode);
            leases.iter().any(|lease| lease.owner == *owner && is_it(lease.mode))
        };
        let makes_room = !before.iter().all(is_as_strong);
        self.news += u64::from(news.0 || makes_room);
        answer
    }

    fn encode(&mut self) -> Vec<u8> {
        for lease in &mut self.document.leases.0 {
            lease.client = Lasting(lease.ends);
        }
        let header = [self.version, self.news, self.written.as_nanos()].map(u64::to_be_bytes);
        [header.as_flattened(), &self.document.encode()].concat()
    }
}

impl Document<Lasting> {
    /// How long the lease of this claim still lives.
    fn left(&mut self, claim: &Claim, now: Instant) -> Duration {
        let lease = self.leases.find(claim.owner, claim.mode);
        lease.map_or(Duration::ZERO, |lease| lease.ends.saturating_duration_since(now))
    }
}

/// Takes the three numbers from the front of a row.
fn header(row: &[u8]) -> Option<([u64; 3], &[u8])> {
    let (version, rest) = row.split_first_chunk()?;
    let (news, rest) = rest.split_first_chunk()?;
    let (written, bytes) = rest.split_first_chunk()?;
    Some(([*version, *news, *written].map(u64::from_be_bytes), bytes))
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
