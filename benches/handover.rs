//! Processes hand one key to one another: how long a hand-over takes, and for how much of the time the lock is in use.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::contestants::Plain;
use lock_benches::measure::pings;
use lock_benches::plot::Bars;
use lock_benches::team::{self, Burner, Outcome, Row};
use lock_benches::{
    Effort, Failure, Histogram, Rounds, Series, Setting, Stage, Table, jain, median, short,
};
use lock_tests::RedisServer;

/// How long a holder waits for the other task to settle down as a waiter.
const SETTLE: Duration = Duration::from_millis(2);

/// These times for locks that are held for long, so that the threads of the waiter fall asleep.
const LONG: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(100), Duration::from_millis(150)];

/// The latencies after a pause are measured for this many times the pause.
const PAUSES: u32 = 25;

/// The length of a section in which the holder does something.
const SECTION: Duration = Duration::from_millis(20);

/// How many tasks share the lock in the bench of long sections.
const SHARERS: usize = 8;

/// How many passes each task has in that bench.
const PASSES: u32 = 12;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let bench = Bench::new(effort)?;
    bench.latency("quiet", SETTLE).publish("handover-quiet")?;
    for pause in LONG {
        bench.latency("quiet", pause).publish(&format!("handover-{}", pause.as_millis()))?;
    }
    let burners = Burner::on_all_processors()?;
    bench.latency("busy", SETTLE).publish("handover-busy")?;
    drop(burners);
    bench.rate().publish("handover-rate")?;
    for processes in [1, SHARERS] {
        bench.section(processes).publish(&format!("section-{processes}"))?;
    }
    Ok(())
}

struct Bench {
    effort: Effort,
    server: RedisServer,
    stage: Stage,
    plain: Arc<Plain>,
    rows: Vec<Row>,
    /// The reasons why some rows are missing.
    absent: Vec<String>,
}

impl Bench {
    fn new(effort: Effort) -> Result<Self, Failure> {
        let server = RedisServer::start();
        let stage = Stage::new(Setting::CurrentThread)?;
        let url = server.url();
        let plain = Arc::new(stage.run(async move { Plain::connect(&url).await })?);
        let (rows, absent) = Row::all();
        Ok(Self { effort, server, stage, plain, rows, absent })
    }

    /// The time from the end of one process's section to the beginning of the section of the other process, which is
    /// the only waiter.
    fn latency(&self, regime: &str, settle: Duration) -> Table {
        let all = self.latencies(settle);
        let title = format!(
            "From one process to another that waits alone, on a {regime} machine, after {settle:?}"
        );
        let columns =
            ["lock", "p50", "× PING", "p99", "× PING's p99", "max", "p50, × PING back to back"];
        let mut table = Table::new(title, &columns);
        let mut bars =
            Bars::new(format!("Median hand-over on a {regime} machine after {settle:?}, in µs"));
        for series in &all {
            if let Some(failure) = &series.failure {
                table.remark(format!("{}: left out, it failed: {failure}.", series.name));
            } else if merged(series).count() == 0 {
                table.remark(format!("{}: no hand-over within the time.", series.name));
            } else {
                bars.bar(&series.name, median(&series.figures(half)) * 1e6);
                table.row(times(series, [&all[0], &all[1]]));
            }
        }
        table.remark(format!(
            "Two processes with a task each, on a runtime with several threads. The waiter has had {settle:?} to \
             settle down, and no process overtakes it, so PING is that after as long a pause. The median is that \
             over the rounds; p99 and max are those of all rounds together."
        ));
        table.remark(match regime {
            "quiet" => "Nothing else runs. In the pause the processors fall asleep.",
            _ => {
                "On each processor a program of the lowest priority keeps it from falling asleep, and \
                 gives way at once."
            }
        });
        self.end(&mut table, bars);
        table
    }

    /// Two round trips, back to back and after a pause, and then the rows.
    fn latencies(&self, settle: Duration) -> Vec<Series<Histogram>> {
        let mut rounds = Rounds::new();
        let window = self.effort.slow_window.max(settle * PAUSES);
        for pause in [None, Some(settle)] {
            let name = if pause.is_none() { "PING, back to back" } else { "PING, after a pause" };
            rounds.add(name, move || {
                let pings = self.stage.run(pings(Arc::clone(&self.plain), window / 4, pause))?;
                Ok(pings.into_iter().collect())
            });
        }
        for row in &self.rows {
            rounds.add(&row.name, move || {
                let plan = row.plan(2, 1, window).holding(settle).by_turns().on_threads();
                Ok(team::play(&self.server, &plan)?.latencies)
            });
        }
        rounds.run(self.effort.rounds.min(if settle == SETTLE { 5 } else { 3 }))
    }

    fn rate(&self) -> Table {
        let all = self.play(2, 1, self.effort.slow_window, Duration::ZERO);
        let mut table = Table::new(
            "Two processes, a task each, that lock one key as fast as they can",
            &["lock", "hand-overs/s", "passes/s", "commands/hand-over", "longest turn", "Jain"],
        );
        let mut bars = Bars::new("Hand-overs per second between two processes");
        each(&all, &mut table, |name, outcome, table| {
            bars.bar(name, outcome.rate());
            table.row([
                name.to_owned(),
                short(outcome.rate()),
                short(outcome.total() as f64 / outcome.elapsed.as_secs_f64()),
                short(outcome.commands as f64 / outcome.handovers as f64),
                format!("{:.1?}", outcome.turns.max()),
                format!("{:.3}", jain(&outcome.by_process())),
            ]);
        });
        table.remark(
            "A pass without a hand-over is one whose holder was the last one too. Of several rounds \
             the one in the middle, by its hand-overs.",
        );
        self.end(&mut table, bars);
        table
    }

    /// The share of the time in which the lock is in use, with long sections.
    fn section(&self, processes: usize) -> Table {
        let window = match self.effort.name {
            "smoke" => self.effort.slow_window,
            _ => SECTION * PASSES * SHARERS as u32,
        };
        let all = self.play(processes, SHARERS / processes, window, SECTION);
        let mut table = Table::new(
            format!("A section of {SECTION:?}, {SHARERS} tasks in {processes} process(es)"),
            &["lock", "in use", "in turn", "wait p50", "max", "Jain", "commands/hand-over"],
        );
        let mut bars = Bars::new("Per cent of the time in use");
        each(&all, &mut table, |name, outcome, table| {
            let in_use = outcome.in_use.as_secs_f64() / outcome.elapsed.as_secs_f64();
            bars.bar(name, in_use * 100.0);
            table.row([
                name.to_owned(),
                format!("{in_use:.3}"),
                format!("{:.3}", outcome.in_turn as f64 / outcome.total() as f64),
                format!("{:.1?}", outcome.waits.quantile(0.5)),
                format!("{:.1?}", outcome.waits.max()),
                format!("{:.3}", jain(&outcome.passes.concat())),
                short(outcome.commands as f64 / outcome.handovers as f64),
            ]);
        });
        table.remark(
            "In use: the share of the time in which a task was in its section. In turn: the share of \
             passes before which all the others had the lock once.",
        );
        self.end(&mut table, bars);
        table
    }

    fn play(
        &self,
        processes: usize,
        tasks: usize,
        window: Duration,
        hold: Duration,
    ) -> Vec<Series<Outcome>> {
        let mut rounds = Rounds::new();
        for row in &self.rows {
            let plan = row.plan(processes, tasks, window).holding(hold);
            rounds.add(&row.name, move || team::play(&self.server, &plan));
        }
        rounds.run(if hold > Duration::ZERO { 1 } else { self.effort.rounds.min(3) })
    }

    fn end(&self, table: &mut Table, bars: Bars) {
        self.absent.iter().for_each(|why| table.remark(why));
        table.plot(bars);
    }
}

/// The figures of a row, compared with the round trips back to back and after a pause.
fn times(series: &Series<Histogram>, [close, paused]: [&Series<Histogram>; 2]) -> [String; 7] {
    let micros = |seconds: f64| format!("{} µs", short(seconds * 1e6));
    let most = |series: &Series<Histogram>| merged(series).quantile(0.99).as_secs_f64();
    [
        series.name.clone(),
        micros(median(&series.figures(half))),
        short(median(&series.ratios(paused, half))),
        micros(most(series)),
        short(most(series) / most(paused)),
        micros(merged(series).max().as_secs_f64()),
        short(median(&series.ratios(close, half))),
    ]
}

fn half(times: &Histogram) -> f64 {
    times.quantile(0.5).as_secs_f64()
}

/// The times of all rounds.
fn merged(series: &Series<Histogram>) -> Histogram {
    let mut all = Histogram::default();
    series.samples.iter().for_each(|times| all.merge(times));
    all
}

/// Shows the median outcome of each row, or says why there is none.
fn each(
    all: &[Series<Outcome>],
    table: &mut Table,
    mut show: impl FnMut(&str, &Outcome, &mut Table),
) {
    for series in all {
        let wrong = series.samples.iter().find_map(|outcome| outcome.verdict().err());
        let failed = series.failure.as_ref().map(|it| format!("left out, it failed: {it}"));
        if let Some(why) = failed.or(wrong) {
            table.remark(format!("{}: {why}.", series.name));
            continue;
        }
        let mut outcomes: Vec<&Outcome> = series.samples.iter().collect();
        outcomes.sort_by(|one, other| one.rate().total_cmp(&other.rate()));
        if let Some(middle) = outcomes.get(outcomes.len() / 2) {
            show(&series.name, middle, table);
        }
    }
}
