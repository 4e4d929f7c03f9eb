//! A histogram of times.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

/// The number of classes for each doubling, so that a time is known to about two per cent.
const FINENESS: f64 = 32.0;

/// Many times in little memory, for figures that travel between processes.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    classes: BTreeMap<u32, u64>,
    max: u64,
}

impl Histogram {
    /// Counts one more time.
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        *self.classes.entry(class(nanos)).or_default() += 1;
        self.max = self.max.max(nanos);
    }

    /// Counts all times of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (class, count) in &other.classes {
            *self.classes.entry(*class).or_default() += count;
        }
        self.max = self.max.max(other.max);
    }

    /// How many times there are.
    pub fn count(&self) -> u64 {
        self.classes.values().sum()
    }

    /// The time that the given share of the times does not exceed, to about two per cent; zero if there is none.
    pub fn quantile(&self, share: f64) -> Duration {
        let count = self.count();
        let wanted = (count as f64 * share.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        if wanted >= count {
            return self.max();
        }
        let mut seen = 0;
        for (class, count) in &self.classes {
            seen += *count;
            if seen >= wanted {
                let middle = ((f64::from(*class) + 0.5) / FINENESS).exp2() as u64;
                return Duration::from_nanos(middle.min(self.max));
            }
        }
        Duration::ZERO
    }

    /// The greatest time, exactly.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// The format that members in other languages write, too: the greatest time, and pairs of a class and a count.
    pub(crate) fn to_json(&self) -> Value {
        let classes: Vec<Value> =
            self.classes.iter().map(|(it, count)| json!([it, count])).collect();
        json!({ "max": self.max, "classes": classes })
    }

    pub(crate) fn from_json(value: &Value) -> Option<Self> {
        let mut classes = BTreeMap::new();
        for pair in value["classes"].as_array()? {
            classes.insert(u32::try_from(pair[0].as_u64()?).ok()?, pair[1].as_u64()?);
        }
        Some(Self { classes, max: value["max"].as_u64()? })
    }
}

impl FromIterator<Duration> for Histogram {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut all = Self::default();
        times.into_iter().for_each(|time| all.add(time));
        all
    }
}

/// The class of a time of this many nanoseconds, which must not be zero.
fn class(nanos: u64) -> u32 {
    ((nanos as f64).log2() * FINENESS) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_known_to_two_per_cent() {
        let times: Histogram = (1..=1_000).map(Duration::from_micros).collect();
        for (share, micros) in [(0.5, 500.0), (0.99, 990.0)] {
            let off = times.quantile(share).as_secs_f64() * 1e6 / micros;
            assert!((0.98..1.02).contains(&off), "{share}: {off}");
        }
        assert_eq!(times.quantile(1.0), Duration::from_micros(1_000));
        assert_eq!(Histogram::default().quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn it_travels_and_adds_up() {
        let mut one = Histogram::default();
        one.add(Duration::from_micros(7));
        let mut other = Histogram::from_json(&one.to_json()).unwrap();
        other.add(Duration::from_millis(3));
        other.merge(&one);
        assert_eq!((other.count(), other.max()), (3, Duration::from_millis(3)));
        assert!(Histogram::from_json(&json!({})).is_none());
    }
}
