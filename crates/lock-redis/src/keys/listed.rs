//! The way back from keys in the store to the locks that they belong to.

use lock_core::Key;

use super::{Layout, decode, encode};

/// How the keys of named locks end that are held or waited for: the lock itself, and its queue.
const OF_NAMES: [&[u8]; 2] = [b"}", b"}:queue"];
/// How the keys beside exact keys end. The exact key itself may be anywhere, but its state is here.
const OF_EXACT_KEYS: [&[u8]; 2] = [b":state", b":queue"];

impl Layout {
    /// The pattern of all keys that show a lock whose name, or whose exact key, begins so.
    pub(crate) fn pattern(&self, prefix: &[u8], raw: bool) -> Vec<u8> {
        let mut begins = Vec::new();
        encode(prefix, &mut begins);
        let between: &[u8] = if raw { b"{*}:as-is:" } else { b"{" };
        [&*literally(&self.prefix), between, &literally(&begins), b"*"].concat()
    }

    /// How these keys end.
    pub(crate) fn endings(raw: bool) -> [&'static [u8]; 2] {
        if raw { OF_EXACT_KEYS } else { OF_NAMES }
    }

    /// The lock that such a key shows. `None` for a key that only looks like one.
    pub(crate) fn lock_at(&self, found: &[u8], raw: bool) -> Option<Key> {
        let rest = found.strip_prefix(&*self.prefix)?.strip_prefix(b"{")?;
        if !raw {
            let lock = found.strip_suffix(b":queue").unwrap_or(found);
            let inner = rest.strip_suffix(b":queue").unwrap_or(rest).strip_suffix(b"}")?;
            let name = if inner == super::EMPTY { Vec::new() } else { decode(inner)? };
            return Key::new(name).ok().filter(|key| self.stem(key.as_bytes()) == lock);
        }
        let close = rest.iter().position(|byte| *byte == b'}')?;
        let stem = OF_EXACT_KEYS.iter().find_map(|ending| found.strip_suffix(*ending))?;
        let key = rest[close..].strip_prefix(b"}:as-is:")?;
        let key = OF_EXACT_KEYS.iter().find_map(|ending| key.strip_suffix(*ending))?;
        let key = Key::raw(decode(key)?).ok()?;
        let is_its = self.names(&key).is_ok_and(|names| names.stem == stem);
        is_its.then_some(key)
    }
}

/// This text as a pattern that matches nothing else.
fn literally(text: &[u8]) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(text.len());
    for &byte in text {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'\\' | b'^') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::keys::tests::keys;
    use crate::keys::{Keeping, Layout};

    fn layout() -> Layout {
        Layout::new("lock:", 0, Keeping::for_ms(3_600_000)).unwrap()
    }

    #[test]
    fn a_pattern_takes_a_prefix_literally() {
        let text = |prefix: &[u8], raw| String::from_utf8(layout().pattern(prefix, raw)).unwrap();
        assert_eq!(text(b"", false), "lock:{*");
        assert_eq!(text(b"a*[b]?\\ ", false), r"lock:{a\*\[b\]\?\\%20*");
        assert_eq!(text(b"jobs:", true), "lock:{*}:as-is:jobs:*");
    }

    #[test]
    fn what_only_looks_like_a_lock_is_none() {
        for key in [
            "lock:{%61}",
            "lock:{a}:state",
            "lock:{%label}:0123456789",
            "lock:node@0",
            "x",
            "lock:{a",
        ] {
            assert_eq!(layout().lock_at(key.as_bytes(), false), None, "{key}");
        }
        for key in ["lock:{a}:state", "lock:{b}:as-is:a:state", "lock:{a}:as-is:a", "a"] {
            assert_eq!(layout().lock_at(key.as_bytes(), true), None, "{key}");
        }
    }

    proptest! {
        /// Each lock is found by one of the two ways, by its key or its state, and by its queue.
        #[test]
        fn every_lock_is_found(key in keys()) {
            let layout = layout();
            let names = layout.names(&key).unwrap();
            let [state, queue, ..] = names.satellites().map(|pieces| pieces.concat());
            let raw = state.windows(8).any(|part| part == b"}:as-is:") && names.lock() != names.stem;
            let first = if raw { state } else { names.lock().to_vec() };
            for found in [first, queue] {
                let lock = layout.lock_at(&found, raw).unwrap();
                let is = layout.names(&lock).unwrap();
                prop_assert_eq!(is.lock(), names.lock());
                prop_assert!(Layout::endings(raw).iter().any(|ending| found.ends_with(ending)));
            }
        }
    }
}
