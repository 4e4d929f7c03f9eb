//! Where the data of the locks are in etcd. Pure.

use lock_core::{ClientMark, Key, OwnerToken};

/// Names begin with this byte, and exact keys with the other one, so that they never meet.
const NAME: u8 = b'n';
const RAW: u8 = b'r';

/// The keys of all locks with one prefix.
///
/// | key | what it has |
/// | --- | --- |
/// | `<prefix>/s/<key>` | the document of a lock |
/// | `<prefix>/b/<key>` | its bell: each change is a hint for every client that watches the lock |
/// | `<prefix>/a/<lease>` | nothing: it exists as long as the lease of etcd does to which it is attached. Clients put news for the client of a session there |
/// | `<prefix>/l/<mark>` | the label of the clients with a mark |
/// | `<prefix>/w` | nothing: a client puts it before it looks for what dead holders have left. While it exists, no other client looks |
/// | `<prefix>/n/record` | the record of the node of a quorum |
/// | `<prefix>/n/timer` | the name of its quarantine: it exists until the time of the quarantine is over |
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: String) -> Self {
        Self { prefix }
    }

    fn of(&self, part: &str, rest: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), part.as_bytes(), rest].concat()
    }

    /// The key in etcd for this part of the lock with this name or, if `raw`, with this exact key.
    fn of_lock(&self, part: &str, name: &[u8], raw: bool) -> Vec<u8> {
        [self.prefix.as_bytes(), part.as_bytes(), &[tag(raw)], name].concat()
    }

    pub(crate) fn document(&self, key: &Key) -> Vec<u8> {
        self.of_lock("/s/", key.as_bytes(), key.is_as_is())
    }

    /// How all documents begin.
    pub(crate) fn all_documents(&self) -> Vec<u8> {
        self.of("/s/", b"")
    }

    /// How the documents of the locks begin whose names begin so.
    pub(crate) fn documents(&self, name: &[u8], raw: bool) -> Vec<u8> {
        self.of_lock("/s/", name, raw)
    }

    /// The lock that has its document here.
    pub(crate) fn key_of(&self, document: &[u8]) -> Option<Key> {
        key_of(document.strip_prefix(self.all_documents().as_slice())?)
    }

    pub(crate) fn bell(&self, key: &Key) -> Vec<u8> {
        self.of_lock("/b/", key.as_bytes(), key.is_as_is())
    }

    pub(crate) fn alive(&self, lease: i64) -> Vec<u8> {
        self.of("/a/", format!("{lease:016x}").as_bytes())
    }

    pub(crate) fn label(&self, mark: &ClientMark) -> Vec<u8> {
        self.of("/l/", mark.digits())
    }

    pub(crate) fn sweep(&self) -> Vec<u8> {
        self.of("/w", b"")
    }

    pub(crate) fn record(&self) -> Vec<u8> {
        self.of("/n/", b"record")
    }

    pub(crate) fn timer(&self) -> Vec<u8> {
        self.of("/n/", b"timer")
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// A key with the byte that tells names from exact keys.
pub(crate) fn tagged(name: &[u8], raw: bool) -> Vec<u8> {
    [&[tag(raw)], name].concat()
}

fn tag(raw: bool) -> u8 {
    if raw { RAW } else { NAME }
}

pub(crate) fn key_of(tagged: &[u8]) -> Option<Key> {
    match tagged.split_first()? {
        (&NAME, name) => Key::new(name).ok(),
        (&RAW, key) => Key::raw(key).ok(),
        _ => None,
    }
}

/// The first key that comes after all keys with this prefix. Empty if there is none.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let Some(last) = prefix.iter().rposition(|byte| *byte < u8::MAX) else { return Vec::new() };
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    next
}

/// The owner token with these hexadecimal digits.
pub(crate) fn owner_of(digits: &[u8]) -> Option<OwnerToken> {
    let digits = std::str::from_utf8(digits).ok()?;
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(OwnerToken::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Names {
        Names::new("a/b".to_owned())
    }

    fn key(bytes: &[u8], raw: bool) -> Key {
        if raw { Key::raw(bytes).unwrap() } else { Key::new(bytes).unwrap() }
    }

    #[test]
    fn keys_are_readable() {
        let show = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let apples = Key::new("stock/apples").unwrap();
        assert_eq!(show(names().document(&apples)), "a/b/s/nstock/apples");
        assert_eq!(show(names().bell(&Key::raw("x").unwrap())), "a/b/b/rx");
        assert_eq!(show(names().alive(255)), "a/b/a/00000000000000ff");
        assert_eq!(names().key_of(b"a/b/b/rx"), None);
        assert_eq!(names().key_of(b"a/b/s/?"), None);
        assert_eq!(names().key_of(b"a/b/s/"), None);
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(after(b"na"), b"nb");
        assert_eq!(after(b"n\xff\xff"), b"o");
        assert_eq!(after(b"\xff"), b"");
    }

    #[test]
    fn owners_come_back() {
        let token = OwnerToken::from_bytes(*b"\x00\x01\xfe\xff456789abcdef");
        assert_eq!(owner_of(token.expose()), Some(token));
        assert_eq!(owner_of(b"?"), None);
        assert_eq!(owner_of("é".repeat(16).as_bytes()), None);
        assert_eq!(owner_of(&[b'+'; 32]), None);
    }

    proptest! {
        #[test]
        fn each_lock_has_a_document_of_its_own(
            one in prop::collection::vec(any::<u8>(), 1..8),
            other in prop::collection::vec(any::<u8>(), 1..8),
            raw: bool,
            other_raw: bool,
        ) {
            let (first, second) = (key(&one, raw), key(&other, other_raw));
            let (document, another) = (names().document(&first), names().document(&second));
            prop_assert_eq!(document == another, first == second);
            prop_assert_eq!(names().key_of(&document), Some(first.clone()));
            // A list of names by their first bytes is a range of documents.
            let begin = names().documents(&other, other_raw);
            let is_in = document >= begin && document < after(&begin);
            prop_assert_eq!(is_in, first.as_bytes().starts_with(&other) && raw == other_raw);
        }
    }
}
