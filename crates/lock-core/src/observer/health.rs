//! The health of the driver.

use std::time::Duration;

use crate::Key;

/// The driver came to its work later than planned.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct DriverStalled {
    /// How late the driver was.
    pub late: Duration,
}

/// The clock of the leases went on while this process did not. Leases may have ended meanwhile.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct ClockJumped {
    /// By how much the clock was ahead.
    pub by: Duration,
}

/// A renewal leaves late, by more than a sixth of the lease.
///
/// The [example](super::Observer#examples) of an observer shows it.
#[derive(Clone, Copy, Debug)]
pub struct RenewalLate<'a> {
    /// The key.
    pub key: &'a Key,
    /// How late the renewal is.
    pub late: Duration,
    /// How long the lease still lasts.
    pub left: Duration,
}
