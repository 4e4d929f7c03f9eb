//! Texts for people: times and tables.

use std::time::Duration;

/// A time in two or three digits and a unit.
pub(crate) fn time(time: Duration) -> String {
    let (seconds, micros) = (time.as_secs(), time.as_micros());
    match seconds {
        0 if micros == 0 => format!("{}ns", time.as_nanos()),
        0 if micros < 1_000 => format!("{micros}µs"),
        0 if micros < 10_000 => format!("{:.1}ms", micros as f64 / 1e3),
        0 => format!("{}ms", micros / 1_000),
        1..60 => format!("{:.1}s", time.as_secs_f64()),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value >= 999_500.0 => format!("{:.1}M", value / 1e6),
        value if value >= 9_950.0 => format!("{:.0}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The number of the waiters of a lock. A store without a queue does not know it.
pub(crate) fn waiting(number: u64, has_queue: bool) -> String {
    if has_queue { number.to_string() } else { "unknown".to_owned() }
}

/// `1 lease`, `2 leases`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A table whose lines come one after another. A wider cell makes its column wider from then on.
#[derive(Debug)]
pub(crate) struct Table<const COLUMNS: usize> {
    widths: [usize; COLUMNS],
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub(crate) fn new() -> Self {
        Self { widths: [0; COLUMNS] }
    }

    /// The lines. Each column is as wide as its widest cell so far.
    pub(crate) fn lines(&mut self, rows: &[[String; COLUMNS]]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |row: &[String; COLUMNS]| {
            let cells = row.iter().zip(self.widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join("  ");
            format!("{}\n", line.trim_end())
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_few_digits() {
        let shown = |micros| time(Duration::from_micros(micros));
        for (micros, expected) in [
            (0, "0ns"),
            (999, "999µs"),
            (1_250, "1.2ms"),
            (350_000, "350ms"),
            (8_210_000, "8.2s"),
            (125_000_000, "2m05s"),
            (3_720_000_000, "1h02m"),
            (90_000_000_000, "1d01h"),
        ] {
            assert_eq!(shown(micros), expected);
        }
    }

    #[test]
    fn a_number_has_few_digits() {
        let values = [0.0, 9.94, 12.34, 123.4, 9_949.0, 12_345.0, 1_234_567.0];
        let shown = values.map(number);
        assert_eq!(shown, ["0.00", "9.94", "12.3", "123", "9949", "12k", "1.2M"]);
        assert_eq!((count(1, "lease"), count(0, "lease")), ("1 lease".into(), "0 leases".into()));
    }

    #[test]
    fn a_table_keeps_its_columns_from_page_to_page() {
        let mut table = Table::new();
        let row = |one: &str, other: &str| [one.to_owned(), other.to_owned()];
        assert_eq!(table.lines(&[row("a", "b"), row("long", "x")]), "a     b\nlong  x\n");
        assert_eq!(table.lines(&[row("é", "")]), "é\n");
        assert_eq!(table.lines(&[row("é", "y")]), "é     y\n");
    }
}
