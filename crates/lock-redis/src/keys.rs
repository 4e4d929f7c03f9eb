//! The keys of a lock in the store.
//!
//! ```text
//! lock:{orders/42}               the lock: a string that holds the owner's token
//! lock:{orders/42}:state         what the latest grant left behind, its tokens among it
//! lock:{orders/42}:queue         the claims that wait, in order
//! lock:{orders/42}:places        what each of them waits for
//! lock:{orders/42}:holders       the holders that share the lock, by the end of the lease
//! lock:{orders/42}:grants        what each of them was granted
//! lock:{orders/42}:limit         how many permits there are, of a semaphore
//! lock:{orders/42}:cell          the value beside the lock, if one was stored
//! lock:{orders/42}:released@0    the channel for releases and new values, in database 0
//! lock:inbox:0123456789abcdef    the channel on which one client hears of its grants; in a slot `lock:inbox:{tag}…`
//! lock:node@0                    the server's record of its standing, in database 0
//! lock:{%label}:0123456789       the label of a client
//! lock:data@0                    the record by which a server that lost its data is known, in database 0
//! lock:{123}:data                such a record for one slot of a cluster
//! ```
//!
//! The braces put all keys of a lock into one slot, and one ACL pattern, `~lock:*`, matches them all. Bytes
//! of a name that would interfere are percent-encoded.
//!
//! A key that is taken as it is keeps its exact bytes. Its satellites still live under the prefix, in the
//! slot of the key: `lock:{the part of the key that is hashed}:as-is:the key:state`. An exact key that is
//! the key of a named lock is that lock, with the satellites of the named lock. A [reserved](Layout::check)
//! key is no lock.

mod listed;
mod records;
mod reserved;

use std::fmt;

use lock_core::{ClientMark, Error, ErrorKind, Key};

pub(crate) use self::records::Records;
use crate::slot;

/// The ends of the keys beside every lock, in the order in which scripts expect the keys.
const SATELLITES: [&[u8]; 5] = [b":state", b":queue", b":places", b":holders", b":grants"];
/// The encoding of the empty name. No other name has this encoding: the two characters after `%` are no
/// digits.
const EMPTY: &[u8] = b"%empty";
/// How the keys of labels begin, after the prefix.
const LABELS: &[u8] = b"{%label}:";
const MAX_PREFIX: usize = 256;

/// How the state of a lock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keeping {
    /// How long the state outlives the lease, in milliseconds.
    pub(crate) retention: u64,
    /// When foreign clients get a turn.
    pub(crate) gap: Option<Gap>,
    /// Whether it names the term of the server.
    pub(crate) terms: bool,
    /// How long a value beside the lock is kept after it was written, in milliseconds; 0 for ever.
    pub(crate) values: u64,
}

/// When a lock is left to foreign clients although claims wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// After this many hand-overs.
    pub(crate) turns: u32,
    /// For this many milliseconds.
    pub(crate) pause: u64,
}

impl Keeping {
    #[cfg(test)]
    pub(crate) fn for_ms(retention: u64) -> Self {
        Self { retention, gap: None, terms: false, values: 0 }
    }

    /// Without a turn of foreign clients.
    pub(crate) fn gapless(self) -> Self {
        Self { gap: None, ..self }
    }

    /// Without the term: a vote knows by the record of its node what the node may have forgotten.
    pub(crate) fn termless(self) -> Self {
        Self { terms: false, ..self }
    }
}

/// In the notation of the scripts.
impl fmt::Display for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.retention)?;
        self.gap.map_or(Ok(()), |Gap { turns, pause }| write!(f, " {turns} {pause}"))
    }
}

/// How names become keys.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    prefix: Box<[u8]>,
    /// `:released@0`. It contains the database because channels, unlike keys, are common to all databases.
    released: Box<[u8]>,
    /// `__keyspace@0__:`
    keyspace: Box<[u8]>,
    keeping: Keeping,
    /// `lock:node@0`. It contains the database so that a database that was swapped for another is not
    /// mistaken for it.
    node: Box<[u8]>,
    /// `lock:data@0`
    data: Box<[u8]>,
}

impl Layout {
    pub(crate) fn new(prefix: &str, database: i64, keeping: Keeping) -> Result<Self, Error> {
        if prefix.contains(['{', '}']) {
            return Err(invalid(
                "a key prefix cannot contain braces: they would end up in another slot",
            ));
        }
        if prefix.len() > MAX_PREFIX {
            return Err(invalid("a key prefix cannot be longer than 256 bytes"));
        }
        Ok(Self {
            prefix: prefix.as_bytes().into(),
            released: format!(":released@{database}").into_bytes().into(),
            keyspace: format!("__keyspace@{database}__:").into_bytes().into(),
            keeping,
            node: format!("{prefix}node@{database}").into_bytes().into(),
            data: format!("{prefix}data@{database}").into_bytes().into(),
        })
    }

    /// Whether the states of locks name the term of the server.
    pub(crate) fn has_terms(&self) -> bool {
        self.keeping.terms
    }

    /// The channel of a client, named by these random bytes. The name has no braces, so no lock has it.
    pub(crate) fn inbox(&self, random: [u8; 8]) -> Vec<u8> {
        let id = u64::from_be_bytes(random);
        [&*self.prefix, format!("inbox:{id:016x}").as_bytes()].concat()
    }

    /// The key of the server's standing as a node of a quorum. It has no braces, so no lock has it, and it
    /// ends in a number, so no key with another prefix equals it.
    pub(crate) fn node(&self) -> &[u8] {
        &self.node
    }

    /// The key of the label of a client. No encoded name equals the tag in its braces, so no lock has this key; and
    /// all labels are in one slot, so that one request reads many.
    pub(crate) fn label(&self, client: ClientMark) -> Vec<u8> {
        [&*self.prefix, LABELS, client.digits()].concat()
    }

    /// The places that belong to a lock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if the key is [reserved](Self::check).
    pub(crate) fn names<'a>(&'a self, key: &'a Key) -> Result<Names<'a>, Error> {
        if !key.is_as_is() {
            return Ok(Names { layout: self, lock: None, stem: self.stem(key.as_bytes()) });
        }
        self.check(key)?;
        let lock = key.as_bytes();
        let stem = if self.is_named(lock) { lock.to_vec() } else { self.stem_beside(lock) };
        Ok(Names { layout: self, lock: Some(lock), stem })
    }

    /// `prefix{name}`
    fn stem(&self, name: &[u8]) -> Vec<u8> {
        let mut stem = Vec::with_capacity(self.prefix.len() + name.len() + 2);
        stem.extend_from_slice(&self.prefix);
        stem.push(b'{');
        if name.is_empty() {
            stem.extend_from_slice(EMPTY);
        } else {
            encode(name, &mut stem);
        }
        stem.push(b'}');
        stem
    }

    /// The stem of the satellites of an exact key.
    fn stem_beside(&self, lock: &[u8]) -> Vec<u8> {
        let hashed = slot::hashed_part(lock);
        let mut stem = self.prefix.to_vec();
        stem.push(b'{');
        if hashed.contains(&b'}') {
            // This brace would end the tag early. Any other text of this slot keeps the keys together.
            stem.extend_from_slice(slot::text_in(slot::slot(lock)).as_bytes());
        } else {
            stem.extend_from_slice(hashed);
        }
        stem.extend_from_slice(b"}:as-is:");
        encode(lock, &mut stem);
        stem
    }

    /// Whether an exact key is also the key of a named lock.
    fn is_named(&self, lock: &[u8]) -> bool {
        let inner = lock
            .strip_prefix(&*self.prefix)
            .and_then(|rest| rest.strip_prefix(b"{"))
            .and_then(|rest| rest.strip_suffix(b"}"));
        inner.is_some_and(|inner| {
            let name = if inner == EMPTY { Some(Vec::new()) } else { decode(inner) };
            name.is_some_and(|name| self.stem(&name) == lock)
        })
    }
}

/// The places that belong to one lock.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    layout: &'a Layout,
    /// The exact key, if it differs from the stem.
    lock: Option<&'a [u8]>,
    stem: Vec<u8>,
}

impl Names<'_> {
    /// The key of the lock itself.
    pub(crate) fn lock(&self) -> &[u8] {
        self.lock.unwrap_or(&self.stem)
    }

    /// The key of its state, in two pieces.
    pub(crate) fn state(&self) -> [&[u8]; 2] {
        [&self.stem, SATELLITES[0]]
    }

    /// How long the state outlives the lease, in milliseconds.
    pub(crate) fn retention(&self) -> u64 {
        self.layout.keeping.retention
    }

    /// How the state is kept. Only exact keys have foreign clients to leave a gap to.
    pub(crate) fn keeping(&self) -> Keeping {
        let Keeping { gap, .. } = self.layout.keeping;
        Keeping { gap: gap.filter(|_| self.lock.is_some()), ..self.layout.keeping }
    }

    /// How long a value beside the lock is kept after it was written, in milliseconds; 0 for ever.
    pub(crate) fn values_kept(&self) -> u64 {
        self.layout.keeping.values
    }

    /// Whether its state names the term of the server.
    pub(crate) fn has_terms(&self) -> bool {
        self.layout.keeping.terms
    }

    /// The keys beside it, each in two pieces, in the order in which scripts expect them.
    pub(crate) fn satellites(&self) -> [[&[u8]; 2]; 5] {
        SATELLITES.map(|satellite| [&*self.stem, satellite])
    }

    /// The key of the number of permits, in two pieces.
    pub(crate) fn limit(&self) -> [&[u8]; 2] {
        [&self.stem, b":limit"]
    }

    /// The key of the value beside the lock, in two pieces.
    pub(crate) fn cell(&self) -> [&[u8]; 2] {
        [&self.stem, b":cell"]
    }

    /// A key that belongs to no lock, in the slot of this one.
    pub(crate) fn marker(&self) -> Vec<u8> {
        let slot = slot::text_in(slot::slot(self.lock()));
        [&*self.layout.prefix, b"{", slot.as_bytes(), b"}:marker"].concat()
    }

    /// The channel for messages about releases and new values, in two pieces.
    pub(crate) fn released(&self) -> [&[u8]; 2] {
        [&self.stem, &self.layout.released]
    }

    /// The channel on which the server reports events of the lock's key, in two pieces.
    pub(crate) fn keyspace(&self) -> [&[u8]; 2] {
        [&self.layout.keyspace, self.lock()]
    }
}

fn encode(name: &[u8], to: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in name {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'{' | b'}') {
            to.push(byte);
        } else {
            let digits = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
            to.extend_from_slice(&[b'%', digits[0], digits[1]]);
        }
    }
}

fn decode(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter().copied();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8,
            plain => plain,
        });
    }
    Some(name)
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::slot::slot;

    const HOUR: u64 = 3_600_000;

    fn layout() -> Layout {
        Layout::new("lock:", 0, Keeping::for_ms(HOUR)).unwrap()
    }

    /// Lock, satellites and channel of a key.
    pub(super) fn places(layout: &Layout, key: &Key) -> Vec<Vec<u8>> {
        let names = layout.names(key).unwrap();
        let satellites = names.satellites().map(|satellite| satellite.concat());
        let mut places = vec![names.lock().to_vec()];
        places.extend(satellites);
        places.extend([names.limit().concat(), names.cell().concat()]);
        places.push(names.released().concat());
        places
    }

    fn text(key: Key) -> Vec<String> {
        let places = places(&layout(), &key).into_iter();
        places.map(|place| String::from_utf8(place).unwrap()).collect()
    }

    #[test]
    fn a_plain_name_stays_readable() {
        let places = text(Key::new("orders/42").unwrap());
        assert_eq!(
            places,
            [
                "lock:{orders/42}",
                "lock:{orders/42}:state",
                "lock:{orders/42}:queue",
                "lock:{orders/42}:places",
                "lock:{orders/42}:holders",
                "lock:{orders/42}:grants",
                "lock:{orders/42}:limit",
                "lock:{orders/42}:cell",
                "lock:{orders/42}:released@0"
            ]
        );
    }

    #[test]
    fn an_odd_name_is_encoded() {
        assert_eq!(text(Key::new("").unwrap())[0], "lock:{%empty}");
        assert_eq!(text(Key::new("%empty").unwrap())[0], "lock:{%25empty}");
        assert_eq!(text(Key::new(b"a b{}\0\xff").unwrap())[0], "lock:{a%20b%7B%7D%00%FF}");
    }

    #[test]
    fn an_exact_key_stays_exact() {
        let places = text(Key::raw("jobs:nightly").unwrap());
        assert_eq!(places[0], "jobs:nightly");
        assert_eq!(places[1], "lock:{jobs:nightly}:as-is:jobs:nightly:state");
    }

    #[test]
    fn an_exact_key_that_a_name_has_is_the_same_lock() {
        for name in [&b"orders/42"[..], b"", b"{\xff%"] {
            let named = Key::new(name).unwrap();
            let exact = Key::raw(layout().names(&named).unwrap().lock()).unwrap();
            assert_eq!(places(&layout(), &named), places(&layout(), &exact));
        }
        // No name has this encoding, so it is the key of no named lock.
        assert!(text(Key::raw("lock:{%61}").unwrap())[1].contains(":as-is:"));
    }

    #[test]
    fn the_keyspace_channel_carries_the_database() {
        let layout = Layout::new("lock:", 3, Keeping::for_ms(HOUR)).unwrap();
        let key = Key::new("a").unwrap();
        assert_eq!(layout.names(&key).unwrap().keyspace().concat(), b"__keyspace@3__:lock:{a}");
        assert_eq!(layout.names(&key).unwrap().released().concat(), b"lock:{a}:released@3");
    }

    #[test]
    fn an_inbox_is_under_the_prefix() {
        let inbox = layout().inbox([0xAB; 8]);
        assert_eq!(inbox, b"lock:inbox:abababababababab");
    }

    #[test]
    fn labels_are_under_the_prefix_and_beside_no_lock() {
        let label = layout().label(ClientMark::of_digits(b"0123456789").unwrap());
        assert_eq!(label, b"lock:{%label}:0123456789");
        assert_eq!(
            layout().names(&Key::raw(&label).unwrap()).unwrap_err().kind(),
            ErrorKind::InvalidKey
        );
        let beside = places(&layout(), &Key::raw("lock:{%label}").unwrap());
        assert!(!beside.contains(&label));
        assert!(!text(Key::new("%label").unwrap()).iter().any(|place| place.contains("{%label}")));
    }

    #[test]
    fn the_standing_of_a_server_is_under_the_prefix_and_tells_the_database() {
        assert_eq!(layout().node(), b"lock:node@0");
        assert_eq!(Layout::new("app/", 12, Keeping::for_ms(HOUR)).unwrap().node(), b"app/node@12");
    }

    #[test]
    fn a_prefix_that_would_move_the_slot_is_refused() {
        for bad in ["{app}:", "app}", &"x".repeat(257)] {
            assert_eq!(
                Layout::new(bad, 0, Keeping::for_ms(HOUR)).unwrap_err().kind(),
                ErrorKind::InvalidConfig
            );
        }
        assert!(Layout::new("", 0, Keeping::for_ms(HOUR)).is_ok());
    }

    /// Bytes with many braces, percent signs and other difficult characters.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            2 => prop::sample::select(b"{}%:0aAE\0\r\n ".to_vec()),
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..24)
    }

    pub(super) fn keys() -> impl Strategy<Value = Key> {
        prop_oneof![
            bytes().prop_map(|name| Key::new(name).unwrap()),
            bytes().prop_filter_map("an exact key is not empty", |key| Key::raw(key).ok()),
            bytes().prop_map(|name| {
                let exact = [b"lock:{", name.as_slice(), b"}"].concat();
                Key::raw(exact).unwrap()
            }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn all_places_of_a_lock_share_a_slot(key in keys()) {
            let places = places(&layout(), &key);
            prop_assert!(places.iter().all(|place| slot(place) == slot(&places[0])));
        }

        #[test]
        fn satellites_live_under_the_prefix(key in keys()) {
            let places = places(&layout(), &key);
            prop_assert!(places[1..].iter().all(|place| place.starts_with(b"lock:")));
            prop_assert!(key.is_as_is() || places[0].starts_with(b"lock:"));
        }

        #[test]
        fn locks_that_differ_share_nothing(one in keys(), other in keys()) {
            let (one, other) = (places(&layout(), &one), places(&layout(), &other));
            if one[0] == other[0] {
                prop_assert_eq!(one, other);
            } else {
                prop_assert!(one[1..].iter().all(|place| !other[1..].contains(place)));
            }
        }

        #[test]
        fn decoding_undoes_encoding(name in bytes()) {
            let mut encoded = Vec::new();
            encode(&name, &mut encoded);
            prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decode(&encoded), Some(name));
        }
    }
}
