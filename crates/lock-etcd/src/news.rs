//! What one client tells another one. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    Cell, Contention, FencingToken, Grant, Hint, Instant, Key, LoadedValue, OwnerToken, TokenRange,
};

use crate::member::{Member, take};
use crate::naming;

/// A hint about a lock, as it is written for the client of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) key: Key,
    pub(crate) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A claim got the key in its place with this number; `None` for a conversion.
    Granted {
        owner: OwnerToken,
        number: Option<u32>,
        pushed: Pushed,
    },
    Next {
        owner: OwnerToken,
        after: Duration,
    },
    Contended,
    Expired,
}

/// A grant without its deadline, which only the client of the grant can know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    tokens: TokenRange,
    contention: Contention,
    value: Option<LoadedValue>,
}

impl Pushed {
    /// The grant, with this deadline.
    pub(crate) fn until(self, valid_until: Instant) -> Grant {
        let grant = Grant::new(self.tokens, valid_until).with_contention(self.contention);
        match self.value {
            Some(value) => grant.bringing(value),
            None => grant,
        }
    }
}

impl What {
    /// What a hint of a document says to this party. `None` if it is not meant for one client, or says nothing of use.
    pub(crate) fn of(hint: Hint, party: &Member) -> Option<Self> {
        Some(match hint {
            Hint::Granted { owner, grant: Some(grant) } => {
                let Grant { tokens, contention, value, .. } = grant;
                let pushed = Pushed { tokens, contention, value };
                Self::Granted { owner, number: party.number(), pushed }
            }
            Hint::Next { owner, after } => Self::Next { owner, after },
            Hint::Contended => Self::Contended,
            Hint::Expired => Self::Expired,
            _ => return None,
        })
    }
}

/// What the bell of a lock says to every client that watches the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bell {
    pub(crate) released: bool,
    pub(crate) changed: bool,
}

impl Bell {
    /// Notes a hint that is meant for every client.
    pub(crate) fn note(&mut self, hint: &Hint) {
        match hint {
            Hint::Released => self.released = true,
            Hint::Changed => self.changed = true,
            _ => {}
        }
    }

    pub(crate) fn rings(self) -> bool {
        self.released || self.changed
    }

    pub(crate) fn write(self) -> Vec<u8> {
        let sounds = [(self.changed, b'c'), (self.released, b'r')];
        sounds.into_iter().filter(|(rings, _)| *rings).map(|(_, sound)| sound).collect()
    }
}

/// The hints of a bell.
pub(crate) fn rung(bytes: &[u8]) -> Vec<Hint> {
    let hint = |sound: &u8| match sound {
        b'r' => Some(Hint::Released),
        b'c' => Some(Hint::Changed),
        _ => None,
    };
    bytes.iter().filter_map(hint).collect()
}

/// All news for one client, as bytes.
pub(crate) fn write<'a>(news: impl IntoIterator<Item = &'a News>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for News { key, what } in news {
        let key = naming::tagged(key.as_bytes(), key.is_as_is());
        put_bytes(&mut bytes, &key);
        match what {
            What::Granted { owner, number, pushed } => {
                bytes.push(b'g');
                bytes.extend(owner.expose());
                bytes.push(number.is_some().into());
                bytes.extend(number.unwrap_or_default().to_be_bytes());
                write_pushed(&mut bytes, pushed);
            }
            What::Next { owner, after } => {
                bytes.push(b'n');
                bytes.extend(owner.expose());
                let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                bytes.extend(millis.to_be_bytes());
            }
            What::Contended => bytes.push(b'c'),
            What::Expired => bytes.push(b'e'),
        }
    }
    bytes
}

/// Leaves the first of these news in place, as far as there is room for them, and returns the others. Takes the room.
pub(crate) fn split(news: &mut Vec<News>, room: &mut usize) -> Vec<News> {
    let mut fits = |piece: &News| match room.checked_sub(write([piece]).len()) {
        Some(left) => {
            *room = left;
            true
        }
        None => false,
    };
    let count = news.iter().take_while(|piece| fits(piece)).count();
    news.split_off(count)
}

fn write_pushed(bytes: &mut Vec<u8>, pushed: &Pushed) {
    bytes.extend(pushed.tokens.first().get().to_be_bytes());
    bytes.extend(pushed.tokens.count().get().to_be_bytes());
    bytes.push(match pushed.contention {
        Contention::Quiet => b'q',
        Contention::Contended => b'c',
        _ => b'?',
    });
    match pushed.value.as_ref().map(LoadedValue::cell) {
        None => bytes.push(0),
        Some(None) => bytes.push(1),
        Some(Some(cell)) => {
            bytes.push(2);
            bytes.extend(cell.token.get().to_be_bytes());
            bytes.push(cell.held.into());
            put_bytes(bytes, &cell.value);
        }
    }
}

/// The news that these bytes are. What follows a piece that is not understood is left out.
pub(crate) fn read(mut bytes: &[u8]) -> Vec<News> {
    let mut news = Vec::new();
    while let Some(piece) = read_one(&mut bytes) {
        news.push(piece);
    }
    news
}

fn read_one(bytes: &mut &[u8]) -> Option<News> {
    let key = naming::key_of(take_bytes(bytes)?)?;
    let what = match take::<1>(bytes)? {
        [b'g'] => {
            let (owner, is_place) = (read_owner(bytes)?, take::<1>(bytes)? == [1]);
            let number = Some(u32::from_be_bytes(take(bytes)?)).filter(|_| is_place);
            What::Granted { owner, number, pushed: read_pushed(bytes)? }
        }
        [b'n'] => {
            let owner = read_owner(bytes)?;
            What::Next { owner, after: Duration::from_millis(u64::from_be_bytes(take(bytes)?)) }
        }
        [b'c'] => What::Contended,
        [b'e'] => What::Expired,
        _ => return None,
    };
    Some(News { key, what })
}

fn read_owner(bytes: &mut &[u8]) -> Option<OwnerToken> {
    naming::owner_of(&take::<32>(bytes)?)
}

fn read_pushed(bytes: &mut &[u8]) -> Option<Pushed> {
    let first = FencingToken::new(u64::from_be_bytes(take(bytes)?));
    let count = NonZeroU32::new(u32::from_be_bytes(take(bytes)?))?;
    let contention = match take::<1>(bytes)? {
        [b'q'] => Contention::Quiet,
        [b'c'] => Contention::Contended,
        _ => Contention::Unknown,
    };
    let value = match take::<1>(bytes)? {
        [0] => None,
        [1] => Some(LoadedValue::new(None)),
        [2] => {
            let token = FencingToken::new(u64::from_be_bytes(take(bytes)?));
            let held = take::<1>(bytes)? == [1];
            let value = take_bytes(bytes)?.to_vec();
            Some(LoadedValue::new(Some(Cell::new(value, token, held))))
        }
        _ => return None,
    };
    Some(Pushed { tokens: TokenRange::new(first, count), contention, value })
}

/// Values and keys are bounded far below this.
fn put_bytes(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(part);
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(u32::from_be_bytes(take(bytes)?)).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::member::Stands;

    fn what() -> impl Strategy<Value = What> {
        let owner = || any::<[u8; 16]>().prop_map(OwnerToken::from_bytes);
        let value = prop::option::of(prop::option::of((
            prop::collection::vec(any::<u8>(), 0..40),
            any::<u64>(),
            any::<bool>(),
        )));
        let place = (owner(), prop::option::of(any::<u32>()));
        let granted = (place, any::<u64>(), 1..9u32, 0..3, value).prop_map(
            |((owner, number), first, count, contention, value)| {
                let count = NonZeroU32::new(count).unwrap();
                let first = FencingToken::new(first >> 1);
                let value = value.map(|cell| {
                    LoadedValue::new(cell.map(|(value, token, held)| {
                        Cell::new(value, FencingToken::new(token), held)
                    }))
                });
                let contention = [Contention::Quiet, Contention::Contended, Contention::Unknown]
                    [usize::try_from(contention).unwrap()];
                let tokens = TokenRange::new(first, count);
                What::Granted { owner, number, pushed: Pushed { tokens, contention, value } }
            },
        );
        prop_oneof![
            granted,
            (owner(), 0..u64::MAX / 2).prop_map(|(owner, after)| {
                What::Next { owner, after: Duration::from_millis(after) }
            }),
            Just(What::Contended),
            Just(What::Expired),
        ]
    }

    fn news() -> impl Strategy<Value = News> {
        (prop::collection::vec(any::<u8>(), 1..20), any::<bool>(), what()).prop_map(
            |(key, raw, what)| {
                let key = if raw { Key::raw(key).unwrap() } else { Key::new(key).unwrap() };
                News { key, what }
            },
        )
    }

    proptest! {
        #[test]
        fn news_come_back(
            pieces in prop::collection::vec(news(), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let bytes = write(&pieces);
            prop_assert_eq!(read(&bytes), pieces.clone());
            // A part of it is the first pieces.
            let part = if bytes.is_empty() { &bytes[..] } else { &bytes[..cut.index(bytes.len())] };
            prop_assert!(pieces.starts_with(&read(part)));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _any = read(&bytes);
        }
    }

    #[test]
    fn news_are_split_where_the_room_ends() {
        let key = Key::new("a").unwrap();
        let news = |count| vec![News { key: key.clone(), what: What::Contended }; count];
        let len = write(&news(1)).len();
        let (mut first, mut room) = (news(5), 3 * len + 1);
        assert_eq!((split(&mut first, &mut room).len(), first.len(), room), (2, 3, 1));
        assert_eq!((split(&mut first, &mut room).len(), first.len()), (3, 0));
        assert_eq!(split(&mut first, &mut room), []);
    }

    #[test]
    fn a_bell_says_what_it_is_rung_for() {
        let mut bell = Bell::default();
        assert!(!bell.rings() && bell.write().is_empty());
        for (hint, hints) in [
            (Hint::Contended, vec![]),
            (Hint::Released, vec![Hint::Released]),
            (Hint::Changed, vec![Hint::Changed, Hint::Released]),
        ] {
            bell.note(&hint);
            assert_eq!(rung(&bell.write()), hints);
        }
        assert_eq!(rung(b"?"), []);
    }

    #[test]
    fn a_grant_gets_its_deadline_from_the_client_that_hears_of_it() {
        let tokens = TokenRange::single(FencingToken::new(7));
        let grant = |until| {
            Grant::new(tokens, until)
                .with_contention(Contention::Quiet)
                .bringing(LoadedValue::new(None))
        };
        let owner = OwnerToken::from_bytes([1; 16]);
        let hint = Hint::Granted { owner, grant: Some(grant(Instant::from_nanos(1))) };
        let place = Stands::Session { number: 3, since: 0 };
        let party = Member { session: 5, stands: place };
        let Some(What::Granted { pushed, number, .. }) = What::of(hint, &party) else {
            panic!("a grant")
        };
        assert_eq!(number, Some(3));
        let until = Instant::from_nanos(9);
        assert_eq!(pushed.until(until), grant(until));
        assert_eq!(What::of(Hint::Released, &party), None);
    }
}
