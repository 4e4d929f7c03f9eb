//! Keys that cannot be the key of a lock.

use lock_core::{Error, ErrorKind, Key};

use super::{LABELS, Layout};

/// The ends of the keys beside a lock, in this version, in earlier ones and in later ones.
const ENDINGS: [&[u8]; 12] = [
    b"fence", b"state", b"queue", b"slots", b"places", b"holders", b"grants", b"limit", b"cell",
    b"value", b"marker", b"data",
];

impl Layout {
    /// Checks that a key can be the key of a lock. An exact key cannot be one that this library keeps beside
    /// another lock, or for itself: taking that key would destroy its content.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidKey`] if it cannot.
    pub(super) fn check(&self, key: &Key) -> Result<(), Error> {
        let why = if key.is_as_is() { self.reserved_for(key.as_bytes()) } else { None };
        match why {
            None => Ok(()),
            Some(why) => {
                let message = format!("a key that is taken as it is cannot be {why}");
                Err(Error::new(ErrorKind::InvalidKey, message))
            }
        }
    }

    /// What this library uses an exact key for, if it does.
    fn reserved_for(&self, lock: &[u8]) -> Option<&'static str> {
        let rest = lock.strip_prefix(&*self.prefix)?;
        if rest.starts_with(b"inbox:") {
            Some("the channel of a client")
        } else if rest.strip_prefix(b"node@").is_some_and(is_number) {
            Some("the record of a server's standing")
        } else if rest.strip_prefix(b"data@").is_some_and(is_number) {
            Some("the record of a server's data")
        } else if rest.strip_prefix(LABELS).is_some_and(|client| !client.starts_with(b"as-is:")) {
            Some("the label of a client")
        } else if is_beside_a_lock(rest) {
            Some("what belongs to another lock: it ends as that does")
        } else {
            None
        }
    }
}

/// Whether this, after the prefix, makes a key or a channel that belongs to a lock: `{name}:fence`, or
/// `{part}:as-is:key:fence`.
fn is_beside_a_lock(rest: &[u8]) -> bool {
    let Some(inner) = rest.strip_prefix(b"{") else { return false };
    let Some(close) = inner.iter().position(|byte| *byte == b'}') else { return false };
    let Some(tail) = inner[close + 1..].strip_prefix(b":") else { return false };
    let Some(tail) = tail.strip_prefix(b"as-is:") else { return is_ending(tail) };
    let colon = tail.iter().rposition(|byte| *byte == b':');
    colon.is_some_and(|colon| is_ending(&tail[colon + 1..]))
}

fn is_ending(tail: &[u8]) -> bool {
    ENDINGS.contains(&tail) || tail.strip_prefix(b"released@").is_some_and(is_number)
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::keys::Keeping;
    use crate::keys::tests::{keys, places};

    fn layout() -> Layout {
        Layout::new("lock:", 0, Keeping::for_ms(3_600_000)).unwrap()
    }

    fn exact(key: impl AsRef<[u8]>) -> Result<(), Error> {
        layout().check(&Key::raw(key).unwrap())
    }

    #[test]
    fn what_belongs_to_another_lock_is_no_lock() {
        for ending in ENDINGS {
            let ending = String::from_utf8_lossy(ending);
            for stem in ["lock:{x}", "lock:{}", "lock:{jobs}:as-is:jobs", "lock:{7}:as-is:%7D:a"] {
                let error = exact(format!("{stem}:{ending}")).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidKey);
                assert!(error.to_string().contains("belongs to another lock"), "{error}");
            }
        }
        for channel in ["lock:{x}:released@0", "lock:{jobs}:as-is:jobs:released@12"] {
            assert!(exact(channel).is_err(), "{channel}");
        }
    }

    #[test]
    fn what_this_library_keeps_for_itself_is_no_lock() {
        let inbox = layout().inbox([0xAB; 8]);
        for key in [&b"lock:node@0"[..], b"lock:node@12", b"lock:data@0", b"lock:inbox:", &inbox] {
            let error = exact(key).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidKey);
        }
    }

    #[test]
    fn other_keys_are_locks() {
        for key in [
            "mylock",
            "orders:42",
            "orders:{42}:fence",
            "node@0",
            "lock:",
            "lock:foo",
            "lock:foo:fence",
            "lock:node",
            "lock:node@",
            "lock:node@x",
            "lock:inbox",
            "lock:{x}",
            "lock:{%61}",
            "lock:{x:fence",
            "lock:{x}fence",
            "lock:{x}:",
            "lock:{x}:mine",
            "lock:{x}:fences",
            "lock:{x}:my:fence",
            "lock:{x}:as-is:fence",
            "lock:{x}:released@",
            "lock:{jobs:fence}",
        ] {
            assert!(exact(key).is_ok(), "{key}");
        }
        // A name may be any bytes: it is encoded between braces.
        for name in ["lock:{x}:fence", "lock:node@0", "lock:inbox:a", "fence"] {
            assert!(layout().check(&Key::new(name).unwrap()).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_prefix_decides() {
        let check = |prefix: &str, key: &str| {
            Layout::new(prefix, 0, Keeping::for_ms(3_600_000))
                .unwrap()
                .check(&Key::raw(key).unwrap())
                .is_ok()
        };
        assert!(!check("app/", "app/{x}:fence") && check("app/", "lock:{x}:fence"));
        assert!(!check("", "{x}:fence") && !check("", "node@0") && check("", "mylock"));
    }

    /// Keys of which many are nearly reserved.
    fn near() -> impl Strategy<Value = Vec<u8>> {
        let piece = select(vec![
            "lock:",
            "{",
            "}",
            ":",
            "as-is:",
            "fence",
            "value",
            "node@",
            "inbox:",
            "released@",
            "0",
            "x",
            "%7D",
        ]);
        prop::collection::vec(piece, 1..9).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// Every key beside a lock is refused, and the lock itself is not.
        #[test]
        fn of_all_places_of_a_lock_the_lock_alone_can_be_taken(key in keys(), database in 0..20i64) {
            let layout = Layout::new("lock:", database, Keeping::for_ms(3_600_000)).unwrap();
            prop_assume!(layout.check(&key).is_ok());
            let places = places(&layout, &key);
            prop_assert!(exact(&places[0]).is_ok());
            for place in &places[1..] {
                prop_assert!(exact(place).is_err(), "{}", place.escape_ascii());
            }
            prop_assert!(exact(layout.node()).is_err());
        }

        /// A refused key is under the prefix, and is no named lock.
        #[test]
        fn what_is_refused_is_no_lock_that_has_a_name(key in near(), name in near()) {
            let layout = layout();
            if exact(&key).is_err() {
                prop_assert!(key.starts_with(b"lock:") && !layout.is_named(&key));
            }
            let named = Key::new(name).unwrap();
            prop_assert!(layout.check(&named).is_ok());
            prop_assert!(exact(layout.names(&named).unwrap().lock()).is_ok());
        }
    }
}
