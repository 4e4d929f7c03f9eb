//! Times in which something is not promised.

use lock_core::Instant;

/// Times in which something is not promised, in order, without overlaps.
#[derive(Debug)]
pub(super) struct Unrest(Vec<(Instant, Instant)>);

impl Unrest {
    pub(super) fn of(mut times: Vec<(Instant, Instant)>) -> Self {
        times.sort_unstable();
        let mut merged: Vec<(Instant, Instant)> = Vec::new();
        for (begin, end) in times {
            match merged.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        Self(merged)
    }

    pub(super) fn times(&self) -> &[(Instant, Instant)] {
        &self.0
    }

    /// Whether some of it lies between these.
    pub(super) fn touches(&self, begin: Instant, end: Instant) -> bool {
        let first = self.0.partition_point(|time| time.1 < begin);
        self.0.get(first).is_some_and(|time| time.0 <= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn times_of_unrest_are_merged_and_found() {
        let unrest =
            Unrest::of(vec![(at(5), at(9)), (at(1), at(2)), (at(8), at(12)), (at(8), at(9))]);
        assert_eq!(unrest.times(), [(at(1), at(2)), (at(5), at(12))]);
        assert!(unrest.touches(at(0), at(1)) && unrest.touches(at(10), at(11)));
        assert!(!unrest.touches(at(3), at(4)) && !unrest.touches(at(13), at(99)));
    }
}
