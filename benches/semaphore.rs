//! One key with several permits.

use lock_benches::contest::{Processes, Tasks, in_one_process, summary};
use lock_benches::contestants::semaphores::{IN_PROCESS, OURS, PEERS, TOKIO};
use lock_benches::plot::Lines;
use lock_benches::{Effort, Failure, Rule, Setting, Stage, Table, team};
use lock_tests::RedisServer;

/// How many permits there are, and how many tasks of one process want one.
///
/// There are four tasks for each permit. In the last case there are as many tasks as permits, so that no task waits.
const SIZES: [(u32, usize); 4] = [(1, 4), (8, 32), (64, 256), (64, 64)];

/// How many permits there are, and how many tasks of each process want one: four for each permit, but no
/// more than sixteen.
const SHARED: [(u32, u32); 3] = [(1, 1), (8, 8), (64, 16)];
const PROCESSES: usize = 4;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = RedisServer::start();
    one_process(&effort, &server)?;
    for (permits, tasks) in SHARED.into_iter().take(effort.sizes) {
        let plan = several_processes(permits, tasks);
        plan.table(&effort, &server).publish(&format!("semaphore-{permits}-processes"))?;
    }
    Ok(())
}

fn one_process(effort: &Effort, server: &RedisServer) -> Result<(), Failure> {
    let stage = Stage::new(Setting::BlockOn)?;
    let mut ratios = Table::new("Semaphores, one process: passes per second", &summary("permits"));
    let mut lines =
        Lines::new("Passes per second, one process, four tasks for each permit", "permits");
    for (permits, tasks) in SIZES.into_iter().take(effort.sizes) {
        let plan = Tasks {
            title: format!("{}, {tasks} tasks of one process", count(permits, "permit")),
            rule: Rule::Permits(permits),
            tasks,
            tokio: TOKIO,
            ours: &IN_PROCESS,
            peers: &PEERS,
        };
        let (table, rates) = in_one_process(&plan, effort, server, &stage)?;
        // The case without waiters does not belong on the lines.
        let lines = (tasks > permits as usize).then_some(&mut lines);
        let what = format!("{permits}, {tasks} tasks");
        plan.sum_up(what, f64::from(permits), &rates, &mut ratios, lines);
        table.publish(&format!("semaphore-{permits}-{tasks}"))?;
    }
    ratios.plot(lines);
    ratios.publish("semaphore")?;
    Ok(())
}

fn several_processes(permits: u32, tasks: u32) -> Processes {
    Processes {
        title: format!(
            "{}, {PROCESSES} processes with {} each",
            count(permits, "permit"),
            count(tasks, "task")
        ),
        rule: Rule::Permits(permits),
        processes: PROCESSES,
        tasks: tasks as usize,
        ours: &OURS,
        peers: &PEERS,
    }
}

fn count(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
