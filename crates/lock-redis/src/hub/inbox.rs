//! The messages of the scripts to one client.

use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use lock_core::{Cell, FencingToken, OwnerToken, TokenRange};

use super::channel::Channel;
use super::entering::Pushed;

/// The channel on which only one client listens, as claims name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inbox(pub(super) Channel);

impl Inbox {
    /// The number of digits that distinguish it from those of other clients.
    pub(super) const DIGITS: usize = 16;

    #[cfg(test)]
    pub(crate) fn new(channel: &[u8]) -> Self {
        Self(channel.into())
    }

    /// Its name in the scripts: the end of the name of the channel.
    pub(crate) fn id(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b':').next().unwrap_or_default()
    }
}

/// A message of a script to one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// A claim that waited was granted.
    Granted {
        owner: OwnerToken,
        tokens: TokenRange,
        pushed: Pushed,
        /// Whether other claims still wait.
        wanted: bool,
    },
    /// The value beside the lock of a claim, which is granted at this instant of the server's clock.
    Value { owner: OwnerToken, at: u64, cell: Cell },
    /// A claim waits for a lock that this client holds.
    Wanted,
    /// A waiting claim is the first in the queue, and its turn could come after this time.
    Next { owner: OwnerToken, after: Duration },
}

impl Message {
    /// Reads a message; the second part is the key of the lock.
    ///
    /// `None` for everything that is no message of our scripts.
    pub(super) fn read(payload: &[u8]) -> Option<(Self, &[u8])> {
        let mut words = payload.splitn(2, |byte| *byte == b' ');
        match words.next()? {
            b"wanted" => Some((Self::Wanted, words.next()?)),
            b"granted" => Self::read_grant(words.next()?),
            b"value" => Self::read_value(words.next()?),
            b"next" => {
                let mut words = words.next()?.splitn(3, |byte| *byte == b' ');
                let (owner, after) = (owner(words.next()?)?, number(words.next()?)?);
                let after = Duration::from_millis(after);
                Some((Self::Next { owner, after }, words.next()?))
            }
            _ => None,
        }
    }

    /// `owner first last lease micros wanted key`; the key may contain spaces.
    fn read_grant(text: &[u8]) -> Option<(Self, &[u8])> {
        let mut words = text.splitn(7, |byte| *byte == b' ');
        let owner = owner(words.next()?)?;
        let tokens = tokens(number(words.next()?)?, number(words.next()?)?)?;
        let lease = Duration::from_millis(number(words.next()?)?);
        let pushed = Pushed { lease, at: number(words.next()?)? };
        let wanted = match words.next()? {
            b"0" => false,
            b"1" => true,
            _ => return None,
        };
        Some((Self::Granted { owner, tokens, pushed, wanted }, words.next()?))
    }

    /// `owner micros token length key+value`; `length` is that of the key.
    fn read_value(text: &[u8]) -> Option<(Self, &[u8])> {
        let mut words = text.splitn(5, |byte| *byte == b' ');
        let (owner, at) = (owner(words.next()?)?, number(words.next()?)?);
        let (token, length) = (number(words.next()?)?, number(words.next()?)?);
        let (key, value) = words.next()?.split_at_checked(length)?;
        let cell = Cell::new(value.to_vec(), FencingToken::new(token), false);
        Some((Self::Value { owner, at, cell }, key))
    }
}

/// A range of tokens, if the numbers are one.
pub(crate) fn tokens(first: u64, last: u64) -> Option<TokenRange> {
    let count = u32::try_from(last.checked_sub(first)?.checked_add(1)?).ok()?;
    Some(TokenRange::new(FencingToken::new(first), NonZeroU32::new(count)?))
}

/// A number in decimal digits, and nothing else.
pub(crate) fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn owner(text: &[u8]) -> Option<OwnerToken> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 32] = text.try_into().ok()?;
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(OwnerToken::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::wire::garbage::{self, is_number};

    const GOOD: &str = "granted 000102030405060708090a0b0c0d0e0f 7 9 1000 1795000000000000 1 a b";

    #[test]
    fn what_scripts_say_is_understood() {
        let (message, key) = Message::read(GOOD.as_bytes()).unwrap();
        assert_eq!(key, b"a b");
        let Message::Granted { owner, tokens, pushed, wanted } = message else { panic!() };
        assert_eq!(owner.expose(), b"000102030405060708090a0b0c0d0e0f");
        assert_eq!((tokens.first().get(), tokens.last().get()), (7, 9));
        assert_eq!(pushed.at, 1_795_000_000_000_000);
        assert_eq!(pushed.lease, Duration::from_secs(1));
        assert!(wanted);
        assert_eq!(Message::read(b"wanted \xff "), Some((Message::Wanted, &b"\xff "[..])));
    }

    #[test]
    fn nonsense_is_not() {
        for bad in ["", "wanted", "granted", "granted ", "released", "Wanted a", "xwanted a"] {
            assert_eq!(Message::read(bad.as_bytes()), None, "{bad}");
        }
        let words: Vec<_> = GOOD.splitn(8, ' ').collect();
        for (index, bads) in [
            (
                1,
                &["", "00", "000102030405060708090A0B0C0D0E0F", "xx0102030405060708090a0b0c0d0e0f"]
                    [..],
            ),
            (2, &["", "-7", "+7", "7.0", "18446744073709551616", "10"]),
            (3, &["", "6", "x", "4294967303"]),
            (4, &["", "-1", "1e3", "18446744073709551616"]),
            (5, &["", " ", "-1", "18446744073709551616"]),
            (6, &["", "2", "01", "w"]),
        ] {
            for bad in bads {
                let mut words = words.clone();
                words[index] = bad;
                assert_eq!(Message::read(words.join(" ").as_bytes()), None, "{words:?}");
            }
        }
        // Cut short anywhere before the key.
        let end = GOOD.len() - words[7].len();
        for cut in 0..end {
            assert_eq!(Message::read(&GOOD.as_bytes()[..cut]), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(Message::read(&payload), None);
        }

        /// Only exact messages of a script are understood, wherever the bytes are damaged.
        #[test]
        fn a_message_is_read_to_the_letter_or_not_at_all(payload in messages()) {
            let read = Message::read(&payload);
            prop_assert_eq!(read.is_some(), is_message(&payload), "{}", payload.escape_ascii());
            if let Some((_, key)) = read {
                prop_assert!(payload.ends_with(key));
            }
        }
    }

    /// Messages that are whole, damaged, cut short, doubled, or made of parts of others.
    fn messages() -> impl Strategy<Value = Vec<u8>> {
        let kind = select(vec!["granted ", "next ", "wanted ", "granted", ""]);
        let parts =
            (kind, garbage::texts()).prop_map(|(kind, text)| [kind.as_bytes(), &text].concat());
        let good = select(vec![GOOD, "next 000102030405060708090a0b0c0d0e0f 300 a", "wanted a b"]);
        let harm = (good, any::<prop::sample::Index>(), any::<u8>(), 0..5u8).prop_map(
            |(good, at, byte, harm)| {
                let mut payload = good.as_bytes().to_vec();
                let at = at.index(payload.len());
                match harm {
                    0 => payload[at] = byte,
                    1 => payload.truncate(at),
                    2 => payload.extend_from_within(..),
                    3 => drop(payload.remove(at)),
                    _ => payload.insert(at, byte),
                }
                payload
            },
        );
        prop_oneof![parts, harm]
    }

    /// The grammar of messages, written a second time.
    fn is_message(payload: &[u8]) -> bool {
        let words: Vec<_> = payload.split(|byte| *byte == b' ').collect();
        let number =
            |word: &[u8]| std::str::from_utf8(word).is_ok_and(|it| is_number(it, u64::MAX));
        let value = |word: &[u8]| String::from_utf8_lossy(word).parse::<u128>().unwrap_or(0);
        let owner = |word: &[u8]| {
            word.len() == 32
                && word.iter().all(|it| it.is_ascii_hexdigit() && !it.is_ascii_uppercase())
        };
        match words.as_slice() {
            [b"wanted", _, ..] => true,
            [b"next", who, after, _, ..] => owner(who) && number(after),
            [b"granted", who, first, last, lease, micros, b"0" | b"1", _, ..] => {
                owner(who)
                    && [*first, *last, *lease, *micros].into_iter().all(number)
                    && value(first) <= value(last)
                    && value(last) - value(first) < u128::from(u32::MAX)
            }
            _ => false,
        }
    }
}
