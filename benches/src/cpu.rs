//! What this process has computed.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time for which threads of this process have run since it began. Servers are not part of it.
pub(crate) fn used() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or(0), u32::try_from(used.tv_nsec).unwrap_or(0))
}
