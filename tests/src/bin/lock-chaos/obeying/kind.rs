//! What kind of lock an order means, and how it is to be held.

use lock_sync::Owner;

/// The words of an order after the name.
#[derive(Debug)]
pub(crate) enum Kind {
    Mutex,
    Read,
    Write,
    Upgradable,
    /// So many permits of how many.
    Permits(u32, u32),
    /// In the name of this owner.
    As(Owner),
}

impl Kind {
    /// `None` if the words mean nothing.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        Some(match words {
            [] => Self::Mutex,
            ["read"] => Self::Read,
            ["write"] => Self::Write,
            ["upgradable"] => Self::Upgradable,
            ["permits", count, of] => Self::Permits(count.parse().ok()?, of.parse().ok()?),
            ["as", owner] => Self::As(Owner::parse(owner).ok()?),
            _ => return None,
        })
    }
}

/// The key that a name means: what comes before `#`.
pub(crate) fn key_of(name: &str) -> &str {
    name.split_once('#').map_or(name, |(key, _)| key)
}
