//! The cost of a thousand waiters while nothing happens.

use std::time::Duration;

use lock_benches::measure::{Idle, Idleness};
use lock_benches::plot::Bars;
use lock_benches::{
    Effort, Entrant, Failure, Setting, Stage, Table, contestants, other_build, short, team,
};
use lock_tests::RedisServer;

/// The number of waiters.
const WAITERS: usize = 1_000;

/// Our own row.
const OURS: &str = "ours, default budget";

/// The contestants whose leases outlast the measurement. Peers have no queue, so they ask again and again.
const NAMES: [&str; 3] = [OURS, "rlock", "rslock"];

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    let stage = Stage::new(Setting::BlockOn)?;
    for (keys, words) in [(1, "one key"), (WAITERS, "a key each")].into_iter().take(effort.sizes) {
        table(&effort, &server, &stage, keys, words)?.publish(&format!("waiters-{keys}"))?;
    }
    Ok(())
}

fn table(
    effort: &Effort,
    server: &RedisServer,
    stage: &Stage,
    keys: usize,
    words: &str,
) -> Result<Table, Failure> {
    let title = format!("{WAITERS} tasks of one process that wait for {words}");
    let mut table = Table::new(title, &COLUMNS);
    let mut bars = Bars::new(format!("Commands per second, {WAITERS} waiters for {words}"));
    let elsewhere = other_build::program().map(|_| (OURS, true));
    let rows = NAMES.into_iter().map(|name| (name, false)).chain(elsewhere);
    for (name, elsewhere) in rows {
        let Some(entrant) = entrant(server, stage, name, elsewhere)? else { continue };
        let name = entrant.name();
        let keys = entrant.fresh_keys(keys);
        let plan = Idle::new(WAITERS, keys, effort.idle, vec![server.url()]);
        match stage.run(entrant.idle(plan)) {
            Ok(idle) if idle.intruders > 0 => {
                table.remark(format!("{name}: INCORRECT: {} got in", idle.intruders));
            }
            Ok(idle) => {
                bars.bar(name, idle.all.rate());
                table.row(figures(name, &idle));
            }
            Err(failure) => table.remark(format!("{name}: left out, it failed: {failure}.")),
        }
    }
    table.remark(format!(
        "Over {:?}. Another client of the same process holds the {keys} lock(s): what both clients \
         compute counts.",
        effort.idle
    ));
    table.remark(
        "The commands of the holders, which renew, were counted before anything waited. The rest are \
         those of the waiters, which keep their places or try again.",
    );
    table.plot(bars);
    Ok(table)
}

const COLUMNS: [&str; 6] = [
    "lock",
    "commands/s",
    "of the holders",
    "of the waiters",
    "client CPU, % of a core",
    "server CPU, % of a core",
];

/// The entrant of a row. It exists only while it is measured.
fn entrant(
    server: &RedisServer,
    stage: &Stage,
    name: &'static str,
    elsewhere: bool,
) -> Result<Option<Entrant>, Failure> {
    let url = server.url();
    if elsewhere {
        return Entrant::of_other_build(name, &url, Setting::BlockOn);
    }
    stage.run(async move { contestants::named(name, &url, 2).await }).map(Some)
}

fn figures(name: &str, idle: &Idleness) -> [String; 6] {
    let per_cent =
        |time: Duration| short(time.as_secs_f64() / idle.all.elapsed.as_secs_f64() * 1e2);
    [
        name.to_owned(),
        short(idle.all.rate()),
        short(idle.holders.rate()),
        short((idle.all.rate() - idle.holders.rate()).max(0.0)),
        per_cent(idle.all.cpu),
        per_cent(idle.all.server),
    ]
}
