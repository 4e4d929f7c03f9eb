//! Many times in little memory.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest time that the histogram tells from longer times: an hour, in nanoseconds.
const MOST_NANOS: u64 = 3_600_000_000_000;

/// A histogram of times, exact to one per cent.
#[derive(Clone, Debug)]
pub(super) struct Times(Histogram<u64>);

impl Times {
    pub(super) fn new() -> Self {
        // The crate accepts these bounds.
        Self(
            Histogram::new_with_bounds(1, MOST_NANOS, 2)
                .unwrap_or_else(|_| unreachable!("fixed bounds")),
        )
    }

    pub(super) fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(MOST_NANOS);
        self.0.saturating_record(nanos.max(1));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        _ = self.0.add(&other.0);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share of the times does not exceed; zero if there are no times.
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let nanos = if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) };
        Duration::from_nanos(nanos.min(self.0.max()))
    }

    pub(super) fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_one_per_cent_and_add_up() {
        let (mut odd, mut even) = (Times::new(), Times::new());
        for micros in 1..=1_000 {
            let times = if micros % 2 == 0 { &mut even } else { &mut odd };
            times.add(Duration::from_micros(micros));
        }
        odd.merge(&even);
        assert_eq!(odd.count(), 1_000);
        for (share, micros) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1_000.0)] {
            let off = odd.quantile(share).as_secs_f64() * 1e6 / micros;
            assert!((0.99..1.01).contains(&off), "{share}: {off}");
        }
        assert_eq!(Times::new().quantile(0.5), Duration::ZERO);
    }
}
