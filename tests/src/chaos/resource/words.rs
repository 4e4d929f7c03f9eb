//! The messages of a task to the resource, a line each. A write is answered by `true` or `false`,
//! leaving by `true`. Entering is not answered: the resource reads it before every later message of the
//! task.

use std::fmt;

use lock_core::{FencingToken, Instant};

use super::desk::Guest;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Enter {
        key: String,
        guest: Guest,
    },
    Write {
        key: String,
        token: FencingToken,
    },
    Leave {
        key: String,
    },
    /// The task was dropped, and is no longer inside anywhere. Not answered.
    Bye,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter { key, guest: Guest { way, of, token, valid_until } } => {
                // There is no semaphore without permits.
                let (of, token, nanos) = (of.unwrap_or(0), token.get(), valid_until.as_nanos());
                write!(f, "enter {key} {way} {of} {token} {nanos}")
            }
            Self::Write { key, token } => write!(f, "write {key} {}", token.get()),
            Self::Leave { key } => write!(f, "leave {key}"),
            Self::Bye => f.write_str("bye"),
        }
    }
}

impl Word {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let token = |word: &str| word.parse().ok().map(FencingToken::new);
        Some(match words[..] {
            ["enter", key, way, of, number, nanos] => Self::Enter {
                key: key.to_owned(),
                guest: Guest {
                    way: way.parse().ok()?,
                    of: Some(of.parse().ok()?).filter(|of| *of > 0),
                    token: token(number)?,
                    valid_until: Instant::from_nanos(nanos.parse().ok()?),
                },
            },
            ["write", key, number] => Self::Write { key: key.to_owned(), token: token(number)? },
            ["leave", key] => Self::Leave { key: key.to_owned() },
            ["bye"] => Self::Bye,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::history::Way;

    #[test]
    fn every_word_is_read_as_it_was_written() {
        let (token, valid_until) = (FencingToken::new(7), Instant::from_nanos(u64::MAX));
        let guest = |way, of| Guest { way, of, token, valid_until };
        let key = || "it".to_owned();
        for word in [
            Word::Enter { key: key(), guest: guest(Way::Write, None) },
            Word::Enter { key: key(), guest: guest(Way::Permits(2), Some(3)) },
            Word::Write { key: key(), token },
            Word::Leave { key: key() },
            Word::Bye,
        ] {
            assert_eq!(Word::parse(&word.to_string()), Some(word));
        }
        assert_eq!(Word::parse(""), None);
        assert_eq!(Word::parse("enter it wri"), None);
    }
}
