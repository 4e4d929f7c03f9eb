//! Leases: renewals, losses, hand-overs.

use std::fmt;
use std::time::Duration;

use super::{HoldId, event};
use crate::{Error, Key};

event! {
    /// The store has answered a renewal, or has not.
    LeaseRenewed<'a> {
        /// The key.
        key: &'a Key,
        /// What the store says.
        outcome: RenewalOutcome<'a>,
        /// How long the answer took.
        took: Duration,
        /// How long the lease was to live from the renewal on. Unless a later renewal succeeds, it is over by then.
        ttl: Duration,
    }
}

/// What has become of a renewal.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum RenewalOutcome<'a> {
    /// The lease lasts longer now.
    Renewed,
    /// The store keeps the lease, with its present deadline.
    Held,
    /// The store does not know the lease any more.
    Lost,
    /// No answer, or an error. The deadline stays, and the driver asks again while there is time.
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

event! {
    /// A lease is lost while holders have it.
    Loss<'a> {
        /// The key.
        key: &'a Key,
        /// Why it is lost.
        reason: LossReason,
        /// The holds that have lost the lease. Their guards live on for now.
        holds: &'a [HoldId],
        /// How long the lease would still have lasted. Zero if it had ended.
        left: Duration,
        /// How long ago the lease had ended when this process noticed. Zero if it had not.
        since: Duration,
    }
}

/// Why a guard has no lease any more.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The deadline passed without a renewal: the store was out of reach, this process was stopped,
    /// or renewal is switched off.
    Expired,
    /// The store reported the loss: the key has expired there, was deleted, or has another owner.
    Revoked,
    /// The maximum hold of the lock was reached.
    HeldTooLong,
    /// The runtime of the driver has shut down, so the lease is no longer renewed.
    DriverStopped,
    /// The guard or permit was dropped or released. Only a handle to the lease that outlives its guard gives this reason.
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

event! {
    /// The lock goes from one holder to the next.
    HandedOver<'a> {
        /// The key.
        key: &'a Key,
        /// Where it goes.
        kind: HandOver,
    }
}

/// Where a lock goes.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HandOver {
    /// To another holder of this process, without the store.
    Local,
    /// To this process: the store granted the key to the claim of this process in its queue.
    Received,
    /// To another process: the store has the lease back, and the last that this process heard is that other claims wait
    /// there. To count hand-overs between processes, count what is received: a process does not hear of every claim that
    /// waits, nor of every one that leaves.
    Given,
}

impl HandOver {
    /// The kind in one word, for a label: `local`, `received` or `given`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Received => "received",
            Self::Given => "given",
        }
    }
}
