//! The position of a value on a logarithmic axis.

/// A logarithmic axis, in units of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis from `from` to `to` that has room for these values; `None` if none of them is
    /// positive and finite. It begins and ends at a power of ten.
    pub(super) fn decades(
        values: impl IntoIterator<Item = f64>,
        from: f64,
        to: f64,
    ) -> Option<Self> {
        let (low, high) = range(values)?;
        let low = 10_f64.powf(low.log10().floor());
        let high = 10_f64.powf(high.log10().ceil()).max(low * 10.0);
        Some(Self { low, high, from, to })
    }

    /// An axis that begins and ends with these values.
    pub(super) fn exact(values: impl IntoIterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (low, high) = range(values)?;
        Some(Self { low, high: if high > low { high } else { low * 2.0 }, from, to })
    }

    /// The position of this value; an end of the axis if it is out of range.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if value.is_finite() { value.clamp(self.low, self.high) } else { self.low };
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.from + share * (self.to - self.from)
    }

    /// The powers of ten on the axis.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let first = self.low.log10().round() as i32;
        let last = self.high.log10().round() as i32;
        (first..=last).map(|power| 10_f64.powi(power))
    }
}

/// The least and the greatest of the values that have a logarithm.
fn range(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let values = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_ten_is_as_wide_as_another() {
        let scale = Scale::decades([3.0, 700.0, f64::NAN, 0.0], 100.0, 400.0).unwrap();
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [1.0, 10.0, 100.0, 1000.0]);
        let places = [1.0, 10.0, 100.0, 1000.0, 1e9, -1.0].map(|value| scale.at(value).round());
        assert_eq!(places, [100.0, 200.0, 300.0, 400.0, 400.0, 100.0]);
    }

    #[test]
    fn there_is_no_axis_for_nothing() {
        assert!(Scale::decades([f64::NAN, 0.0], 0.0, 1.0).is_none());
        let alone = Scale::exact([5.0], 0.0, 1.0).unwrap();
        assert_eq!(alone.at(5.0), 0.0);
    }
}
