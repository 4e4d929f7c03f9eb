//! When a client can vouch for a node that may have forgotten leases.

use lock_core::{Instant, Quarantine, Ttl};

/// What this process has seen of the quarantines of one node.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    seen: Option<(Quarantine, Instant)>,
}

impl Lookout {
    /// Notes that the node named this quarantine in an answer that has arrived now. Returns whether it differs from the
    /// last quarantine.
    pub(crate) fn see(&mut self, quarantine: &Quarantine, now: Instant) -> bool {
        if self.seen.as_ref().is_some_and(|(seen, _)| seen == quarantine) {
            return false;
        }
        self.seen = Some((quarantine.clone(), now));
        true
    }

    /// The quarantine of the node, and when every lease that the node may have forgotten is over. Such a lease is no
    /// longer than `max_ttl`. The node wrote it before the answer that first named the quarantine. The clock of the
    /// node is no slower than the drift allows.
    pub(crate) fn due(&self, max_ttl: Ttl) -> Option<(&Quarantine, Instant)> {
        let (quarantine, seen) = self.seen.as_ref()?;
        Some((quarantine, *seen + max_ttl.quarantine()))
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        self.seen.is_some()
    }

    /// The node votes.
    pub(crate) fn clear(&mut self) {
        self.seen = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_quarantine_is_watched_for_a_whole_lease(
            sightings in prop::collection::vec((0..3u8, 0..5_000u64), 1..20),
            ttl in 10..100_000u64,
        ) {
            let ttl = Ttl::new(Duration::from_millis(ttl)).unwrap();
            let (mut lookout, mut now) = (Lookout::default(), Instant::from_nanos(0));
            let mut first: Option<(u8, Instant)> = None;
            for (name, millis) in sightings {
                now = now + Duration::from_millis(millis);
                let quarantine = Quarantine::new(name.to_string());
                let is_new = first.is_none_or(|(last, _)| last != name);
                prop_assert_eq!(lookout.see(&quarantine, now), is_new);
                if is_new {
                    first = Some((name, now));
                }
                let (named, due) = lookout.due(ttl).unwrap();
                prop_assert_eq!(named, &quarantine);
                let watched = due.saturating_duration_since(first.unwrap().1);
                prop_assert!(watched >= ttl.duration().mul_f64(1.01));
            }
        }
    }
}
