//! Which modes fit beside which: pure functions of the leases on a key.

use super::leases::Lease;
use crate::{Instant, Mode, OwnerToken};

/// What converting a lease comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// To a mode that keeps out fewer others: possible at once.
    Weaker,
    /// To [`Mode::Exclusive`]: possible for the only holder.
    Upgrade,
}

impl Conversion {
    /// That of a request whose conversion [can be](crate::Acquire::check_conversion).
    pub(super) fn to(mode: Mode) -> Self {
        if mode == Mode::Exclusive { Self::Upgrade } else { Self::Weaker }
    }
}

/// Whether another lease fits beside those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Now,
    /// Then, if nobody renews or releases. `None` if time alone does not make room.
    Later(Option<Instant>),
}

impl Room {
    /// Room for a lease in this mode, on a key that has `limit` permits if it is a semaphore.
    pub(super) fn beside(leases: &[Lease], mode: Mode, limit: u32) -> Self {
        let fits = match mode {
            Mode::Exclusive => leases.is_empty(),
            Mode::Shared => {
                leases.iter().all(|lease| matches!(lease.mode, Mode::Shared | Mode::Upgradable))
            }
            Mode::Upgradable => leases.iter().all(|lease| lease.mode == Mode::Shared),
            Mode::Permits { take, .. } => return Self::of_permits(leases, take, limit),
            Mode::Joint { .. } => leases.iter().all(|lease| lease.mode == mode),
        };
        if fits { Self::Now } else { Self::Later(last_end(leases)) }
    }

    fn of_permits(leases: &[Lease], take: u32, limit: u32) -> Self {
        // A key that is held as another kind of lock is busy until that one ends.
        if !leases.iter().all(Lease::counts) {
            return Self::Later(last_end(leases));
        }
        let mut missing = (permits(leases) + u64::from(take)).saturating_sub(limit.into());
        if missing == 0 {
            return Self::Now;
        }
        let mut ends: Vec<_> = leases.iter().map(|lease| (lease.ends, lease.permits())).collect();
        ends.sort_unstable_by_key(|&(ends, _)| ends);
        let enough = ends.into_iter().find(|&(_, freed)| {
            missing = missing.saturating_sub(freed.into());
            missing == 0
        });
        Self::Later(enough.map(|(ends, _)| ends))
    }
}

/// How many permits are held.
pub(super) fn permits(leases: &[Lease]) -> u64 {
    leases.iter().map(|lease| u64::from(lease.permits())).sum()
}

/// `None` if this lease is the only one, else when it will be if nobody renews or releases.
pub(super) fn when_alone(leases: &[Lease], owner: OwnerToken, mode: Mode) -> Option<Instant> {
    let others = leases.iter().filter(|lease| lease.owner != owner || lease.mode != mode);
    others.map(|lease| lease.ends).max()
}

pub(super) fn last_end(leases: &[Lease]) -> Option<Instant> {
    leases.iter().map(|lease| lease.ends).max()
}
