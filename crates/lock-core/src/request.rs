//! What is asked of a backend.

use std::num::NonZeroU32;

use crate::{Error, ErrorKind, Key, Kind, OwnerToken, Ttl};

/// How many may hold a key at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// One holder, alone.
    Exclusive,
    /// Any number of holders, at most one of them [`Upgradable`](Self::Upgradable), and no exclusive
    /// one.
    Shared,
    /// As [`Shared`](Self::Shared), and the only one that may become exclusive without letting go.
    Upgradable,
    /// `take` of the `of` permits that the key has in all.
    Permits {
        /// How many permits this lease takes. It may be more than there are: such a request waits.
        take: u32,
        /// How many permits the key was declared to have: the same number in every request for it.
        /// It may be none, if others are to be [added](crate::PermitBackend::resize).
        of: u32,
    },
    /// Together with every other holder that names the same group, as one, and with nobody else.
    Joint {
        /// The secret that makes its holders one.
        group: OwnerToken,
    },
}

impl Mode {
    /// The mode without its secrets.
    pub fn kind(&self) -> Kind {
        match *self {
            Self::Exclusive => Kind::Exclusive,
            Self::Shared => Kind::Shared,
            Self::Upgradable => Kind::Upgradable,
            Self::Permits { take, .. } => Kind::Permits(take),
            Self::Joint { .. } => Kind::Joint,
        }
    }
}

/// One lease: which key, whose, and how held.
///
/// It names the lease in every verb. The same claim twice is the same lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: Key,
    /// The proof of ownership.
    pub owner: OwnerToken,
    /// How it is held.
    pub mode: Mode,
}

impl Claim {
    /// A claim to hold `key` alone.
    pub fn exclusive(key: Key, owner: OwnerToken) -> Self {
        Self { key, owner, mode: Mode::Exclusive }
    }

    /// The same claim in another mode.
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A request for a lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquire {
    /// What is to be held, and by whom.
    pub claim: Claim,
    /// How long the lease lives without renewal.
    pub ttl: Ttl,
    /// How many fencing tokens the grant should reserve: see [`TokenRange`](crate::TokenRange).
    /// A grant may bring fewer.
    pub tokens: NonZeroU32,
    /// Whether to join the queue of the store, if it has one, when the request is refused.
    pub queue: bool,
    /// The mode in which this owner holds the key already, if the lease is to be converted from it
    /// rather than granted beside it.
    pub from: Option<Mode>,
}

impl Acquire {
    /// A request for one fencing token, not to be queued.
    pub fn new(claim: Claim, ttl: Ttl) -> Self {
        Self { claim, ttl, tokens: NonZeroU32::MIN, queue: false, from: None }
    }

    /// Asks for a range of `tokens`.
    #[must_use]
    pub fn reserving(mut self, tokens: NonZeroU32) -> Self {
        self.tokens = tokens;
        self
    }

    /// Asks to be queued when refused.
    #[must_use]
    pub fn queued(mut self) -> Self {
        self.queue = true;
        self
    }

    /// Asks to convert the lease that this owner holds in mode `from`.
    ///
    /// Possible are [`Mode::Upgradable`] to [`Mode::Exclusive`], which waits for the other readers and
    /// goes before everybody in the queue, from each of [`Mode::Exclusive`] and [`Mode::Upgradable`] to a
    /// weaker one, and from [`Mode::Permits`] to fewer of the same, but at least one, which are granted at
    /// once. In between nobody else gets the key. Until it is granted, the lease in the former mode stays,
    /// and is renewed and released as such.
    ///
    /// An upgrade that waits in the queue gives up its place when it is released, or when it is repeated
    /// without [`queued`](Self::queued). The second way cannot end what was granted meanwhile: then the
    /// answer is the grant.
    #[must_use]
    pub fn converting(mut self, from: Mode) -> Self {
        self.from = Some(from);
        self
    }

    /// Refuses to convert a lease in a way in which none can be converted.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`].
    pub fn check_conversion(&self) -> Result<(), Error> {
        let Some(from) = self.from else { return Ok(()) };
        let to = self.claim.mode;
        let message = match (from, to) {
            (Mode::Exclusive, Mode::Shared | Mode::Upgradable)
            | (Mode::Upgradable, Mode::Shared | Mode::Exclusive) => return Ok(()),
            (Mode::Permits { take: held, of }, Mode::Permits { take, of: same }) if of == same => {
                match take {
                    0 => "a lease cannot be converted to no permits: release it".to_owned(),
                    _ if take <= held => return Ok(()),
                    _ => format!("a lease of {held} permits cannot be converted to {take}"),
                }
            }
            _ => format!("a lease cannot be converted from {from:?} to {to:?}"),
        };
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }
}

/// A request to renew a lease.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Renew {
    /// The lease.
    pub claim: Claim,
    /// How long it lives from now on.
    pub ttl: Ttl,
    /// How many further fencing tokens to reserve, if any. The renewal may bring fewer, or none.
    pub tokens: u32,
}

impl Renew {
    /// A request that reserves no tokens.
    pub fn new(claim: Claim, ttl: Ttl) -> Self {
        Self { claim, ttl, tokens: 0 }
    }

    /// Asks for a further range of `tokens`.
    #[must_use]
    pub fn reserving(mut self, tokens: u32) -> Self {
        self.tokens = tokens;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(mode: Mode) -> Acquire {
        let owner = OwnerToken::from_bytes([7; 16]);
        let claim = Claim::exclusive(Key::new("a").unwrap(), owner).in_mode(mode);
        Acquire::new(claim, Ttl::DEFAULT)
    }

    #[test]
    fn five_conversions_exist() {
        let permits = |take, of| Mode::Permits { take, of };
        let joint = Mode::Joint { group: OwnerToken::from_bytes([1; 16]) };
        let readers = [Mode::Exclusive, Mode::Shared, Mode::Upgradable, joint];
        let counted = [permits(0, 4), permits(2, 4), permits(3, 4), permits(2, 5)];
        let modes = readers.into_iter().chain(counted).collect::<Vec<_>>();
        let mut possible = Vec::new();
        for &from in &modes {
            for &to in modes.iter().filter(|to| **to != from) {
                if request(to).converting(from).check_conversion().is_ok() {
                    possible.push((from, to));
                }
            }
        }
        assert_eq!(
            possible,
            [
                (Mode::Exclusive, Mode::Shared),
                (Mode::Exclusive, Mode::Upgradable),
                (Mode::Upgradable, Mode::Exclusive),
                (Mode::Upgradable, Mode::Shared),
                (permits(3, 4), permits(2, 4)),
            ]
        );
        assert!(request(permits(2, 4)).converting(permits(2, 4)).check_conversion().is_ok());
    }
}
