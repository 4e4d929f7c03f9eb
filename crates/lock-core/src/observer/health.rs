//! The health of the driver.

use std::time::Duration;

use super::event;
use crate::Key;

event! {
    /// The driver came to its work later than it wanted to.
    DriverStalled {
        /// How late it was.
        late: Duration,
    }
}

event! {
    /// The clock of the leases went on while this process did not. Leases may have ended meanwhile.
    ClockJumped {
        /// By how much the clock was ahead.
        by: Duration,
    }
}

event! {
    /// A renewal leaves later than it was due, by more than a sixth of the lease.
    RenewalLate<'a> {
        /// The key.
        key: &'a Key,
        /// How late it is.
        late: Duration,
        /// How long the lease still lasts.
        left: Duration,
    }
}
