//! One key under which some tasks read and some write.

use lock_benches::contest::{Processes, Tasks, in_one_process, summary};
use lock_benches::contestants::rwlocks::{IN_PROCESS, OURS, PEERS, TOKIO};
use lock_benches::plot::Lines;
use lock_benches::{Effort, Failure, Rule, Setting, Stage, Table, team};
use lock_tests::RedisServer;

/// The name of each measurement, how many of a hundred passes only read, and the prefix of its files.
const MIXES: [(&str, u32, &str); 3] = [
    ("readers only, who share a lease", 100, "readers"),
    ("95 % reads", 95, "reads"),
    ("50 % reads", 50, "writes"),
];

/// The number of processes, and the tasks of each.
const PROCESSES: usize = 4;
const TASKS: usize = 16;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    let stage = Stage::new(Setting::BlockOn)?;
    let mut ratios =
        Table::new("Readers and writers, one process: passes per second", &summary("tasks"));
    for (what, reads, file) in MIXES {
        let mut lines = Lines::new(format!("Passes per second, one process, {what}"), "tasks");
        for tasks in [2, 8, 64].into_iter().take(effort.sizes) {
            let plan = Tasks {
                title: format!("One key, {tasks} tasks of one process, {what}"),
                rule: Rule::ReadWrite { reads },
                tasks,
                tokio: TOKIO,
                ours: &IN_PROCESS,
                peers: &PEERS,
            };
            let (table, rates) = in_one_process(&plan, &effort, &server, &stage)?;
            let what = format!("{tasks}, {what}");
            plan.sum_up(what, tasks as f64, &rates, &mut ratios, Some(&mut lines));
            table.publish(&format!("rwlock-{file}-{tasks}"))?;
        }
        ratios.plot(lines);
    }
    ratios.publish("rwlock")?;

    for (what, reads, file) in &MIXES[1..] {
        let plan = Processes {
            title: format!("One key, {PROCESSES} processes with {TASKS} tasks each, {what}"),
            rule: Rule::ReadWrite { reads: *reads },
            processes: PROCESSES,
            tasks: TASKS,
            ours: &OURS,
            peers: &PEERS,
        };
        plan.table(&effort, &server).publish(&format!("rwlock-{file}-processes"))?;
    }
    Ok(())
}
