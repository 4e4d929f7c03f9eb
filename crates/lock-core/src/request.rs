//! The requests to a backend.

use std::num::NonZeroU32;

use crate::{Error, ErrorKind, Key, Mode, OwnerToken, Ttl};

/// The name of a lease in every verb: its key, its owner and its mode.
///
/// Equal claims name one lease.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Released, Renew, Renewal, Ttl};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let store = MemoryBackend::new();
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let AcquireOutcome::Granted(grant) = store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?
/// else {
///     unreachable!("the key is free")
/// };
/// let token = grant.tokens.nth(0).expect("a grant has a token at least");
/// println!("until {:?}, every write carries {token}", grant.valid_until);
///
/// let renewal = store.renew(&Renew::new(claim.clone(), Ttl::DEFAULT)).await;
/// assert!(matches!(renewal, Renewal::Renewed { .. }));
/// assert!(matches!(store.release(&claim).await?, Released::Freed { .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Claim {
    /// The lock.
    pub key: Key,
    /// The proof of ownership.
    pub owner: OwnerToken,
    /// How the key is held.
    pub mode: Mode,
}

impl Claim {
    /// A claim to hold `key` alone.
    pub fn exclusive(key: Key, owner: OwnerToken) -> Self {
        Self { key, owner, mode: Mode::Exclusive }
    }

    /// This claim in another mode.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_core::{Acquire, Claim, Key, Mode, OwnerToken, Renew, Ttl};
    ///
    /// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
    /// assert_eq!(claim.clone().in_mode(Mode::Shared).key, claim.key);
    ///
    /// let tokens = NonZeroU32::new(16).unwrap();
    /// let request = Acquire::new(claim.clone(), Ttl::DEFAULT).reserving(tokens).queued();
    /// assert!(request.queue && request.tokens == tokens);
    /// assert_eq!(Renew::new(claim, Ttl::DEFAULT).reserving(16).tokens, 16);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    #[must_use]
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// A request for a lease.
///
/// The [example](crate::Claim#examples) of a claim shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Acquire {
    /// The claim to grant.
    pub claim: Claim,
    /// How long the lease lives without renewal.
    pub ttl: Ttl,
    /// How many fencing tokens the grant should reserve: see [`TokenRange`](crate::TokenRange).
    /// A grant may bring fewer.
    pub tokens: NonZeroU32,
    /// Whether to join the queue of the store, if it has one, when the request is refused.
    pub queue: bool,
    /// Whether the grant should bring the value beside the lock: see [`Grant::value`](crate::Grant::value). A
    /// grant may come without it.
    pub value: bool,
}

impl Acquire {
    /// A request for one fencing token, not to be queued.
    pub fn new(claim: Claim, ttl: Ttl) -> Self {
        Self { claim, ttl, tokens: NonZeroU32::MIN, queue: false, value: false }
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

    /// Asks for the value beside the lock, together with the grant.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Key, OwnerToken, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let store = MemoryBackend::new();
    /// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
    /// let request = Acquire::new(claim, Ttl::DEFAULT).with_value();
    /// let AcquireOutcome::Granted(grant) = store.try_acquire(&request).await? else { unreachable!() };
    /// let value = grant.value.expect("this store brings it");
    /// assert_eq!(value.cell(), None, "no holder has stored a value yet");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_value(mut self) -> Self {
        self.value = true;
        self
    }
}

/// A request to convert a lease that is held: see [`ConvertBackend`](crate::ConvertBackend).
///
/// These conversions exist: [`Mode::Upgradable`] to [`Mode::Exclusive`], which is an *upgrade*, and any mode to
/// a [weaker](Mode::is_stronger_than) one, except to zero permits.
///
/// # Examples
///
/// ```
/// use lock_core::{Claim, Convert, ErrorKind, Key, Mode, OwnerToken, Ttl};
///
/// # fn main() -> lock_core::Result<()> {
/// let written = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?);
/// let downgrade = Convert::new(written.clone(), Mode::Shared, Ttl::DEFAULT);
/// assert_eq!(downgrade.request.claim.mode, Mode::Shared);
/// assert_eq!(downgrade.former(), written);
/// downgrade.check()?;
///
/// let read = written.in_mode(Mode::Shared);
/// let error = Convert::new(read, Mode::Exclusive, Ttl::DEFAULT).check().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidConfig);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Convert {
    /// The lease as it is to become. Only an upgrade uses the tokens and the queue.
    pub request: Acquire,
    /// The mode in which the owner holds the key now.
    pub from: Mode,
}

impl Convert {
    /// A request to convert the lease `held` to the mode `to`, not to be queued. The converted lease lives for
    /// `ttl`, or for the time that it has left if that is longer.
    pub fn new(held: Claim, to: Mode, ttl: Ttl) -> Self {
        let from = held.mode;
        Self { request: Acquire::new(held.in_mode(to), ttl), from }
    }

    /// Asks for a range of `tokens`.
    #[must_use]
    pub fn reserving(mut self, tokens: NonZeroU32) -> Self {
        self.request.tokens = tokens;
        self
    }

    /// Asks to be queued when refused.
    #[must_use]
    pub fn queued(mut self) -> Self {
        self.request.queue = true;
        self
    }

    /// The lease as it is held now.
    pub fn former(&self) -> Claim {
        self.request.claim.clone().in_mode(self.from)
    }

    /// Whether the lease is to become exclusive, which only the sole holder of a key is granted.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_core::{Claim, Convert, Key, Mode, OwnerToken, Ttl};
    ///
    /// let held = Claim::exclusive(Key::new("orders/42")?, OwnerToken::generate()?).in_mode(Mode::Upgradable);
    /// let upgrade = Convert::new(held, Mode::Exclusive, Ttl::DEFAULT).reserving(NonZeroU32::MIN).queued();
    /// assert!(upgrade.is_upgrade() && upgrade.request.queue);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn is_upgrade(&self) -> bool {
        self.request.claim.mode == Mode::Exclusive
    }

    /// Refuses a conversion that does not exist.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if no lease can be converted so.
    pub fn check(&self) -> Result<(), Error> {
        let (from, to) = (self.from, self.request.claim.mode);
        let message = match (from, to) {
            (Mode::Upgradable, Mode::Exclusive) => return Ok(()),
            (Mode::Permits { .. }, Mode::Permits { take: 0, .. }) => {
                "a lease cannot be converted to no permits: release it".to_owned()
            }
            // A repeated conversion: the lease has this many permits already.
            _ if from.is_stronger_than(to) || from.counts() && from == to => return Ok(()),
            (Mode::Permits { take: held, of }, Mode::Permits { take, of: same }) if of == same => {
                format!("a lease of {held} permits cannot be converted to {take}")
            }
            _ => format!("a lease cannot be converted from {from:?} to {to:?}"),
        };
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }
}

/// A request to renew a lease.
///
/// The [example](crate::Claim#examples) of a claim shows it.
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

    fn conversion(from: Mode, to: Mode) -> Convert {
        let owner = OwnerToken::from_bytes([7; 16]);
        let held = Claim::exclusive(Key::new("a").unwrap(), owner).in_mode(from);
        Convert::new(held, to, Ttl::DEFAULT)
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
                if conversion(from, to).check().is_ok() {
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
        assert!(conversion(permits(2, 4), permits(2, 4)).check().is_ok());
    }
}
