//! Many tasks of one process, each on a key of its own: throughput, and what it costs the client.

use std::sync::Arc;

use lock_benches::contestants::{
    self, DistributedLock, Ending, Ours, PLAIN, RedisLock, Rlock, Rslock,
};
use lock_benches::measure::{Crowd, Window};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, median, per_second, short,
};
use lock_tests::RedisServer;

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = Arc::new(RedisServer::start());
    let stage = Stage::new(Setting::BlockOn)?;
    let url = server.url();
    let entrants = stage.run(async move { entrants(&url).await })?;
    for tasks in [64, 512].into_iter().take(effort.sizes) {
        table(&effort, &server, &stage, &entrants, tasks).publish(&format!("many-keys-{tasks}"))?;
    }
    Ok(())
}

/// All but `redlock`: it opens two connections for each pass, and would measure little else.
async fn entrants(url: &str) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = contestants::ours_and_plain(url).await?;
    entrants.extend([
        Entrant::new("rlock", [Rlock::connect(url).await?]),
        Entrant::new("rslock", [Rslock::connect(url)?]),
        Entrant::new("redis-lock", [RedisLock::connect(url).await?]),
        Entrant::new("distributed-lock-redis", [DistributedLock::connect(url).await?]),
    ]);
    // What is left when the store costs nothing: our own part.
    entrants.push(Entrant::new("ours in memory, released", [Ours::memory(Ending::Released)]));
    Ok(entrants)
}

fn table(
    effort: &Effort,
    server: &Arc<RedisServer>,
    stage: &Stage,
    entrants: &[Entrant],
    tasks: usize,
) -> Table {
    let mut rounds = Rounds::new();
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(tasks), effort.window);
            crowd.servers = vec![Arc::clone(server)];
            stage.run(entrant.crowd(crowd))
        });
    }
    let all = rounds.run(effort.rounds);

    let mut table = Table::new(
        format!("{tasks} tasks, each on a key of its own"),
        &["lock", "pairs/s", "× bare client", "client CPU, µs/pair", "commands/pair"],
    );
    for series in &all {
        match verdict(series) {
            Ok(()) => table.row(figures(series, &all)),
            Err(why) => table.remark(format!("{}: {why}", series.name)),
        }
    }
    table.remark(format!(
        "Medians over {} rounds on a multi-thread runtime. CPU is that of all threads of this \
         process; the server's is not in it.",
        effort.rounds
    ));
    table.remark(
        "A guard that is dropped leaves its lease to the next task of the process that asks before \
         the release has left. Here that is the same task, so few of those passes reach the server.",
    );
    table
}

fn figures(series: &Series<Window>, all: &[Series<Window>]) -> [String; 5] {
    let rate = |window: &Window| per_second(window.total(), window.elapsed);
    let each = |value: f64, window: &Window| value / window.total() as f64;
    let base = all.iter().find(|series| series.name == PLAIN).unwrap_or(series);
    [
        series.name.clone(),
        short(median(&series.figures(rate))),
        format!("{:.2}", median(&series.ratios(base, rate))),
        short(median(&series.figures(|it| each(it.cpu.as_secs_f64() * 1e6, it)))),
        short(median(&series.figures(|it| each(it.commands as f64, it)))),
    ]
}

/// Whether the figures mean anything.
fn verdict(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(failure.to_string());
    }
    let lost: u64 = series.samples.iter().map(|window| window.lost).sum();
    if lost > 0 { Err(format!("INCORRECT: {lost} updates lost")) } else { Ok(()) }
}
