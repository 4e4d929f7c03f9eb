//! A thousand who wait: what they cost while nothing happens.

use std::sync::Arc;

use lock_benches::measure::{Idle, Idleness};
use lock_benches::plot::Bars;
use lock_benches::{Effort, Failure, Setting, Stage, Table, contestants, short};
use lock_tests::RedisServer;

/// How many wait.
const WAITERS: usize = 1_000;

/// Those whose leases outlast the time. Peers without a queue of their own ask again and again.
const NAMES: [&str; 3] = ["ours, default budget", "rlock", "rslock"];

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = Arc::new(RedisServer::start());
    let stage = Stage::new(Setting::BlockOn)?;
    for (keys, words) in [(1, "one key"), (WAITERS, "a key each")].into_iter().take(effort.sizes) {
        table(&effort, &server, &stage, keys, words).publish(&format!("waiters-{keys}"))?;
    }
    Ok(())
}

fn table(
    effort: &Effort,
    server: &Arc<RedisServer>,
    stage: &Stage,
    keys: usize,
    words: &str,
) -> Table {
    let title = format!("{WAITERS} tasks of one process that wait for {words}");
    let columns = ["lock", "commands/s", "client CPU, % of a core", "server CPU, % of a core"];
    let mut table = Table::new(title, &columns);
    let mut bars = Bars::new(format!("Commands per second, {WAITERS} who wait for {words}"));
    for name in NAMES {
        match idle(effort, server, stage, name, keys) {
            Ok(idle) if idle.intruders > 0 => {
                table.remark(format!("{name}: INCORRECT: {} got in", idle.intruders));
            }
            Ok(idle) => {
                let seconds = idle.elapsed.as_secs_f64();
                let commands = idle.commands as f64 / seconds;
                let per_cent = |busy: f64| short(busy / seconds * 100.0);
                bars.bar(name, commands);
                table.row([
                    name.to_owned(),
                    short(commands),
                    per_cent(idle.cpu.as_secs_f64()),
                    per_cent(idle.server.cpu.as_secs_f64()),
                ]);
            }
            Err(failure) => table.remark(format!("{name}: left out, it failed: {failure}.")),
        }
    }
    table.remark(format!(
        "Over {:?}. Another client of the same process holds the {keys} lock(s): its renewals count, \
         too, and what both clients compute.",
        effort.idle
    ));
    table.plot(bars);
    table
}

fn idle(
    effort: &Effort,
    server: &Arc<RedisServer>,
    stage: &Stage,
    name: &'static str,
    keys: usize,
) -> Result<Idleness, Failure> {
    let url = server.url();
    let entrant = stage.run(async move { contestants::named(name, &url, 2).await })?;
    let plan = Idle::new(WAITERS, entrant.fresh_keys(keys), effort.idle, Arc::clone(server));
    stage.run(entrant.idle(plan))
}
