//! One key that the tasks of several processes fight over.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::contestants::Plain;
use lock_benches::measure::pings;
use lock_benches::plot::Bars;
use lock_benches::team::{self, Outcome, Row};
use lock_benches::{
    Effort, Failure, Rounds, Series, Setting, Stage, Table, jain, median, quantiles, short,
};
use lock_tests::RedisServer;

/// Tasks of each process.
const TASKS: usize = 16;

/// The number of rounds, whatever the effort says: a team takes longer than its window.
const ROUNDS: usize = 3;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    for processes in [4, 8].into_iter().take(effort.sizes) {
        table(&effort, &server, processes)?.publish(&format!("processes-{processes}"))?;
    }
    Ok(())
}

/// The outcome of one turn: of the team, or of the server's round trips.
enum Sample {
    Team(Box<Outcome>),
    Ping(f64),
}

const COLUMNS: [&str; 12] = [
    "lock",
    "hand-overs/s",
    "per PING",
    "commands each",
    "server CPU, µs each",
    "client CPU, µs each",
    "wait p50",
    "p99",
    "max",
    "longest turn",
    "Jain, processes",
    "Jain, tasks",
];

fn table(effort: &Effort, server: &RedisServer, processes: usize) -> Result<Table, Failure> {
    let (rows, absent) = Row::all();
    let all = measure(effort, server, processes, &rows)?;
    let [ping, ping_to_a_thread] = [&all[0], &all[1]].map(|series| {
        median(&series.figures(|sample| match sample {
            Sample::Ping(seconds) => *seconds,
            Sample::Team(_) => f64::NAN,
        }))
    });

    let title = format!("One key, {processes} processes with {TASKS} tasks each");
    let mut table = Table::new(title, &COLUMNS);
    let mut bars =
        Bars::new(format!("Hand-overs per second, {processes} processes × {TASKS} tasks"));
    let mut rates = Vec::new();
    for (row, series) in rows.iter().zip(&all[2..]) {
        let teams = match teams(series) {
            Ok(teams) => teams,
            Err(why) => {
                table.remark(format!("{}: {why}.", series.name));
                continue;
            }
        };
        let rate = middle(&teams, Outcome::rate);
        bars.bar(&series.name, rate);
        rates.push((row, rate));
        table.row(figures(&series.name, &teams, ping));
    }
    compare(&rates, &mut table);
    explain([ping, ping_to_a_thread], &mut table);
    absent.into_iter().for_each(|why| table.remark(why));
    table.plot(bars);
    Ok(table)
}

/// Two round trips, and then the rows.
fn measure(
    effort: &Effort,
    server: &RedisServer,
    processes: usize,
    rows: &[Row],
) -> Result<Vec<Series<Sample>>, Failure> {
    let pingers = [Setting::CurrentThread, Setting::BlockOn].map(|it| Pinger::new(server, it));
    let mut rounds = Rounds::new();
    for pinger in pingers {
        let pinger = pinger?;
        let time = effort.window / 4;
        rounds.add("PING", move || Ok(Sample::Ping(pinger.round_trip(time)?)));
    }
    for row in rows {
        let plan = row.plan(processes, TASKS, effort.slow_window);
        rounds.add(&row.name, move || Ok(Sample::Team(Box::new(team::play(server, &plan)?))));
    }
    Ok(rounds.run(effort.rounds.min(ROUNDS)))
}

fn compare(rates: &[(&Row, f64)], table: &mut Table) {
    let peers = rates.iter().filter(|(row, _)| !row.ours);
    let Some((peer, best)) = peers.max_by(|one, other| one.1.total_cmp(&other.1)) else { return };
    for (row, rate) in rates.iter().filter(|(row, _)| row.ours) {
        let (name, ratio, peer) = (&row.name, short(rate / best), &peer.name);
        table.remark(format!("`{name}` is {ratio} × the fastest correct peer, {peer}."));
    }
}

fn explain([ping, ping_to_a_thread]: [f64; 2], table: &mut Table) {
    table.remark(format!(
        "A PING of the bare client took {:.1} µs while no other client was there, on a runtime with one \
         thread as the members have it; {:.1} µs if the connection lives on another thread than the \
         one that asks. A turn is the time for which a process had the lock without an interruption; \
         the longest is that of all rounds.",
        ping * 1e6,
        ping_to_a_thread * 1e6
    ));
    table.remark(
        "Commands and CPU are for each hand-over; CPU is that of all processes together. A wait that \
         goes on at the end of the window counts with what it has by then; one as long as the window \
         means that some waited all the time.",
    );
}

/// The bare client on a runtime of its own.
struct Pinger {
    stage: Stage,
    plain: Arc<Plain>,
}

impl Pinger {
    fn new(server: &RedisServer, setting: Setting) -> Result<Self, Failure> {
        let stage = Stage::new(setting)?;
        let url = server.url();
        let plain = Arc::new(stage.run(async move { Plain::connect(&url).await })?);
        Ok(Self { stage, plain })
    }

    /// How many seconds a round trip takes.
    fn round_trip(&self, time: Duration) -> Result<f64, Failure> {
        let pings = self.stage.run(pings(Arc::clone(&self.plain), time, None))?;
        Ok(quantiles(&pings)[0].as_secs_f64())
    }
}

/// The outcomes, if they mean anything.
fn teams(series: &Series<Sample>) -> Result<Vec<&Outcome>, String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let teams = series.samples.iter().filter_map(|sample| match sample {
        Sample::Team(outcome) => Some(&**outcome),
        Sample::Ping(_) => None,
    });
    teams.map(|outcome| outcome.verdict().map(|()| outcome)).collect()
}

fn figures(name: &str, teams: &[&Outcome], ping: f64) -> [String; 12] {
    let each = |it: &Outcome| it.commands as f64 / it.handovers as f64;
    let by_task = |it: &Outcome| jain(&it.passes.concat());
    let mut waits = teams[0].waits.clone();
    let mut turns = teams[0].turns.clone();
    for outcome in &teams[1..] {
        waits.merge(&outcome.waits);
        turns.merge(&outcome.turns);
    }
    [
        name.to_owned(),
        short(middle(teams, Outcome::rate)),
        short(middle(teams, Outcome::rate) * ping),
        short(middle(teams, each)),
        short(middle(teams, |it| it.server.as_secs_f64() * 1e6 / it.handovers as f64)),
        short(middle(teams, |it| it.cpu.as_secs_f64() * 1e6 / it.handovers as f64)),
        format!("{:.1?}", waits.quantile(0.5)),
        format!("{:.1?}", waits.quantile(0.99)),
        format!("{:.1?}", waits.max()),
        format!("{:.1?}", turns.max()),
        format!("{:.3}", middle(teams, |it| jain(&it.by_process()))),
        format!("{:.3}", middle(teams, by_task)),
    ]
}

fn middle(teams: &[&Outcome], figure: impl Fn(&Outcome) -> f64) -> f64 {
    median(&teams.iter().map(|outcome| figure(outcome)).collect::<Vec<_>>())
}
