//! Processes that want one key.

use std::time::Duration;

use lock_benches::contestants::stores::Style;
use lock_benches::plot::Bars;
use lock_benches::team::{self, Outcome, Plan};
use lock_benches::{Effort, Failure, Histogram, Rounds, Series, Table, jain, median, short};

use crate::compare;
use crate::field::{Field, Needs, Row};

/// How many processes want the hot key.
const PROCESSES: usize = 4;

/// How many tasks each of them has.
const TASKS: usize = 8;

/// How long a holder waits for the other process to settle down as a waiter.
const SETTLE: Duration = Duration::from_millis(2);

/// The most rounds: each starts the processes of each row.
const ROUNDS: usize = 5;

pub(crate) const HOT: Needs = Needs {
    styles: &[Style::Fair, Style::Dropped],
    callers: PROCESSES * TASKS,
    contended: true,
    processes: true,
    disk: true,
};

pub(crate) const HANDOVER: Needs =
    Needs { styles: &[Style::Fair], callers: 2, contended: true, processes: true, disk: true };

/// The plan of the members of this row.
pub(crate) fn hot_plan(row: &Row, window: Duration) -> Plan {
    Plan::new(&row.name, PROCESSES, TASKS, window)
}

/// The plan of two processes, of which one waits alone.
pub(crate) fn handover_plan(row: &Row, window: Duration) -> Plan {
    Plan::new(&row.name, 2, 1, window).holding(SETTLE).by_turns().on_threads()
}

/// The length of a window in which there are enough hand-overs.
pub(crate) fn handover_window(effort: &Effort) -> Duration {
    match effort.name {
        "smoke" => effort.slow_window,
        _ => effort.slow_window * 2,
    }
}

const HOT_COLUMNS: [&str; 8] = [
    "lock",
    "hand-overs/s",
    "× Redis, fair",
    "server CPU, µs each",
    "client CPU, µs each",
    "wait p50",
    "p99",
    "Jain, tasks",
];

pub(crate) fn hot_key(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    let (rows, absent) = field.rows(HOT);
    let all = play(effort, &rows, |row| hot_plan(row, effort.slow_window));
    let title = format!("One key, {PROCESSES} processes with {TASKS} tasks each");
    let mut table = Table::new(&title, &HOT_COLUMNS);
    let mut bars = Bars::new(format!("{title}: hand-overs/s"));
    each(&all, &mut table, |series, table| {
        bars.bar(&series.name, median(&series.figures(Outcome::rate)));
        let waits = merged(series, |outcome| &outcome.waits);
        let [rate, ratio] = compare::with_redis(series, &rows, &all, Outcome::rate);
        let micros = |time: fn(&Outcome) -> Duration| {
            let each = |it: &Outcome| time(it).as_secs_f64() * 1e6 / it.handovers as f64;
            short(median(&series.figures(each)))
        };
        table.row([
            series.name.clone(),
            rate,
            ratio,
            micros(|it| it.server),
            micros(|it| it.cpu),
            format!("{:.1?}", waits.quantile(0.5)),
            format!("{:.1?}", waits.quantile(0.99)),
            format!("{:.3}", median(&series.figures(|it| jain(&it.passes.concat())))),
        ]);
    });
    compare::with_rivals("the hand-overs/s", &rows, &all, Outcome::rate, &mut table);
    table.remark(
        "A hand-over is a pass whose holder is another task than the last one. *Fair*: each holder gives the lock to another \
         process. *Dropped*: a process passes the lock on within its default budget.",
    );
    absent.into_iter().for_each(|why| table.remark(why));
    table.plot(bars);
    Ok(table)
}

const HANDOVER_COLUMNS: [&str; 6] =
    ["lock", "p50, µs", "× Redis, fair", "p99, µs", "max, µs", "server CPU, µs each"];

pub(crate) fn handover(effort: &Effort, field: &Field) -> Result<Table, Failure> {
    let (rows, absent) = field.rows(HANDOVER);
    let all = play(effort, &rows, |row| handover_plan(row, handover_window(effort)));
    let title = format!("From one process to another that waits alone, after {SETTLE:?}");
    let mut table = Table::new(&title, &HANDOVER_COLUMNS);
    let mut bars = Bars::new(format!("{title}: median, in µs"));
    each(&all, &mut table, |series, table| {
        let times = merged(series, |outcome| &outcome.latencies);
        if times.count() == 0 {
            table.remark(format!("{}: no hand-over within the time.", series.name));
            return;
        }
        bars.bar(&series.name, median(&series.figures(latency)));
        let [half, ratio] = compare::with_redis(series, &rows, &all, latency);
        let micros = |time: Duration| short(time.as_secs_f64() * 1e6);
        let server = |it: &Outcome| it.server.as_secs_f64() * 1e6 / it.crossings as f64;
        table.row([
            series.name.clone(),
            half,
            ratio,
            micros(times.quantile(0.99)),
            micros(times.max()),
            short(median(&series.figures(server))),
        ]);
    });
    compare::with_rivals("the time", &rows, &all, latency, &mut table);
    table.remark(
        "From the end of one section to the beginning of the next one, in another process. The median is that over the \
         rounds; p99 and max are those of all rounds together.",
    );
    absent.into_iter().for_each(|why| table.remark(why));
    table.plot(bars);
    Ok(table)
}

/// The median latency of a round, in microseconds.
fn latency(outcome: &Outcome) -> f64 {
    outcome.latencies.quantile(0.5).as_secs_f64() * 1e6
}

fn play(effort: &Effort, rows: &[Row], plan: impl Fn(&Row) -> Plan) -> Vec<Series<Outcome>> {
    let mut rounds = Rounds::new();
    for row in rows {
        let plan = plan(row);
        rounds.add(&row.name, move || team::play(&*row.site, &plan));
    }
    rounds.run(effort.rounds.min(ROUNDS))
}

/// The times of all rounds.
fn merged(series: &Series<Outcome>, times: fn(&Outcome) -> &Histogram) -> Histogram {
    let mut all = Histogram::default();
    series.samples.iter().for_each(|outcome| all.merge(times(outcome)));
    all
}

/// Shows each series, or says why its figures mean nothing.
fn each(
    all: &[Series<Outcome>],
    table: &mut Table,
    mut show: impl FnMut(&Series<Outcome>, &mut Table),
) {
    for series in all {
        let wrong = series.samples.iter().find_map(|outcome| outcome.verdict().err());
        let wrong = wrong.map(|why| format!("{}: {why}.", series.name));
        match compare::failed(series).or(wrong) {
            Some(why) => table.remark(why),
            None => show(series, table),
        }
    }
}
