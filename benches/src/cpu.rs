//! The processor time of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The processor time of all threads of this process since it began. It does not include servers.
pub(crate) fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}
