//! The time for which a Redis backend keeps what it knows of a released lock.

use std::time::Duration;

use lock_core::Clock;

/// The longest lease that a test takes with this retention.
const LEASE: Duration = Duration::from_secs(60);

/// A retention with which no renewal of the next minute has to prolong the state of its lock.
///
/// On the client's clock, a lease lies after each multiple of a third of the retention. A renewal in that time prolongs
/// the state as well, and is another script.
pub fn quiet_retention() -> Duration {
    let now = Duration::from_nanos(Clock::boot().now().as_nanos());
    let mut retention = Duration::from_secs(3600);
    loop {
        let third = retention.as_nanos() / 3;
        let quiet = LEASE.as_nanos()..third - LEASE.as_nanos();
        if quiet.contains(&(now.as_nanos() % third)) {
            return retention;
        }
        retention += LEASE;
    }
}
