//! Deeds with the values of stored mutexes, as words and back.

use std::fmt;

use super::words::Words;
use super::{Deed, Sight};

impl Deed {
    /// Writes a deed with the value of a stored mutex.
    pub(super) fn about_stored_values(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found { op, sight } => write!(f, "found {op} {sight}"),
            Self::Store { op, value, base } => write!(f, "store {op} {value} {base}"),
            Self::Stored { op, version } => write!(f, "stored {op} {}", version.get()),
            Self::Unstored { op, why, certain } => write!(f, "unstored {op} {why} {certain}"),
            Self::Peek { op, task, key } => write!(f, "peek {op} {task} {key}"),
            Self::Peeked { op, sight } => write!(f, "peeked {op} {sight}"),
            Self::Follow { op, task, key } => write!(f, "follow {op} {task} {key}"),
            Self::Heard { op, sight } => write!(f, "heard {op} {sight}"),
            Self::Unfollow { op } => write!(f, "unfollow {op}"),
            // Other deeds are written elsewhere.
            _ => Err(fmt::Error),
        }
    }

    /// Reads a deed with the value of a stored mutex.
    pub(super) fn read_about_stored_values(verb: &str, words: &mut Words<'_>) -> Result<Self, ()> {
        Ok(match verb {
            "found" => Self::Found { op: words.next()?, sight: words.sight()? },
            "store" => Self::Store { op: words.next()?, value: words.next()?, base: words.next()? },
            "stored" => Self::Stored { op: words.next()?, version: words.token()? },
            "unstored" => {
                Self::Unstored { op: words.next()?, why: words.next()?, certain: words.next()? }
            }
            "peek" => Self::Peek { op: words.next()?, task: words.next()?, key: words.next()? },
            "peeked" => Self::Peeked { op: words.next()?, sight: words.sight()? },
            "follow" => Self::Follow { op: words.next()?, task: words.next()?, key: words.next()? },
            "heard" => Self::Heard { op: words.next()?, sight: words.sight()? },
            "unfollow" => Self::Unfollow { op: words.next()? },
            _ => return Err(()),
        })
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}", version.get())?,
            None => f.write_str("nothing")?,
        }
        match self.value {
            Some(value) => write!(f, " {value}"),
            None => f.write_str(" nothing"),
        }
    }
}

impl Words<'_> {
    fn sight(&mut self) -> Result<Sight, ()> {
        let version = self.unless_nothing()?.map(lock_core::FencingToken::new);
        Ok(Sight { version, value: self.unless_nothing()? })
    }
}
