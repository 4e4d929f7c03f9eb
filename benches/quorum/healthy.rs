//! A quorum with all its servers.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::contestants::{Plain, Raw, quorums};
use lock_benches::{
    Effort, Entrant, Failure, Fleet, NodeRedlock, Rounds, Series, Setting, Stage, Table, median,
    quantile, short,
};
use lock_redis::RedisBackend;

use crate::runner::{NODE, Runner, Turn};

/// How many servers there are.
const SIZES: [usize; 3] = [1, 3, 5];

const PING: &str = "PING";

/// The reference: a lock on one server, without a quorum.
const ONE: &str = "ours, one server, no quorum";

struct Row<'a> {
    name: String,
    runner: Runner,
    fleet: &'a Fleet,
}

const COLUMNS: [&str; 11] = [
    "lock",
    "servers",
    "p50, µs",
    "× one server",
    "spread",
    "× PING",
    "p99, µs",
    "× one server's",
    "commands",
    "client CPU, µs",
    "servers' CPU, µs",
];

/// On servers at this distance, if one is given.
pub(crate) fn table(
    effort: &Effort,
    setting: Setting,
    distance: Option<Duration>,
) -> Result<Table, Failure> {
    let stage = Stage::new(setting)?;
    let fleets = SIZES.map(|servers| match distance {
        Some(distance) => Fleet::far(servers, distance),
        None => Fleet::start(servers),
    });
    for fleet in &fleets {
        let urls = fleet.urls();
        stage.run(async move { quorums::init(&urls).await })?;
    }
    let absent = NodeRedlock::find().err();
    let rows = rows(&fleets, &stage, absent.is_none())?;
    let all = measure(&rows, effort, &stage);

    let mut title =
        format!("Acquire and release a free lock on most of several servers: {setting}");
    if let Some(distance) = distance {
        title += &format!(", {distance:?} away");
    }
    let mut table = Table::new(title, &COLUMNS);
    for (row, series) in rows.iter().zip(&all) {
        if let Some(failure) = &series.failure {
            table.remark(format!("{}: left out, it failed: {failure}", series.name));
            continue;
        }
        table.row(figures(row, series, [&all[0], &all[1]]));
    }
    if let Some(remark) = absent {
        table.remark(remark);
    }
    explain(&mut table, effort, distance.is_some());
    Ok(table)
}

/// What the figures mean.
fn explain(table: &mut Table, effort: &Effort, is_far: bool) {
    if is_far {
        table.remark(
            "Between client and server is a proxy in this process. What it computes is part of the \
             client's CPU, and it sends on what has arrived with the precision of a timer: 1 ms.",
        );
    }
    table.remark(format!(
        "Medians over {} rounds; ratios are the medians of those within each round. A pass acquires and \
         releases, so it is two round trips one after another; PING is one. Commands and CPU are for each \
         pass, CPU that of all threads of this process and of all servers together: on a machine with few \
         cores a pass takes no less than both, divided by the number of cores.",
        effort.rounds
    ));
}

fn rows<'a>(fleets: &'a [Fleet], stage: &Stage, node: bool) -> Result<Vec<Row<'a>>, Failure> {
    let single = &fleets[0];
    let url = single.urls().concat();
    let one = Entrant::new(ONE, [Raw::new(RedisBackend::open(&url)?)]);
    let plain = stage.run(async move { Plain::connect(&url).await })?;
    let row = |name: &str, runner, fleet| Row { name: name.to_owned(), runner, fleet };
    let mut rows =
        vec![row(PING, Runner::Ping(Arc::new(plain)), single), row(ONE, Runner::Lock(one), single)];
    let names = quorums::OURS.into_iter().chain(quorums::PEERS).chain(node.then_some(NODE));
    for name in names {
        for fleet in fleets {
            rows.push(row(name, Runner::named(name, fleet, stage)?, fleet));
        }
    }
    Ok(rows)
}

fn measure(rows: &[Row<'_>], effort: &Effort, stage: &Stage) -> Vec<Series<Turn>> {
    let mut rounds = Rounds::new();
    for Row { name, runner, fleet } in rows {
        let name = format!("{name}, {} servers", fleet.living().len());
        let mut is_warm = false;
        rounds.add(name, move || {
            if !std::mem::replace(&mut is_warm, true) {
                runner.turn(fleet, stage, effort.sample)?;
            }
            let turn = runner.turn(fleet, stage, effort.window)?;
            match &turn.passes.trouble {
                Some(trouble) => Err(trouble.clone().into()),
                None => Ok(turn),
            }
        });
    }
    rounds.run(effort.rounds)
}

fn figures(row: &Row<'_>, series: &Series<Turn>, [ping, one]: [&Series<Turn>; 2]) -> [String; 11] {
    let micros = |figure: fn(&Turn) -> f64| short(median(&series.figures(figure)) * 1e6);
    let to_one = series.ratios(one, Turn::median);
    let spread = [0.25, 0.75].map(|share| format!("{:.2}", quantile(&to_one, share))).join("–");
    [
        row.name.clone(),
        row.fleet.living().len().to_string(),
        micros(Turn::median),
        format!("{:.2}", median(&to_one)),
        spread,
        format!("{:.2}", median(&series.ratios(ping, Turn::median))),
        micros(Turn::p99),
        format!("{:.2}", median(&series.ratios(one, Turn::p99))),
        short(median(&series.figures(Turn::commands))),
        if row.runner.is_here() { micros(Turn::client) } else { String::new() },
        micros(Turn::servers),
    ]
}
