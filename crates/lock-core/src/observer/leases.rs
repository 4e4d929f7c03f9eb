//! Leases: renewals, losses, hand-overs to other processes.

use std::fmt;
use std::time::Duration;

use super::HoldId;
use crate::{Error, Key};

/// A renewal has its outcome: an answer of the store, or a failure.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRenewed<'a> {
    /// The key.
    pub key: &'a Key,
    /// The outcome.
    pub outcome: RenewalOutcome<'a>,
    /// How long the answer took.
    pub took: Duration,
    /// The requested ttl. If no later renewal succeeds, the lease is over so long after this renewal, at the latest.
    pub ttl: Duration,
}

/// The outcome of a renewal.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RenewalOutcome<'a> {
    /// The lease lasts longer now.
    Renewed,
    /// The store has the lease, and has not moved its deadline.
    Held,
    /// The store does not know the lease any more.
    Lost,
    /// There was no answer, or an error. The deadline stays, and the driver asks again while there
    /// is time.
    Failed(&'a Error),
}

impl RenewalOutcome<'_> {
    /// The outcome in one word, for a label: `renewed`, `held`, `lost` or `failed`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Renewed => "renewed",
            Self::Held => "held",
            Self::Lost => "lost",
            Self::Failed(_) => "failed",
        }
    }
}

/// A lease is lost while holders have it.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// The key.
    pub key: &'a Key,
    /// Why the lease is lost.
    pub reason: LossReason,
    /// The holds that have lost the lease. Their guards live on for now.
    pub holds: &'a [HoldId],
    /// How long the lease would have lasted without the loss. Zero if it had ended.
    pub left: Duration,
    /// How long after the end of the lease this process noticed the loss. Zero if the lease had not
    /// ended.
    pub since: Duration,
}

/// Why a guard has no lease any more.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed without a renewal: the store was out of reach, this process stood still,
    /// or the policy does not renew.
    Expired,
    /// The store reported the loss: the key expired there, was deleted, or has another owner.
    Revoked,
    /// The maximum hold of the lock was reached.
    HeldTooLong,
    /// The runtime of the driver has shut down, so the lease is no longer renewed.
    DriverStopped,
    /// The guard or permit was dropped or released. Only a handle to the lease that outlives its guard gives this
    /// reason.
    Released,
}

impl LossReason {
    /// The reason in one word, for a label: `expired`, `revoked`, `held_too_long`, `driver_stopped` or `released`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::HeldTooLong => "held_too_long",
            Self::DriverStopped => "driver_stopped",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lease ran out before it could be renewed",
            Self::Revoked => "the store no longer knows the lease",
            Self::HeldTooLong => "the lock was held for longer than permitted",
            Self::DriverStopped => "the driver of the locks has stopped",
            Self::Released => "the guard has given the lease up",
        })
    }
}

/// The lock goes to another process: this process has given the lease back, and knows of other claims that wait in the
/// store.
///
/// The next holder reports its way to the lock by [`Entered`](super::Entered). To count hand-overs between processes,
/// count the acquisitions that entered by `Granted`, and not these events: a process does not hear of every claim that
/// begins or ends its wait.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct HandedOver<'a> {
    /// The key.
    pub key: &'a Key,
}
