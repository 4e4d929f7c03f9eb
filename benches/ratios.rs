//! Uncontended locks as ratios in one run: all contestants in turn, on one server, in three settings.

use std::time::Duration;

use lock_benches::contestants::{self, COMMITTED, Ending, Ours, PLAIN, RELEASED, Socket, Stored};
use lock_benches::measure::calibrate;
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, median, other_build, quantile,
    short, team,
};
use lock_tests::RedisServer;

/// How many keys are locked in turn, in the rows that do not lock one key all the time.
const ROTATING: usize = 64;

const SOCKET: &str = "blocking socket";
const CACHED: &str = "ours, cached";

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    for setting in Setting::ALL {
        table(&effort, &server, setting)?.publish(&format!("ratios-{}", setting.name()))?;
    }
    Ok(())
}

const COLUMNS: [&str; 7] =
    ["lock", "one key, µs", "× bare client", "spread", "64 keys, µs", "× bare client", "commands"];

fn table(effort: &Effort, server: &RedisServer, setting: Setting) -> Result<Table, Failure> {
    let stage = Stage::new(setting)?;
    let entrants = entrants(server, &stage, setting)?;
    let one = run(effort, server, &stage, &entrants, 1)?;
    let many = run(effort, server, &stage, &entrants, ROTATING)?;

    let mut table = Table::new(format!("Acquire and release a free lock: {setting}"), &COLUMNS);
    for (one_key, many_keys) in one.series.iter().zip(&many.series) {
        let commands = one.commands.iter().find(|(name, _)| *name == one_key.name);
        let mut cells = vec![one_key.name.clone()];
        cells.extend(figures(one_key, &one.series, true));
        cells.extend(figures(many_keys, &many.series, false));
        cells.push(commands.map(|(_, each)| short(*each)).unwrap_or_default());
        table.row(cells);
        for failure in [one_key, many_keys].into_iter().filter_map(|it| it.failure.as_ref()) {
            table.remark(format!("{}: {failure}", one_key.name));
        }
    }
    for (words, series) in [("one key", &one.series), ("64 keys", &many.series)] {
        compare(words, series, &mut table);
    }
    table.remark(format!(
        "Medians over {} rounds; the ratio is the median of the ratios within each round, the \
         spread its middle half. Commands are those of the network, on one key.",
        effort.rounds
    ));
    table.remark(format!("`{CACHED}` keeps the lease for a second: most passes send no request."));
    table.remark(format!(
        "The {SOCKET} sends what the {PLAIN} sends, without any runtime: what is left is kernel and \
         server."
    ));
    Ok(table)
}

fn entrants(
    server: &RedisServer,
    stage: &Stage,
    setting: Setting,
) -> Result<Vec<Entrant>, Failure> {
    let url = server.url();
    let entrants = stage.run({
        let url = url.clone();
        async move { contestants::all(&url).await }
    })?;
    let mut entrants = contestants::beside(entrants, RELEASED, &url, setting)?;
    entrants.push(Entrant::new(COMMITTED, [Stored::redis(&url)?]));
    entrants.push(Entrant::new(CACHED, [Ours::redis(&url, Ending::Dropped)?.cached()]));
    Ok(entrants)
}

struct Outcome {
    series: Vec<Series<Duration>>,
    commands: Vec<(String, f64)>,
}

fn run(
    effort: &Effort,
    server: &RedisServer,
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
        let before = server.commandstats();
        pairs(count)?;
        let sent = entrant.sent(&server.commandstats().since(&before));
        commands.push((entrant.name().to_owned(), sent as f64 / count as f64));
        rounds.add(entrant.name(), move || Ok(pairs(count)?.div_f64(count as f64)));
    }
    let mut socket = Socket::connect(server)?;
    let names: Vec<String> = (0..keys).map(|key| format!("bench:socket:{key:03}")).collect();
    let count = calibrate(effort, |count| socket.pairs(&names, count))?;
    rounds.add(SOCKET, move || Ok(socket.pairs(&names, count)?.div_f64(count as f64)));
    Ok(Outcome { series: rounds.run(effort.rounds), commands })
}

/// Both builds, and the lock with a stored value beside the lock without one, in the same rounds.
fn compare(words: &str, all: &[Series<Duration>], table: &mut Table) {
    let find = |name: &str| all.iter().find(|it| it.name == name && it.failure.is_none());
    if let (Some(ours), Some(other)) = (find(RELEASED), find(&other_build::row(RELEASED))) {
        let compared = ours.compared(other, Duration::as_secs_f64);
        table.remark(format!(
            "`{RELEASED}` takes {compared} the time of the other build, {words}, with the middle half."
        ));
    }
    if let (Some(stored), Some(ours)) = (find(COMMITTED), find(RELEASED)) {
        let compared = stored.compared(ours, Duration::as_secs_f64);
        table.remark(format!(
            "`{COMMITTED}` takes {compared} the time of `{RELEASED}`, {words}, with the middle half."
        ));
    }
}

/// Microseconds, the ratio to the bare client, and maybe the middle half of that.
fn figures(
    series: &Series<Duration>,
    all: &[Series<Duration>],
    spread: bool,
) -> impl Iterator<Item = String> {
    let micros = |sample: &Duration| sample.as_secs_f64() * 1e6;
    let base = all.iter().find(|series| series.name == PLAIN).unwrap_or(series);
    let ratios = series.ratios(base, micros);
    let middle = [0.25, 0.75].map(|share| format!("{:.2}", quantile(&ratios, share))).join("–");
    [short(median(&series.figures(micros))), format!("{:.2}", median(&ratios))]
        .into_iter()
        .chain(spread.then_some(middle))
}
