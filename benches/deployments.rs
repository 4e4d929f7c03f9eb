//! Uncontended locks over one server, over a cluster and behind sentinels, as ratios in one run.

use std::time::Duration;

use lock_benches::contestants::{Ending, Ours};
use lock_benches::measure::calibrate;
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, median, quantile, short,
};
use lock_tests::{ClusterNode, RedisCluster, RedisServer, Sentinels};

const ONE: &str = "one server";
/// How many keys are locked in turn, in the rows that do not lock one key all the time.
const ROTATING: usize = 64;
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

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
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
        let one = run(&effort, &servers, &stage, &entrants, 1)?;
        let many = run(&effort, &servers, &stage, &entrants, ROTATING)?;
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
    let middle = [0.25, 0.75].map(|share| format!("{:.2}", quantile(&ratios, share))).join("–");
    let all = series.figures(micros);
    [short(median(&all)), short(quantile(&all, 0.0)), format!("{:.2} ({middle})", median(&ratios))]
}
