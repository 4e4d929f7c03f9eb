//! Nodes that date their leases on different clocks.

use std::time::Duration;

use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Clock, Instant, Renew, Renewal, Ttl};
use lock_redlock::Redlock;

use crate::support::claim;
use crate::twins::Address;

/// How much of a lease may have passed when the test looks.
const LATE: Duration = Duration::from_secs(5);

/// Whether a new lease ends when it should, on this clock.
fn ends_in_time(until: Instant, clock: Clock) {
    let left = until.saturating_duration_since(clock.now());
    let longest = Ttl::DEFAULT.duration() - Ttl::DEFAULT.drift();
    assert!(left <= longest && left > longest - LATE, "{left:?} of {longest:?}");
}

#[tokio::test]
async fn a_lease_ends_by_the_clock_of_the_quorum_and_not_by_those_of_its_nodes() {
    // The clocks must differ, or else this proves nothing.
    let servers = [(); 3].map(|()| MemoryBackend::new());
    let difference = Clock::boot().now().saturating_duration_since(Clock::tokio().now());
    assert!(difference > LATE || Clock::tokio().now() > Clock::boot().now() + LATE);
    for boots in [1, 2] {
        let clock = |node| if node < boots { Clock::boot() } else { Clock::tokio() };
        let nodes = [0, 1, 2].map(|node: usize| Address::dating(&servers[node], clock(node)));
        let quorum = Redlock::builder().nodes(nodes).build().await.unwrap();
        quorum.init().await.unwrap();
        assert!(quorum.clock() == Clock::boot());
        let held = claim("a");
        let attempt = quorum.try_acquire(&Acquire::new(held.clone(), Ttl::DEFAULT)).await;
        let Ok(AcquireOutcome::Granted(grant)) = attempt else { panic!("{attempt:?}") };
        ends_in_time(grant.valid_until, quorum.clock());
        let renewal = quorum.renew(&Renew::new(held.clone(), Ttl::DEFAULT)).await;
        let Renewal::Renewed { valid_until, .. } = renewal else { panic!("{renewal:?}") };
        ends_in_time(valid_until, quorum.clock());
        let _ended = quorum.release(&held).await.unwrap();
    }
}
