//! Arithmetic on samples, and numbers formatted for readers.

use std::time::Duration;

/// The median of the values; NaN if there is none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which the given share of the values lies; NaN if there is none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    low + (high - low) * position.fract()
}

/// The median, the 99th percentile and the greatest of some times.
pub fn quantiles(times: &[Duration]) -> [Duration; 3] {
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    [0.5, 0.99, 1.0].map(|share| {
        Duration::try_from_secs_f64(quantile(&seconds, share)).unwrap_or(Duration::ZERO)
    })
}

/// Jain's index of fairness: 1 if all values are equal, and 1/n if one of n values is all of the sum.
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|&share| share as f64).sum();
    let squares: f64 = shares.iter().map(|&share| (share as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The rate per second.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

/// Three significant digits, and a suffix for thousands and millions.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value != 0.0 && value.abs() < 0.01 {
        return format!("{value:.1e}");
    }
    let (value, suffix) = match value.abs() {
        size if size >= 999_500.0 => (value / 1e6, "M"),
        size if size >= 9_995.0 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(quantile(&[5.0, 7.0], 1.0), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn an_equal_share_is_fair() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[20, 0, 0, 0]), 0.25);
    }

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.123, 9.999, 41.27, 123.4, 12_345.0, 999_600.0, 5_431_000.0].map(short);
        assert_eq!(shown, ["0.12", "10.0", "41.3", "123", "12.3k", "1.00M", "5.43M"]);
        assert_eq!([0.0, 1.5e-6, f64::NAN].map(short), ["0.00", "1.5e-6", "–"]);
    }
}
