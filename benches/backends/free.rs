//! Acquiring and releasing a free lock.

use lock_benches::contestants::stores::Style;
use lock_benches::measure::calibrate;
use lock_benches::plot::Bars;
use lock_benches::{Effort, Failure, Meters, Rounds, Series, Table, median, quantile, short};

use crate::compare;
use crate::field::{Field, Needs};

pub(crate) const NEEDS: Needs = Needs {
    styles: &[Style::Released],
    callers: 1,
    contended: false,
    processes: false,
    disk: true,
};

const COLUMNS: [&str; 5] = ["lock", "µs", "middle half", "× Redis", "server CPU, µs"];

/// Both in microseconds, for each pass.
struct Sample {
    time: f64,
    server: f64,
}

pub(crate) fn table(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    let (rows, absent) = field.rows(NEEDS);
    let mut rounds = Rounds::new();
    for row in &rows {
        let entrant = field.entrant(row, 1)?;
        let keys = entrant.keys(1);
        let mut meters = Meters::at(&row.site.meters())?;
        let pairs = move |count| field.stage.run(entrant.pairs(&keys, count));
        let count = calibrate(effort, &pairs)?;
        rounds.add(&row.name, move || {
            let before = meters.cpu()?;
            let time = pairs(count)?;
            let server = meters.cpu()?.saturating_sub(before);
            let each = |time: std::time::Duration| time.as_secs_f64() * 1e6 / count as f64;
            Ok(Sample { time: each(time), server: each(server) })
        });
    }
    let all = rounds.run(effort.rounds);

    let mut table = Table::new("Acquire and release a free lock", &COLUMNS);
    let mut bars = Bars::new("Acquire and release a free lock, in µs");
    for series in &all {
        if let Some(why) = compare::failed(series) {
            table.remark(why);
            continue;
        }
        bars.bar(&series.name, median(&series.figures(time)));
        let [micros, ratio] = compare::with_redis(series, &rows, &all, time);
        let server = short(median(&series.figures(|sample| sample.server)));
        table.row([series.name.clone(), micros, middle(series), ratio, server]);
    }
    compare::with_rivals("the time", &rows, &all, time, &mut table);
    table.remark(format!(
        "Medians over {} rounds, on one key, in a task of a runtime with several threads; the release is awaited. A ratio \
         is the median of the ratios within each round. The processor time is that of all servers.",
        effort.rounds
    ));
    absent.into_iter().for_each(|why| table.remark(why));
    table.plot(bars);
    Ok(table)
}

fn time(sample: &Sample) -> f64 {
    sample.time
}

fn middle(series: &Series<Sample>) -> String {
    [0.25, 0.75].map(|share| short(quantile(&series.figures(time), share))).join("–")
}
