//! What the store keeps about one key.

use super::fence::{Fence, Micros};
use super::watchers::Watchers;
use crate::{Acquire, Attempt, Claim, Error, ErrorKind, Grant, Instant, Mode, OwnerToken};
use crate::{TokenRange, Ttl};

/// One key: who holds it, the counter of its tokens, and who wants to hear about it.
#[derive(Debug, Default)]
pub(super) struct Entry {
    leases: Vec<Lease>,
    fence: Fence,
    pub(super) watchers: Watchers,
}

/// One holder. Owner and mode together name it, as they do in a [`Claim`].
#[derive(Debug)]
struct Lease {
    owner: OwnerToken,
    mode: Mode,
    tokens: TokenRange,
    ttl: Ttl,
    ends: Instant,
}

impl Entry {
    /// Grants the request, or says when that may become possible.
    ///
    /// `sent` is when the client sent it, `now` when it arrived.
    pub(super) fn acquire(
        &mut self,
        request: &Acquire,
        sent: Instant,
        now: Instant,
    ) -> Result<Attempt, Error> {
        let mode = request.claim.mode;
        check(mode)?;
        self.drop_expired(now);
        if let Some(lease) = self.find(&request.claim) {
            return Ok(Attempt::Granted(lease.grant(sent, now)));
        }
        if let Some(at) = self.free_for(mode)? {
            return Ok(Attempt::Busy { retry_after: Some(at.saturating_duration_since(now)) });
        }
        let lease = Lease {
            owner: request.claim.owner,
            mode,
            tokens: self.fence.reserve(request.tokens, Micros::now()),
            ttl: request.ttl,
            ends: now + request.ttl.duration(),
        };
        let grant = lease.grant(sent, now);
        self.leases.push(lease);
        Ok(Attempt::Granted(grant))
    }

    /// Moves the end of a lease; whether there was one to move.
    pub(super) fn renew(&mut self, claim: &Claim, ttl: Ttl, now: Instant) -> bool {
        self.drop_expired(now);
        let Some(lease) = self.find(claim) else { return false };
        lease.ttl = ttl;
        lease.ends = now + ttl.duration();
        true
    }

    /// Ends a lease; whether there was one to end.
    pub(super) fn release(&mut self, claim: &Claim, now: Instant) -> bool {
        self.drop_expired(now);
        let before = self.leases.len();
        self.leases.retain(|lease| !lease.is_of(claim));
        self.leases.len() < before
    }

    pub(super) fn forget_leases(&mut self) {
        self.leases.clear();
    }

    pub(super) fn live_leases(&self, now: Instant) -> usize {
        self.leases.iter().filter(|lease| lease.ends > now).count()
    }

    /// Whether nothing would be lost with this entry.
    pub(super) fn is_idle(&mut self, now: Instant, micros: Micros) -> bool {
        self.drop_expired(now);
        self.leases.is_empty() && self.watchers.is_empty() && self.fence.is_at_rest(micros)
    }

    fn drop_expired(&mut self, now: Instant) {
        self.leases.retain(|lease| lease.ends > now);
    }

    fn find(&mut self, claim: &Claim) -> Option<&mut Lease> {
        self.leases.iter_mut().find(|lease| lease.is_of(claim))
    }

    /// `None` if the mode is free now, else when it will be if nobody renews or releases.
    fn free_for(&self, mode: Mode) -> Result<Option<Instant>, Error> {
        match mode {
            Mode::Exclusive => Ok(self.last_end()),
            Mode::Shared | Mode::Upgradable => {
                let admits = |lease: &Lease| match lease.mode {
                    Mode::Shared => true,
                    Mode::Upgradable => mode == Mode::Shared,
                    Mode::Exclusive | Mode::Permits { .. } => false,
                };
                Ok(if self.leases.iter().all(admits) { None } else { self.last_end() })
            }
            Mode::Permits { take, of } => self.free_for_permits(take, of),
        }
    }

    fn free_for_permits(&self, take: u32, of: u32) -> Result<Option<Instant>, Error> {
        let mut holders = Vec::with_capacity(self.leases.len());
        for lease in &self.leases {
            match lease.mode {
                Mode::Permits { take, of: known } if known == of => {
                    holders.push((lease.ends, u64::from(take)));
                }
                Mode::Permits { of: known, .. } => return Err(limits_differ(of, known)),
                // A key that is held as another kind of lock is busy until that one ends.
                Mode::Exclusive | Mode::Shared | Mode::Upgradable => return Ok(self.last_end()),
            }
        }
        let held: u64 = holders.iter().map(|&(_, take)| take).sum();
        let mut missing = (held + u64::from(take)).saturating_sub(of.into());
        if missing == 0 {
            return Ok(None);
        }
        holders.sort_unstable_by_key(|&(ends, _)| ends);
        let enough = holders.into_iter().find(|&(_, freed)| {
            missing = missing.saturating_sub(freed);
            missing == 0
        });
        Ok(enough.map(|(ends, _)| ends).or_else(|| self.last_end()))
    }

    fn last_end(&self) -> Option<Instant> {
        self.leases.iter().map(|lease| lease.ends).max()
    }
}

impl Lease {
    fn is_of(&self, claim: &Claim) -> bool {
        self.owner == claim.owner && self.mode == claim.mode
    }

    /// The grant as its owner may rely on it: what is left of the lease counts from `sent`, which
    /// is not later than `now`, so that the owner's deadline comes before the store's.
    fn grant(&self, sent: Instant, now: Instant) -> Grant {
        let left = self.ends.saturating_duration_since(now);
        Grant::new(self.tokens, sent + left.saturating_sub(self.ttl.drift()))
    }
}

fn check(mode: Mode) -> Result<(), Error> {
    match mode {
        Mode::Permits { take, of } if take > of => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("{take} permits were asked for, but there are only {of}"),
        )),
        _ => Ok(()),
    }
}

fn limits_differ(asked: u32, held: u32) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("a semaphore of {asked} permits was asked for, but its holders know one of {held}"),
    )
}
