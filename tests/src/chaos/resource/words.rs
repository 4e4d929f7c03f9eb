//! What a task says to the resource, a line each. A write is answered by `true` or `false`, going out by
//! `true`. Coming in is not answered: it is heard before anything that the task says afterwards.

use std::fmt;

use lock_core::{FencingToken, Instant};

use crate::chaos::history::Way;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Enter { key: String, way: Way, token: FencingToken, valid_until: Instant },
    Write { key: String, token: FencingToken },
    Leave { key: String },
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enter { key, way, token, valid_until } => {
                write!(f, "enter {key} {way} {} {}", token.get(), valid_until.as_nanos())
            }
            Self::Write { key, token } => write!(f, "write {key} {}", token.get()),
            Self::Leave { key } => write!(f, "leave {key}"),
        }
    }
}

impl Word {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        let token = |word: &str| word.parse().ok().map(FencingToken::new);
        Some(match words[..] {
            ["enter", key, way, number, nanos] => Self::Enter {
                key: key.to_owned(),
                way: way.parse().ok()?,
                token: token(number)?,
                valid_until: Instant::from_nanos(nanos.parse().ok()?),
            },
            ["write", key, number] => Self::Write { key: key.to_owned(), token: token(number)? },
            ["leave", key] => Self::Leave { key: key.to_owned() },
            _ => return None,
        })
    }
}
