//! Tasks of one process: on one key, and each on a key of its own.

use std::time::Duration;

use lock_benches::contestants::stores::Style;
use lock_benches::measure::{Crowd, Window};
use lock_benches::plot::Bars;
use lock_benches::{
    Effort, Failure, Rounds, Series, Table, jain, median, per_second, quantiles, short, verdict,
};

use crate::compare;
use crate::field::{Field, Needs, Row};

/// The tasks that want one key.
pub(crate) const HOT: Workload = Workload {
    title: "One key, 16 tasks of one process",
    needs: Needs {
        styles: &[Style::Dropped],
        callers: 16,
        contended: true,
        processes: false,
        disk: true,
    },
    keys: 1,
    figure: handovers,
    unit: "hand-overs/s",
};

/// The tasks that want a key each.
pub(crate) const MANY: Workload = Workload {
    title: "64 tasks of one process, each on a key of its own",
    needs: Needs {
        styles: &[Style::Released],
        callers: 64,
        contended: false,
        processes: false,
        disk: true,
    },
    keys: 64,
    figure: passes,
    unit: "pairs/s",
};

/// Tasks of one process that lock and unlock as fast as they can.
pub(crate) struct Workload {
    title: &'static str,
    pub(crate) needs: Needs,
    keys: usize,
    /// What counts.
    figure: fn(&Window) -> f64,
    unit: &'static str,
}

/// The most rounds: each takes a window for each row.
const ROUNDS: usize = 5;

pub(crate) fn hot_key(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    HOT.table(effort, field)
}

pub(crate) fn many_keys(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    MANY.table(effort, field)
}

impl Workload {
    fn table(&self, effort: &Effort, field: &Field) -> Result<Table, Failure> {
        let (rows, absent) = field.rows(self.needs);
        let mut rounds = Rounds::new();
        for row in &rows {
            let turn = self.turn(field, row, effort.slow_window)?;
            rounds.add(&row.name, turn);
        }
        let all = rounds.run(effort.rounds.min(ROUNDS));

        let columns = ["lock", self.unit, "× Redis", "server CPU, µs each", "p50", "p99", "Jain"];
        let mut table = Table::new(self.title, &columns);
        let mut bars = Bars::new(format!("{}: {}", self.title, self.unit));
        for series in &all {
            if let Some(why) = compare::failed(series).or_else(|| wrong(series)) {
                table.remark(why);
                continue;
            }
            bars.bar(&series.name, median(&series.figures(self.figure)));
            table.row(self.figures(series, &rows, &all));
        }
        compare::with_rivals(&format!("the {}", self.unit), &rows, &all, self.figure, &mut table);
        table.remark(
            "The times are those from the call to the section. A time that goes on at the end of the window counts with \
             its length so far.",
        );
        absent.into_iter().for_each(|why| table.remark(why));
        table.plot(bars);
        Ok(table)
    }

    /// One window of the contestant of this row.
    pub(crate) fn turn<'a>(
        &'a self,
        field: &'a Field,
        row: &Row,
        window: Duration,
    ) -> Result<impl Fn() -> Result<Window, Failure> + use<'a>, Failure> {
        let (entrant, meters) = (field.entrant(row, 1)?, row.site.meters());
        Ok(move || {
            let keys = entrant.fresh_keys(self.keys);
            let mut crowd = Crowd::new(self.needs.callers, keys, window);
            (crowd.servers, crowd.waits) = (meters.clone(), true);
            field.stage.run(entrant.crowd(crowd))
        })
    }

    fn figures(
        &self,
        series: &Series<Window>,
        rows: &[Row],
        all: &[Series<Window>],
    ) -> [String; 7] {
        let times: Vec<Duration> = series.samples.iter().flat_map(|it| it.waits.clone()).collect();
        let [half, most, _] = quantiles(&times).map(|time| format!("{time:.1?}"));
        let [rate, ratio] = compare::with_redis(series, rows, all, self.figure);
        let server = |it: &Window| it.server.as_secs_f64() * 1e6 / it.total() as f64;
        [
            series.name.clone(),
            rate,
            ratio,
            short(median(&series.figures(server))),
            half,
            most,
            format!("{:.3}", median(&series.figures(|it| jain(&it.passes)))),
        ]
    }
}

fn handovers(window: &Window) -> f64 {
    per_second(window.handovers, window.elapsed)
}

fn passes(window: &Window) -> f64 {
    per_second(window.total(), window.elapsed)
}

/// Why the figures mean nothing, if the lock was not correct.
fn wrong(series: &Series<Window>) -> Option<String> {
    let sum = |figure: fn(&Window) -> u64| series.samples.iter().map(figure).sum();
    let verdict = verdict(sum(|it| it.lost), sum(|it| it.intrusions), sum(Window::total));
    verdict.err().map(|why| format!("{}: {why}.", series.name))
}
