//! Ratios within a table.

use lock_benches::contestants::stores;
use lock_benches::{Series, Table, median, short};

use crate::field::Row;

/// The row of our own lock over this store, in the style of the table's first column.
fn ours<'a, S>(row: &Row, rows: &[Row], all: &'a [Series<S>]) -> Option<&'a Series<S>> {
    let is_ours = |other: &Row| other.rival.is_none() && other.store.name == row.store.name;
    let row = rows.iter().find(|other| is_ours(other))?;
    find(&row.name, all)
}

/// The samples of a row that did not fail.
pub(crate) fn find<'a, S>(name: &str, all: &'a [Series<S>]) -> Option<&'a Series<S>> {
    all.iter().find(|series| series.name == name && series.failure.is_none())
}

/// What our own lock makes of a figure, as a multiple of what each rival on the same servers makes of it, round by
/// round.
pub(crate) fn with_rivals<S>(
    words: &str,
    rows: &[Row],
    all: &[Series<S>],
    figure: fn(&S) -> f64,
    table: &mut Table,
) {
    for row in rows.iter().filter(|row| row.rival.is_some()) {
        if let (Some(ours), Some(theirs)) = (ours(row, rows, all), find(&row.name, all)) {
            let compared = ours.compared(theirs, figure);
            table.remark(format!("`{}` has {compared} {words} of `{}`.", ours.name, row.name));
        }
    }
}

/// The median of a figure, and that as a multiple of the figure of one Redis server in the same rounds.
pub(crate) fn with_redis<S>(
    series: &Series<S>,
    rows: &[Row],
    all: &[Series<S>],
    figure: fn(&S) -> f64,
) -> [String; 2] {
    let is_redis = |row: &&Row| row.rival.is_none() && row.store.name == stores::ONE_SERVER;
    let redis = rows.iter().find(is_redis).and_then(|row| find(&row.name, all));
    let ratio = redis.map(|redis| short(median(&series.ratios(redis, figure))));
    [short(median(&series.figures(figure))), ratio.unwrap_or_default()]
}

/// Why a series has no row in the table, if it failed.
pub(crate) fn failed<S>(series: &Series<S>) -> Option<String> {
    let failure = series.failure.as_ref()?;
    Some(format!("{}: left out, it failed: {failure}.", series.name))
}
