//! Many tasks of one process, each on a key of its own: throughput, and what a pair costs the server and the
//! client.

use lock_benches::contestants::{
    self, DistributedLock, Ending, Ours, PLAIN, RELEASED, RSLOCK, RedisLock, Rlock, Rslock,
};
use lock_benches::measure::{Crowd, Window};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, median, other_build,
    per_second, short, team,
};
use lock_tests::RedisServer;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    let stage = Stage::new(Setting::BlockOn)?;
    let url = server.url();
    let entrants = stage.run(async move { entrants(&url).await })?;
    let entrants = contestants::beside(entrants, RELEASED, &server.url(), Setting::BlockOn)?;
    for tasks in [64, 512].into_iter().take(effort.sizes) {
        let all = measure(&effort, &server, &stage, &entrants, tasks);
        table(&effort, &all, tasks).publish(&format!("many-keys-{tasks}"))?;
    }
    Ok(())
}

/// All rows except `redlock`, which opens two connections for each pass, so that its row would measure little else.
async fn entrants(url: &str) -> Result<Vec<Entrant>, Failure> {
    let mut entrants = contestants::ours_and_plain(url).await?;
    entrants.extend([
        Entrant::new("rlock", [Rlock::connect(url).await?]),
        Entrant::new(RSLOCK, [Rslock::connect(url)?]),
        Entrant::new("redis-lock", [RedisLock::connect(url).await?]),
        Entrant::new("distributed-lock-redis", [DistributedLock::connect(url).await?]),
    ]);
    // Over memory the store costs almost nothing, so this row shows our own part.
    entrants.push(Entrant::new("ours in memory, released", [Ours::memory(Ending::Released)]));
    Ok(entrants)
}

fn measure(
    effort: &Effort,
    server: &RedisServer,
    stage: &Stage,
    entrants: &[Entrant],
    tasks: usize,
) -> Vec<Series<Window>> {
    let mut rounds = Rounds::new();
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(tasks), effort.window);
            crowd.servers = vec![server.url()];
            stage.run(entrant.crowd(crowd))
        });
    }
    rounds.run(effort.rounds)
}

fn table(effort: &Effort, all: &[Series<Window>], tasks: usize) -> Table {
    let columns = [
        "lock",
        "pairs/s",
        "× bare client",
        "server CPU, µs/pair",
        "client CPU, µs/pair",
        "× rslock",
        "commands/pair",
    ];
    let mut table = Table::new(format!("{tasks} tasks, each on a key of its own"), &columns);
    for series in all {
        match verdict(series) {
            Ok(()) => table.row(figures(series, all)),
            Err(why) => table.remark(format!("{}: {why}", series.name)),
        }
    }
    compare(all, &mut table);
    table.remark(format!(
        "Medians over {} rounds on a multi-thread runtime; ratios are the medians of those within \
         each round. `{PLAIN}` sends `SET NX PX`, and a script that compares and deletes.",
        effort.rounds
    ));
    table.remark(
        "The server's CPU is `used_cpu_user` and `used_cpu_sys` of its INFO, at the end of the window \
         less at its beginning: user and system time of all its threads. The client's is that of all \
         threads of this process, or of that of the other build. `× rslock` is about the client's.",
    );
    table.remark(
        "A guard that is dropped leaves its lease to the next task of the process that asks before \
         the release has left. Here that is the same task, so few of those passes reach the server.",
    );
    table
}

/// Both builds in the same rounds.
fn compare(all: &[Series<Window>], table: &mut Table) {
    let find = |name: &str| all.iter().find(|it| it.name == name && verdict(it).is_ok());
    let (ours, other) = (find(RELEASED), find(&other_build::row(RELEASED)));
    let (Some(ours), Some(other)) = (ours, other) else { return };
    let compared = |figure: fn(&Window) -> f64| ours.compared(other, figure);
    table.remark(format!(
        "`{RELEASED}` beside the other build, with the middle half: {} the pairs, {} the server's CPU, {} \
         the client's CPU.",
        compared(rate),
        compared(server),
        compared(client)
    ));
}

fn rate(window: &Window) -> f64 {
    per_second(window.total(), window.elapsed)
}

/// Microseconds for each pair.
fn server(window: &Window) -> f64 {
    window.server.as_secs_f64() * 1e6 / window.total() as f64
}

/// Microseconds for each pair.
fn client(window: &Window) -> f64 {
    window.cpu.as_secs_f64() * 1e6 / window.total() as f64
}

fn figures(series: &Series<Window>, all: &[Series<Window>]) -> [String; 7] {
    let ratio = |name: &str, figure: fn(&Window) -> f64| {
        let base = all.iter().find(|series| series.name == name && series.failure.is_none());
        format!("{:.2}", base.map_or(f64::NAN, |base| median(&series.ratios(base, figure))))
    };
    [
        series.name.clone(),
        short(median(&series.figures(rate))),
        ratio(PLAIN, rate),
        short(median(&series.figures(server))),
        short(median(&series.figures(client))),
        ratio(RSLOCK, client),
        short(median(&series.figures(|it| it.commands as f64 / it.total() as f64))),
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
