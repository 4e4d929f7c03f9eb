//! Which modes fit beside which: pure functions of the leases on a key.

use super::leases::Lease;
use crate::{Error, ErrorKind, Instant, Mode, OwnerToken};

/// What converting a lease comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// To a mode that keeps out fewer others: possible at once.
    Weaker,
    /// To [`Mode::Exclusive`]: possible for the only holder.
    Upgrade,
}

impl Conversion {
    pub(super) fn between(from: Mode, to: Mode) -> Result<Self, Error> {
        match (from, to) {
            (Mode::Exclusive, Mode::Shared | Mode::Upgradable)
            | (Mode::Upgradable, Mode::Shared) => Ok(Self::Weaker),
            (Mode::Upgradable, Mode::Exclusive) => Ok(Self::Upgrade),
            _ => Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("a lease cannot be converted from {from:?} to {to:?}"),
            )),
        }
    }
}

/// Refuses a mode that no lease can ever have.
pub(super) fn check(mode: Mode) -> Result<(), Error> {
    match mode {
        Mode::Permits { take, of } if take > of => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("{take} permits were asked for, but there are only {of}"),
        )),
        _ => Ok(()),
    }
}

/// `None` if there is room for the mode now, else when there will be if nobody renews or releases.
pub(super) fn when_free(leases: &[Lease], mode: Mode) -> Result<Option<Instant>, Error> {
    match mode {
        Mode::Exclusive => Ok(last_end(leases)),
        Mode::Shared | Mode::Upgradable => {
            let admits = |lease: &Lease| match lease.mode {
                Mode::Shared => true,
                Mode::Upgradable => mode == Mode::Shared,
                Mode::Exclusive | Mode::Permits { .. } | Mode::Joint { .. } => false,
            };
            Ok(if leases.iter().all(admits) { None } else { last_end(leases) })
        }
        Mode::Permits { take, of } => when_permits_are_free(leases, take, of),
        Mode::Joint { .. } => {
            let beside = |lease: &Lease| lease.mode == mode;
            Ok(if leases.iter().all(beside) { None } else { last_end(leases) })
        }
    }
}

/// `None` if this lease is the only one, else when it will be if nobody renews or releases.
pub(super) fn when_alone(leases: &[Lease], owner: OwnerToken, mode: Mode) -> Option<Instant> {
    let others = leases.iter().filter(|lease| lease.owner != owner || lease.mode != mode);
    others.map(|lease| lease.ends).max()
}

pub(super) fn last_end(leases: &[Lease]) -> Option<Instant> {
    leases.iter().map(|lease| lease.ends).max()
}

fn when_permits_are_free(leases: &[Lease], take: u32, of: u32) -> Result<Option<Instant>, Error> {
    let mut held = 0;
    for lease in leases {
        match lease.mode {
            Mode::Permits { take, of: known } if known == of => held += u64::from(take),
            Mode::Permits { of: known, .. } => return Err(limits_differ(of, known)),
            // A key that is held as another kind of lock is busy until that one ends.
            _ => return Ok(last_end(leases)),
        }
    }
    let mut missing = (held + u64::from(take)).saturating_sub(of.into());
    if missing == 0 {
        return Ok(None);
    }
    let mut ends: Vec<_> = leases.iter().map(|lease| (lease.ends, taken(lease.mode))).collect();
    ends.sort_unstable_by_key(|&(ends, _)| ends);
    let enough = ends.into_iter().find(|&(_, freed)| {
        missing = missing.saturating_sub(freed);
        missing == 0
    });
    Ok(enough.map(|(ends, _)| ends).or_else(|| last_end(leases)))
}

fn taken(mode: Mode) -> u64 {
    match mode {
        Mode::Permits { take, .. } => take.into(),
        _ => 0,
    }
}

fn limits_differ(asked: u32, held: u32) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("a semaphore of {asked} permits was asked for, but its holders know one of {held}"),
    )
}
