//! One key that many tasks of one process fight over.

use std::time::Duration;

use lock_benches::contestants::{
    self, COMMITTED, Counts, Ending, Local, Ours, Stored, TOKIO, metrics,
};
use lock_benches::measure::{Crowd, Window};
use lock_benches::other_build;
use lock_benches::plot::Lines;
use lock_benches::team::{self, Plan};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, jain, median, per_second,
    quantiles, short,
};
use lock_tests::RedisServer;

const OURS: &str = "ours, dropped";
/// What other benches, and so the other build, call the row of ours.
const SAME: &str = "ours, default budget";
/// With an observer that counts.
const OBSERVED: &str = "ours, dropped, observed";
/// With an observer that counts, and hears of all acquisitions.
const ALL_OBSERVED: &str = "ours, dropped, all observed";
/// With the metrics of lock-telemetry, for Prometheus.
const METRICS: &str = "ours, dropped, metrics";
const IN_MEMORY: &str = "ours in memory, dropped";
const OBSERVED_IN_MEMORY: &str = "ours in memory, dropped, observed";

/// The rounds of contestants with few passes, whatever the effort says.
const ROUNDS: usize = 3;

/// Up to this many tasks, redis-py takes part with a thread for each.
const THREADS: usize = 128;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    let stage = Stage::new(Setting::BlockOn)?;
    let url = server.url();
    let (entrants, absent) = stage.run(async move {
        let absent = contestants::absent_from_waiting(&url).await?;
        Ok((entrants(&url).await?, absent))
    })?;
    let mut lines = Lines::new("Hand-overs per second in one process", "tasks");
    let mut ratios = Table::new("One key, one process: hand-overs per second", &SUMMARY);
    for tasks in [2, 8, 32, 128, 512].into_iter().take(effort.sizes) {
        let (mut table, rates) = table(&effort, &server, &stage, &entrants, tasks);
        summary(&rates, tasks, &mut ratios, &mut lines);
        for why in &absent {
            table.remark(why);
        }
        table.publish(&format!("hot-key-{tasks}"))?;
    }
    ratios.plot(lines);
    ratios.publish("hot-key")?;
    Ok(())
}

const SUMMARY: [&str; 7] = [
    "tasks",
    "`ours, dropped`",
    "tokio",
    "× tokio",
    "fastest correct peer",
    "× that peer",
    "commands each",
];

/// Adds a row for this number of tasks, and a point to each line.
fn summary(rates: &[Rate], tasks: usize, table: &mut Table, lines: &mut Lines) {
    for rate in rates {
        lines.point(&rate.name, tasks as f64, rate.handovers);
    }
    let find = |name: &str| rates.iter().find(|rate| rate.name == name);
    let (Some(ours), Some(tokio)) = (find(OURS), find(TOKIO)) else { return };
    let peers = rates.iter().filter(|rate| rate.peer);
    let best = peers.max_by(|one, other| one.handovers.total_cmp(&other.handovers));
    table.row([
        tasks.to_string(),
        short(ours.handovers),
        short(tokio.handovers),
        short(ours.handovers / tokio.handovers),
        best.map(|best| format!("{}: {}", best.name, short(best.handovers))).unwrap_or_default(),
        best.map(|best| short(ours.handovers / best.handovers)).unwrap_or_default(),
        short(ours.commands),
    ]);
}

/// The figures of a row that the summary needs.
struct Rate {
    name: String,
    peer: bool,
    handovers: f64,
    commands: f64,
}

struct Fighter {
    entrant: Entrant,
    peer: bool,
}

async fn entrants(url: &str) -> Result<Vec<Fighter>, Failure> {
    let own = [
        Entrant::new(TOKIO, [Local::default()]),
        Entrant::new(OURS, [Ours::redis(url, Ending::Dropped)?]),
        Entrant::new("ours, released", [Ours::redis(url, Ending::Released)?]),
        Entrant::new(COMMITTED, [Stored::redis(url)?]),
        Entrant::new(OBSERVED, [Ours::observed(url, Ending::Dropped, Counts, None)?]),
        Entrant::new(ALL_OBSERVED, [Ours::observed(url, Ending::Dropped, Counts, Some(1))?]),
        Entrant::new(METRICS, [Ours::observed(url, Ending::Dropped, metrics()?, None)?]),
        Entrant::new(IN_MEMORY, [Ours::memory(Ending::Dropped)]),
        Entrant::new(OBSERVED_IN_MEMORY, [Ours::observed_in_memory(Ending::Dropped, Counts)?]),
    ];
    let own = contestants::beside(own.into(), SAME, url, Setting::BlockOn)?;
    let own = own.into_iter().map(|entrant| Fighter { entrant, peer: false });
    let peers = contestants::waiting_peers(url, 1).await?.into_iter();
    Ok(own.chain(peers.map(|entrant| Fighter { entrant, peer: true })).collect())
}

const COLUMNS: [&str; 9] = [
    "lock",
    "hand-overs/s",
    "× tokio",
    "passes/s",
    "commands each",
    "wait p50",
    "p99",
    "max",
    "Jain",
];

fn table(
    effort: &Effort,
    server: &RedisServer,
    stage: &Stage,
    fighters: &[Fighter],
    tasks: usize,
) -> (Table, Vec<Rate>) {
    let mut kept = Vec::new();
    let (rates, waits) = fight(effort, server, stage, fighters, tasks);
    let mut table = Table::new(format!("One key, {tasks} tasks of one process"), &COLUMNS);
    for (fighter, series) in fighters.iter().zip(&rates) {
        let waits = waits.iter().find(|waits| waits.name == series.name).unwrap_or(series);
        match verdict(series).and_then(|()| verdict(waits)) {
            Ok(()) => table.row(figures(series, &rates, waits)),
            Err(why) => {
                table.remark(format!("{}: {why}", series.name));
                continue;
            }
        }
        kept.push(Rate {
            name: series.name.clone(),
            peer: fighter.peer,
            handovers: median(&series.figures(rate)),
            commands: median(&series.figures(commands)),
        });
    }
    if tasks <= THREADS {
        redis_py(effort, server, tasks, &mut table, &mut kept);
    }
    compare(&kept, &mut table);
    pairs(&rates, &mut table);
    table.remark(
        "A hand-over is a pass after which the holder is another one; commands are for each of them. \
         A wait that goes on at the end of the window counts with what it has by then.",
    );
    (table, kept)
}

/// Lets the tasks of each fighter fight: for the rates, and for the waits of those that are fast.
fn fight(
    effort: &Effort,
    server: &RedisServer,
    stage: &Stage,
    fighters: &[Fighter],
    tasks: usize,
) -> (Vec<Series<Window>>, Vec<Series<Window>>) {
    let mut rates = Rounds::new();
    let mut waits = Rounds::new();
    for fighter in fighters {
        let window = if fighter.peer { effort.slow_window } else { effort.window };
        let crowd = move |waits: bool| {
            let entrant = &fighter.entrant;
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(1), window);
            (crowd.servers, crowd.waits) = (vec![server.url()], waits);
            stage.run(entrant.crowd(crowd))
        };
        // To read the clock twice in each pass slows down only the fast contestants.
        rates.add(fighter.entrant.name(), move || crowd(fighter.peer));
        if !fighter.peer {
            waits.add(fighter.entrant.name(), move || crowd(true));
        }
    }
    (rates.run(effort.rounds.min(ROUNDS)), waits.run(1))
}

/// What observers cost, and what the present build costs beside the other one, round by round.
fn pairs(all: &[Series<Window>], table: &mut Table) {
    let observed = [OBSERVED, ALL_OBSERVED, METRICS].map(|name| (name, OURS.to_owned()));
    let others = [(OBSERVED_IN_MEMORY, IN_MEMORY.to_owned()), (OURS, other_build::row(SAME))];
    for (name, base) in observed.into_iter().chain(others) {
        let find = |name: &str| all.iter().find(|it| it.name == name && it.failure.is_none());
        if let (Some(series), Some(base)) = (find(name), find(&base)) {
            let compared = |figure: fn(&Window) -> f64| series.compared(base, figure);
            table.remark(format!(
                "`{name}` beside `{}`, with the middle half: {} the passes, {} the CPU time of each.",
                base.name,
                compared(passes),
                compared(cpu)
            ));
        }
    }
}

fn compare(kept: &[Rate], table: &mut Table) {
    let ours = kept.iter().find(|rate| rate.name == OURS);
    let peers = kept.iter().filter(|rate| rate.peer);
    let best = peers.max_by(|one, other| one.handovers.total_cmp(&other.handovers));
    if let (Some(ours), Some(best)) = (ours, best) {
        let ratio = short(ours.handovers / best.handovers);
        table.remark(format!("`{OURS}` is {ratio} × the fastest correct peer, {}.", best.name));
    }
}

/// The rows of redis-py: a process of its own, with a thread for each task.
fn redis_py(
    effort: &Effort,
    server: &RedisServer,
    tasks: usize,
    table: &mut Table,
    kept: &mut Vec<Rate>,
) {
    if let Err(why) = team::python() {
        table.remark(why);
        return;
    }
    for name in team::REDIS_PY {
        let outcome = team::play(server, &Plan::new(name, 1, tasks, effort.slow_window))
            .map_err(|failure| format!("left out, it failed: {failure}"))
            .and_then(|outcome| outcome.verdict().map(|()| outcome));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(why) => {
                table.remark(format!("{name}: {why}"));
                continue;
            }
        };
        let each = outcome.commands as f64 / outcome.handovers as f64;
        table.row([
            name.to_owned(),
            short(outcome.rate()),
            String::new(),
            short(per_second(outcome.total(), outcome.elapsed)),
            short(each),
            format!("{:.1?}", outcome.waits.quantile(0.5)),
            format!("{:.1?}", outcome.waits.quantile(0.99)),
            format!("{:.1?}", outcome.waits.max()),
            format!("{:.3}", jain(&outcome.passes.concat())),
        ]);
        let (name, handovers) = (name.to_owned(), outcome.rate());
        kept.push(Rate { name, peer: true, handovers, commands: each });
    }
}

fn commands(window: &Window) -> f64 {
    window.commands as f64 / window.handovers as f64
}

fn passes(window: &Window) -> f64 {
    per_second(window.total(), window.elapsed)
}

/// The CPU time of the process for each pass, in nanoseconds.
fn cpu(window: &Window) -> f64 {
    window.cpu.as_secs_f64() * 1e9 / window.total() as f64
}

fn rate(window: &Window) -> f64 {
    per_second(window.handovers, window.elapsed)
}

fn figures(series: &Series<Window>, all: &[Series<Window>], waits: &Series<Window>) -> [String; 9] {
    let base = all.iter().find(|series| series.name == TOKIO).unwrap_or(series);
    let times: Vec<Duration> = waits.samples.iter().flat_map(|it| it.waits.clone()).collect();
    let [half, most, max] = quantiles(&times).map(|time| format!("{time:.1?}"));
    [
        series.name.clone(),
        short(median(&series.figures(rate))),
        short(median(&series.ratios(base, rate))),
        short(median(&series.figures(|window| per_second(window.total(), window.elapsed)))),
        short(median(&series.figures(commands))),
        half,
        most,
        max,
        format!("{:.3}", median(&series.figures(|window| jain(&window.passes)))),
    ]
}

/// Whether the figures mean anything.
fn verdict(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let lost: u64 = series.samples.iter().map(|window| window.lost).sum();
    let total: u64 = series.samples.iter().map(Window::total).sum();
    match lost {
        0 => Ok(()),
        _ => {
            Err(format!("INCORRECT: {lost} updates lost, beside {total} passes that were counted"))
        }
    }
}
