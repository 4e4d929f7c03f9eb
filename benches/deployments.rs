//! Uncontended locks over one server, over a cluster and behind sentinels; and what the quarantine of terms and the
//! confirmation by replicas cost. Ratios in one run.

use std::time::Duration;

use lock_benches::contestants::{Ending, Ours};
use lock_benches::measure::{Crowd, Window, calibrate};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, median, per_second, quantile,
    short,
};
use lock_core::AnyBackend;
use lock_redis::RedisBackend;
use lock_sync::Handoff;
use lock_tests::{ClusterNode, RedisCluster, RedisServer, Sentinels};

const ONE: &str = "one server";
/// How many keys are locked in turn, in the rows that do not lock one key all the time.
const ROTATING: usize = 64;
/// How many replicas confirm.
const REPLICAS: u32 = 2;
/// How many tasks lock at once, each a key of its own, beside one task alone.
const TASKS: usize = 64;
/// No server fails.
const PATIENCE: Duration = Duration::from_secs(60);

const COLUMNS: [&str; 8] = [
    "locks over",
    "one key, µs",
    "fastest",
    "× one server",
    "64 keys, µs",
    "fastest",
    "× one server",
    "commands",
];

const CONFIRMED: [&str; 9] = [
    "beside each grant",
    "one task, p50 µs",
    "p99 µs",
    "× nothing more",
    "64 tasks, pairs/s",
    "p50 µs",
    "p99 µs",
    "× nothing more",
    "server CPU, µs/pair",
];

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    deployments(&effort)?;
    confirmation(&effort)
}

/// Locks over several deployments.
fn deployments(effort: &Effort) -> Result<(), Failure> {
    let server = RedisServer::start();
    // Without replicas, which would have a share of the processors of this machine.
    let (cluster, service) = (RedisCluster::start(3, 0), Sentinels::with_patience(0, 3, PATIENCE));
    let nodes = cluster.nodes().iter().map(ClusterNode::server);
    let servers: Vec<&RedisServer> =
        [&server, &service.servers()[0]].into_iter().chain(nodes).collect();
    let urls = [(ONE, server.url()), ("a cluster", cluster.url()), ("sentinels", service.url())];
    for setting in [Setting::Spawned, Setting::CurrentThread] {
        let stage = Stage::new(setting)?;
        let entrants: Vec<Entrant> = urls
            .iter()
            .map(|(name, url)| Ok(Entrant::new(*name, [Ours::redis(url, Ending::Released)?])))
            .collect::<Result<_, Failure>>()?;
        let mut table = Table::new(format!("Acquire and release a free lock: {setting}"), &COLUMNS);
        let one = run(effort, &servers, &stage, &entrants, 1)?;
        let many = run(effort, &servers, &stage, &entrants, ROTATING)?;
        for (at, (name, commands)) in one.commands.iter().enumerate() {
            let mut cells = vec![name.clone()];
            cells.extend(figures(&one.series[at], &one.series[0]));
            cells.extend(figures(&many.series[at], &many.series[0]));
            cells.push(short(*commands));
            table.row(cells);
        }
        table.remark(format!(
            "Medians over {} rounds, the fastest round, and the median of the ratios within each round with its middle \
             half. Commands are those of the network, on one key.",
            effort.rounds
        ));
        table.publish(&format!("deployments-{}", setting.name()))?;
    }
    Ok(())
}

/// What the quarantine of terms and the confirmation cost, at one primary with its replicas.
fn confirmation(effort: &Effort) -> Result<(), Failure> {
    let service = Sentinels::with_patience(REPLICAS as usize, 1, PATIENCE);
    let url = service.servers()[0].url();
    let plain = RedisBackend::open(url.as_str())?;
    let quarantined = RedisBackend::builder(url.as_str()).term_quarantine(true).build()?;
    let confirmed = quarantined.confirming(REPLICAS, Duration::from_millis(500))?;
    let rows = [
        ("nothing more", plain),
        ("the quarantine of terms", quarantined),
        ("confirmation by two replicas", confirmed),
    ];
    let entrants = rows
        .into_iter()
        .map(|(name, backend)| {
            let backend = AnyBackend::new(backend);
            Ok(Entrant::new(name, [Ours::over(backend, Ending::Released, Handoff::default())?]))
        })
        .collect::<Result<Vec<Entrant>, Failure>>()?;
    let stage = Stage::new(Setting::BlockOn)?;
    let [one, many] = [1, TASKS].map(|tasks| crowd(effort, &stage, &url, &entrants, tasks));
    let mut table = Table::new("Free locks at a primary with two replicas", &CONFIRMED);
    for (alone, many_tasks) in one.iter().zip(&many) {
        match alone.failure.as_ref().or(many_tasks.failure.as_ref()) {
            Some(why) => table.remark(format!("{}: {why}", alone.name)),
            None => table.row(confirmed_row([alone, &one[0]], [many_tasks, &many[0]])),
        }
    }
    table.remark(format!(
        "Medians over {} rounds. The times are those to take a lock. The ratios are those of the time of a pair for one \
         task, and of the pairs for {TASKS} tasks, with their middle half. The CPU is that of the primary.",
        effort.rounds
    ));
    Ok(table.publish("deployments-confirmed")?)
}

fn crowd(
    effort: &Effort,
    stage: &Stage,
    url: &str,
    entrants: &[Entrant],
    tasks: usize,
) -> Vec<Series<Window>> {
    let mut rounds = Rounds::new();
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(tasks), effort.window);
            (crowd.waits, crowd.servers) = (true, vec![url.to_owned()]);
            stage.run(entrant.crowd(crowd))
        });
    }
    rounds.run(effort.rounds)
}

/// The cells of a row: of one task and of many tasks, each beside the first row.
fn confirmed_row(
    [alone, alone_base]: [&Series<Window>; 2],
    [many, many_base]: [&Series<Window>; 2],
) -> Vec<String> {
    let rate = |window: &Window| per_second(window.total(), window.elapsed);
    let cpu = |window: &Window| window.server.as_secs_f64() * 1e6 / window.total() as f64;
    let mut cells = vec![alone.name.clone()];
    cells.extend(waits(alone));
    cells.push(ratio(&alone.ratios(alone_base, |it| 1.0 / rate(it))));
    cells.push(short(median(&many.figures(rate))));
    cells.extend(waits(many));
    cells.push(ratio(&many.ratios(many_base, rate)));
    cells.push(short(median(&many.figures(cpu))));
    cells
}

/// The medians over the rounds of p50 and p99, in microseconds.
fn waits(series: &Series<Window>) -> [String; 2] {
    [0.5, 0.99].map(|share| {
        let micros = |window: &Window| {
            let all = window.waits.iter().map(|wait| wait.as_secs_f64() * 1e6);
            quantile(&all.collect::<Vec<_>>(), share)
        };
        short(median(&series.figures(micros)))
    })
}

/// The median of ratios, with their middle half.
fn ratio(ratios: &[f64]) -> String {
    let middle = [0.25, 0.75].map(|share| format!("{:.2}", quantile(ratios, share))).join("–");
    format!("{:.2} ({middle})", median(ratios))
}

struct Outcome {
    series: Vec<Series<Duration>>,
    /// For each pass.
    commands: Vec<(String, f64)>,
}

fn run(
    effort: &Effort,
    servers: &[&RedisServer],
    stage: &Stage,
    entrants: &[Entrant],
    keys: usize,
) -> Result<Outcome, Failure> {
    let mut rounds = Rounds::new();
    let mut commands = Vec::new();
    for entrant in entrants {
        let keys = entrant.keys(keys);
        let pairs = move |count| stage.run(entrant.pairs(&keys, count));
        let count = calibrate(effort, &pairs)?;
        let before: Vec<_> = servers.iter().map(|server| server.commandstats()).collect();
        pairs(count)?;
        let sent = servers
            .iter()
            .zip(&before)
            .map(|(server, before)| entrant.sent(&server.commandstats().since(before)));
        commands.push((entrant.name().to_owned(), sent.sum::<u64>() as f64 / count as f64));
        rounds.add(entrant.name(), move || Ok(pairs(count)?.div_f64(count as f64)));
    }
    Ok(Outcome { series: rounds.run(effort.rounds), commands })
}

/// Microseconds, those of the fastest round, and the ratio to one server with its middle half.
fn figures(series: &Series<Duration>, base: &Series<Duration>) -> [String; 3] {
    let micros = |sample: &Duration| sample.as_secs_f64() * 1e6;
    let ratios = series.ratios(base, micros);
    let all = series.figures(micros);
    [short(median(&all)), short(quantile(&all, 0.0)), ratio(&ratios)]
}
