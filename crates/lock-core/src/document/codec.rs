//! A document as bytes.

use std::num::NonZeroU32;
use std::time::Duration;

use super::entry::Document;
use super::fence::Fence;
use super::keeping::Kept;
use super::leases::Lease;
use super::queue::Slot;
use super::semaphore::Semaphore;
use super::visit::Party;
use crate::{
    Error, ErrorKind, FencingToken, Instant, Mode, OwnerToken, Permits, Result, TokenRange, Ttl,
};

/// The first byte of a document. A format that this version cannot read gets another first byte.
const VERSION: u8 = 1;

/// A party that can be written beside its leases and places.
///
/// See [`Document`](super::Document#examples) for an example.
pub trait StoredParty: Party {
    /// Appends the party to these bytes.
    fn write(&self, bytes: &mut Vec<u8>);

    /// Takes a party from the front of these bytes. `None` if there is none.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

impl<P: StoredParty> Document<P> {
    /// The document as bytes. The bytes do not say when leases and places end. The store knows which of them live.
    pub fn encode(&self) -> Vec<u8> {
        /// An estimate of the bytes of one lease or place, and of the bytes before the first of them, without the value.
        const PARTY: usize = 64;
        let parties = self.leases.as_slice().len() + self.queue.len();
        let value = self.kept.as_ref().map_or(0, |kept| kept.value.len());
        let mut bytes = Vec::with_capacity((1 + parties) * PARTY + value);
        bytes.push(VERSION);
        put_u64(&mut bytes, self.fence.last());
        match &self.semaphore {
            None => bytes.push(0),
            Some(semaphore) => write_semaphore(&mut bytes, semaphore),
        }
        match &self.kept {
            None => bytes.push(0),
            Some(kept) => {
                bytes.push(1);
                put_u64(&mut bytes, kept.token.get());
                put_owner(&mut bytes, kept.writer);
                put_len(&mut bytes, kept.value.len());
                bytes.extend(&kept.value);
            }
        }
        put_len(&mut bytes, self.leases.as_slice().len());
        for lease in self.leases.as_slice() {
            put_owner(&mut bytes, lease.owner);
            put_mode(&mut bytes, lease.mode);
            put_u64(&mut bytes, lease.tokens.first().get());
            put_u32(&mut bytes, lease.tokens.count().get());
            put_u64(&mut bytes, lease.ttl.as_millis());
            lease.client.write(&mut bytes);
        }
        put_len(&mut bytes, self.queue.len());
        for slot in self.queue.iter() {
            write_slot(&mut bytes, slot);
        }
        bytes
    }

    /// Reads a document from these bytes, with the leases and the places that live. For each of them, `left` returns
    /// how long it may still live, or `None` if it is over.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] if the bytes are not a document, or are a document of a later
    /// version.
    pub fn decode(
        bytes: &[u8],
        now: Instant,
        mut left: impl FnMut(&P, Ttl) -> Option<Duration>,
    ) -> Result<Self> {
        let mut bytes = bytes;
        let bad =
            || Error::new(ErrorKind::Protocol, "the store has a document that is none of ours");
        let document = read(&mut bytes, now, &mut left).ok_or_else(bad)?;
        if bytes.is_empty() { Ok(document) } else { Err(bad()) }
    }
}

fn read<P: StoredParty>(
    bytes: &mut &[u8],
    now: Instant,
    left: &mut dyn FnMut(&P, Ttl) -> Option<Duration>,
) -> Option<Document<P>> {
    if take_u8(bytes)? != VERSION {
        return None;
    }
    let mut document = Document { fence: Fence::at(take_u64(bytes)?), ..Document::default() };
    if take_u8(bytes)? == 1 {
        document.semaphore = Some(read_semaphore(bytes, now)?);
    }
    if take_u8(bytes)? == 1 {
        let (token, writer) = (FencingToken::new(take_u64(bytes)?), take_owner(bytes)?);
        let len = take_len(bytes)?;
        document.kept = Some(Kept { value: take(bytes, len)?.to_vec(), token, writer });
    }
    for _ in 0..take_len(bytes)? {
        let mut lease = read_lease(bytes, now)?;
        if let Some(left) = left(&lease.client, lease.ttl) {
            lease.ends = now + left;
            document.leases.add(lease);
        }
    }
    for _ in 0..take_len(bytes)? {
        let mut slot = read_slot(bytes, now)?;
        if let Some(left) = left(&slot.client, slot.ttl.for_place()) {
            slot.ends = now + left;
            document.queue.0.push_back(slot);
        }
    }
    Some(document)
}

fn write_semaphore(bytes: &mut Vec<u8>, semaphore: &Semaphore) {
    bytes.push(1);
    put_len(bytes, semaphore.declared().len());
    semaphore.declared().iter().for_each(|declared| put_u32(bytes, *declared));
    put_u32(bytes, semaphore.limit());
    bytes.push(semaphore.is_closed().into());
}

fn read_semaphore(bytes: &mut &[u8], now: Instant) -> Option<Semaphore> {
    let count = take_len(bytes)?;
    if count == 0 || count > Permits::DECLARATIONS {
        return None;
    }
    let declared = (0..count).map(|_| take_u32(bytes)).collect::<Option<Vec<_>>>()?;
    let (limit, closed) = (take_u32(bytes)?, take_u8(bytes)? == 1);
    Some(Semaphore::of(declared, limit, closed, now))
}

fn read_lease<P: StoredParty>(bytes: &mut &[u8], now: Instant) -> Option<Lease<P>> {
    let (owner, mode) = (take_owner(bytes)?, take_mode(bytes)?);
    let first = FencingToken::new(take_u64(bytes)?);
    let tokens = TokenRange::new(first, NonZeroU32::new(take_u32(bytes)?)?);
    Some(Lease { owner, mode, tokens, ttl: take_ttl(bytes)?, ends: now, client: P::read(bytes)? })
}

fn write_slot<P: StoredParty>(bytes: &mut Vec<u8>, slot: &Slot<P>) {
    put_owner(bytes, slot.owner);
    put_mode(bytes, slot.mode);
    match slot.from {
        None => bytes.push(0),
        Some(from) => {
            bytes.push(1);
            put_mode(bytes, from);
        }
    }
    put_u64(bytes, slot.ttl.as_millis());
    put_u32(bytes, slot.tokens.get());
    bytes.push(slot.value.into());
    slot.client.write(bytes);
}

fn read_slot<P: StoredParty>(bytes: &mut &[u8], now: Instant) -> Option<Slot<P>> {
    let (owner, mode) = (take_owner(bytes)?, take_mode(bytes)?);
    let from = if take_u8(bytes)? == 1 { Some(take_mode(bytes)?) } else { None };
    let (ttl, tokens) = (take_ttl(bytes)?, NonZeroU32::new(take_u32(bytes)?)?);
    let value = take_u8(bytes)? == 1;
    let (joined, client) = (None, P::read(bytes)?);
    Some(Slot { owner, mode, from, ttl, tokens, value, ends: now, joined, client })
}

fn put_u32(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_be_bytes());
}

fn put_u64(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_be_bytes());
}

/// Values and queues are bounded far below `u32::MAX`.
fn put_len(bytes: &mut Vec<u8>, len: usize) {
    put_u32(bytes, u32::try_from(len).unwrap_or(u32::MAX));
}

fn put_owner(bytes: &mut Vec<u8>, owner: OwnerToken) {
    bytes.extend(owner.bytes());
}

fn put_mode(bytes: &mut Vec<u8>, mode: Mode) {
    match mode {
        Mode::Exclusive => bytes.push(0),
        Mode::Shared => bytes.push(1),
        Mode::Upgradable => bytes.push(2),
        Mode::Permits { take, of } => {
            bytes.push(3);
            put_u32(bytes, take);
            put_u32(bytes, of);
        }
        Mode::Joint { group } => {
            bytes.push(4);
            put_owner(bytes, group);
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn take_u8(bytes: &mut &[u8]) -> Option<u8> {
    take(bytes, 1).map(|taken| taken[0])
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(take(bytes, 4)?.try_into().ok()?))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(take(bytes, 8)?.try_into().ok()?))
}

fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(take_u32(bytes)?).ok()
}

fn take_ttl(bytes: &mut &[u8]) -> Option<Ttl> {
    Ttl::new(Duration::from_millis(take_u64(bytes)?)).ok()
}

fn take_owner(bytes: &mut &[u8]) -> Option<OwnerToken> {
    Some(OwnerToken::from_bytes(take(bytes, 16)?.try_into().ok()?))
}

fn take_mode(bytes: &mut &[u8]) -> Option<Mode> {
    Some(match take_u8(bytes)? {
        0 => Mode::Exclusive,
        1 => Mode::Shared,
        2 => Mode::Upgradable,
        3 => Mode::Permits { take: take_u32(bytes)?, of: take_u32(bytes)? },
        4 => Mode::Joint { group: take_owner(bytes)? },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::document::{Audience, Visit};
    use crate::{Acquire, AcquireOutcome, Claim, Hint, Key};

    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Name(u64);

    impl Party for Name {
        fn is(&self, other: &Self) -> bool {
            self == other
        }
    }

    impl StoredParty for Name {
        fn write(&self, bytes: &mut Vec<u8>) {
            put_u64(bytes, self.0);
        }

        fn read(bytes: &mut &[u8]) -> Option<Self> {
            take_u64(bytes).map(Self)
        }
    }

    /// An audience in which every party lives. It keeps no hint.
    struct All;

    impl Audience<Name> for All {
        fn reach(&self, _: &Name) -> bool {
            true
        }

        fn tell(&mut self, _: &Name, _: Hint) {}

        fn tell_all(&mut self, _: &Name, _: Hint) -> u32 {
            0
        }
    }

    fn mode() -> impl Strategy<Value = Mode> {
        prop_oneof![
            Just(Mode::Exclusive),
            Just(Mode::Shared),
            Just(Mode::Upgradable),
            (1..5u32).prop_map(|take| Mode::Permits { take, of: 5 }),
            any::<[u8; 16]>().prop_map(|it| Mode::Joint { group: OwnerToken::from_bytes(it) }),
        ]
    }

    proptest! {
        #[test]
        fn a_document_is_read_as_it_was_written(
            requests in prop::collection::vec((any::<[u8; 16]>(), mode(), any::<u64>()), 0..12),
            value in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
            cut in any::<prop::sample::Index>(),
        ) {
            let now = Instant::from_nanos(1 << 40);
            let mut document = Document::default();
            for (owner, mode, party) in requests {
                let owner = OwnerToken::from_bytes(owner);
                let claim = Claim::exclusive(Key::new("a").unwrap(), owner).in_mode(mode);
                let request = Acquire::new(claim.clone(), Ttl::DEFAULT).queued();
                let (client, mut audience) = (Name(party), All);
                let mut visit = Visit::new(&client, now, now, &mut audience);
                let outcome = document.acquire(&request, &mut visit);
                if let (Ok(AcquireOutcome::Granted(grant)), Some(value)) = (outcome, &value) {
                    let _stored = document.store(&claim, grant.tokens.first(), Some(value), &mut visit);
                }
            }
            let bytes = document.encode();
            let again = Document::<Name>::decode(&bytes, now, |_, ttl| Some(ttl.duration())).unwrap();
            prop_assert_eq!(again.encode(), bytes.clone());
            prop_assert_eq!(again.leases.as_slice().len(), document.leases.as_slice().len());
            // Every lease and every place is over.
            let dead = Document::<Name>::decode(&bytes, now, |_, _| None).unwrap();
            prop_assert!(dead.leases.is_empty() && dead.queue.is_empty());
            // Neither a part of a document nor a longer text is a document.
            let part = &bytes[..cut.index(bytes.len())];
            prop_assert!(Document::<Name>::decode(part, now, |_, _| None).is_err());
            let more = [&bytes[..], &[0]].concat();
            prop_assert!(Document::<Name>::decode(&more, now, |_, _| None).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), version: bool) {
            let mut bytes = bytes;
            if let (true, Some(first)) = (version, bytes.first_mut()) {
                *first = VERSION;
            }
            let _either = Document::<Name>::decode(&bytes, Instant::from_nanos(0), |_, _| None);
        }
    }
}
