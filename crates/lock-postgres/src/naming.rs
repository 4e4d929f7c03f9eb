//! How keys, owners and modes are written in the database. Pure.

use lock_core::{Error, ErrorKind, Key, Mode, OwnerToken};

/// Names begin with this byte, and exact keys with the other one, so that they never meet.
const NAME: u8 = b'n';
const RAW: u8 = b'r';

/// The key as the column has it.
pub(crate) fn key(key: &Key) -> Vec<u8> {
    prefix(key.as_bytes(), key.is_as_is())
}

/// How the keys of names that begin so begin in the column.
pub(crate) fn prefix(name: &[u8], raw: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 1);
    bytes.push(if raw { RAW } else { NAME });
    bytes.extend_from_slice(name);
    bytes
}

/// The first bytes that come after all bytes with this prefix. The first byte is never 255.
pub(crate) fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut next = prefix[..=last].to_vec();
    next[last] += 1;
    Some(next)
}

/// The key that a column has.
pub(crate) fn key_of(column: &[u8]) -> Option<Key> {
    match column.split_first()? {
        (&NAME, name) => Key::new(name).ok(),
        (&RAW, key) => Key::raw(key).ok(),
        _ => None,
    }
}

pub(crate) fn owner(owner: &OwnerToken) -> String {
    String::from_utf8_lossy(owner.expose()).into_owned()
}

/// The owner token with these hexadecimal digits.
pub(crate) fn owner_of(digits: &str) -> Option<OwnerToken> {
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    let mut bytes = [0; 16];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(OwnerToken::from_bytes(bytes))
}

/// The mode as the column has it. A lease is named by its key, its owner and this text.
pub(crate) fn mode(mode: Mode) -> Result<String, Error> {
    Ok(match mode {
        Mode::Exclusive => "x".to_owned(),
        Mode::Shared => "s".to_owned(),
        Mode::Upgradable => "u".to_owned(),
        Mode::Permits { take, of } => format!("p:{take}:{of}"),
        Mode::Joint { group } => format!("j:{}", owner(&group)),
        _ => return Err(Error::new(ErrorKind::Unsupported, "this backend lacks such a mode")),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back() {
        for named in [Key::new("").unwrap(), Key::new(b"\0\xff").unwrap(), Key::raw("a").unwrap()] {
            assert_eq!(key_of(&key(&named)), Some(named));
        }
        assert_ne!(key(&Key::new("a").unwrap()), key(&Key::raw("a").unwrap()));
        assert_eq!(key_of(b""), None);
        assert_eq!(key_of(b"?"), None);
    }

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(after(b"na").unwrap(), b"nb");
        assert_eq!(after(b"n\xff\xff").unwrap(), b"o");
        assert_eq!(after(b"\xff"), None);
    }

    #[test]
    fn owners_come_back() {
        let token = OwnerToken::from_bytes(*b"\x00\x01\xfe\xff456789abcdef");
        assert_eq!(owner_of(&owner(&token)), Some(token));
        assert_eq!(owner_of("?"), None);
        assert_eq!(owner_of(&"é".repeat(16)), None);
    }

    #[test]
    fn modes_differ() {
        let group = OwnerToken::from_bytes([7; 16]);
        let modes = [
            Mode::Exclusive,
            Mode::Shared,
            Mode::Upgradable,
            Mode::Permits { take: 1, of: 12 },
            Mode::Permits { take: 11, of: 2 },
            Mode::Joint { group },
        ];
        let written: std::collections::HashSet<_> =
            modes.iter().map(|it| mode(*it).unwrap()).collect();
        assert_eq!(written.len(), modes.len());
    }
}
