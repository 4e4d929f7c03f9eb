//! The kind of lock in a command, and the way to hold it.

use lock_sync::PassedOwner;

/// The words of a command after the name.
#[derive(Debug)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    Upgradable,
    /// This many permits, of how many.
    Permits(u32, u32),
    /// As this owner.
    As(PassedOwner),
}

impl Kind {
    /// `None` if the words make no sense.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        Some(match words {
            [] => Self::Mutex,
            ["read"] => Self::Read,
            ["write"] => Self::Write,
            ["upgradable"] => Self::Upgradable,
            ["permits", count, of] => Self::Permits(count.parse().ok()?, of.parse().ok()?),
            ["as", owner] => Self::As(owner.parse().ok()?),
            _ => return None,
        })
    }
}

/// The key of a name: the part before `#`.
pub(crate) fn key_of(name: &str) -> &str {
    name.split_once('#').map_or(name, |(key, _)| key)
}
