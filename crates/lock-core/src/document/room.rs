//! Which modes fit beside which: pure functions of the leases on a key.

use super::leases::Lease;
use crate::{Instant, Mode, OwnerToken};

/// Whether another lease fits beside the existing ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    Now,
    /// There is room at this instant, if no holder renews or releases. `None` if time alone makes
    /// no room.
    Later(Option<Instant>),
}

impl Room {
    /// Room for a lease in this mode, on a key that has `limit` permits if it is a semaphore.
    pub(crate) fn beside<P>(leases: &[Lease<P>], mode: Mode, limit: u32) -> Self {
        if mode.fits_beside(leases.iter().map(|lease| lease.mode), limit) {
            Self::Now
        } else if mode.counts() && leases.iter().all(|lease| lease.mode.counts()) {
            Self::Later(when_enough(leases, mode, limit))
        } else {
            // The key is another kind of lock, so the claim has to wait until the last lease ends.
            Self::Later(last_end(leases))
        }
    }
}

/// The instant at which enough permits have come back for a lease in this mode.
fn when_enough<P>(leases: &[Lease<P>], mode: Mode, limit: u32) -> Option<Instant> {
    let mut missing = (permits(leases) + u64::from(mode.permits())).saturating_sub(limit.into());
    let mut ends: Vec<_> = leases.iter().map(|lease| (lease.ends, lease.mode.permits())).collect();
    ends.sort_unstable_by_key(|&(ends, _)| ends);
    let enough = ends.into_iter().find(|&(_, freed)| {
        missing = missing.saturating_sub(freed.into());
        missing == 0
    });
    enough.map(|(ends, _)| ends)
}

/// The number of permits that are held.
pub(crate) fn permits<P>(leases: &[Lease<P>]) -> u64 {
    leases.iter().map(|lease| u64::from(lease.mode.permits())).sum()
}

/// The instant at which this lease is the only one, if no holder renews or releases. `None` if it is the only one now.
pub(crate) fn when_alone<P>(leases: &[Lease<P>], owner: OwnerToken, mode: Mode) -> Option<Instant> {
    let others = leases.iter().filter(|lease| lease.owner != owner || lease.mode != mode);
    others.map(|lease| lease.ends).max()
}

pub(crate) fn last_end<P>(leases: &[Lease<P>]) -> Option<Instant> {
    leases.iter().map(|lease| lease.ends).max()
}
