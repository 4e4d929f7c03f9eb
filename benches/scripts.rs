//! The cost of single requests for the server, and the memory that a name takes there: our backend beside the commands
//! that the documentation of Redis recommends.

use std::sync::Arc;

use lock_benches::contestants::{PLAIN, Plain, Raw};
use lock_benches::measure::{self, AT_ONCE, Room, VerbCost};
use lock_benches::other_build::{self, OtherBuild};
use lock_benches::{
    Effort, Failure, Rounds, Series, Setting, Stage, Table, median, quantile, short, team,
};
use lock_redis::RedisBackend;
use lock_tests::RedisServer;

const OURS: &str = "ours, backend";

/// Each request, and what the bare client sends for it.
const VERBS: [(&str, &str); 3] = [
    ("acquire", "`SET NX PX`"),
    ("renew", "compare and `PEXPIRE`"),
    ("release", "compare and `DEL`"),
];

/// How many names are locked and released to measure the memory that they take.
const NAMES: usize = 20_000;

fn main() -> Result<(), Failure> {
    if team::is_member() {
        return team::serve();
    }
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let stage = Stage::new(Setting::CurrentThread)?;
    let other = OtherBuild::start(Setting::CurrentThread)?;
    verbs_table(&effort, &verbs(&effort, &stage, other.as_ref())?).publish("scripts-verbs")?;
    memory(&effort, &stage, other.as_ref())?.publish("scripts-memory")?;
    Ok(())
}

/// Measures all contestants in turn on one server. Each has its own keys.
fn verbs(
    effort: &Effort,
    stage: &Stage,
    other: Option<&OtherBuild>,
) -> Result<Vec<Series<[VerbCost; 3]>>, Failure> {
    let server = RedisServer::start();
    let (url, time) = (server.url(), effort.window);
    let plain = stage.run({
        let url = url.clone();
        async move { Ok(Arc::new(Plain::connect(&url).await?)) }
    })?;
    let ours = Arc::new(Raw::new(RedisBackend::open(&url)?));
    let names = |whose: &str| -> Vec<String> {
        (0..AT_ONCE).map(|key| format!("verbs:{whose}:{key:03}")).collect()
    };
    let mut rounds = Rounds::new();
    rounds.add(PLAIN, || {
        stage.run(measure::verbs(Arc::clone(&plain), url.clone(), names("plain"), time))
    });
    rounds.add(OURS, || {
        stage.run(measure::verbs(Arc::clone(&ours), url.clone(), names("ours"), time))
    });
    if let Some(other) = other {
        rounds.add(other_build::row(OURS), || other.verbs(&url, &names("other"), time));
    }
    Ok(rounds.run(effort.rounds))
}

fn verbs_table(effort: &Effort, all: &[Series<[VerbCost; 3]>]) -> Table {
    let columns = [
        "request",
        "server CPU, µs each",
        "× plain",
        "spread",
        "in commands, µs each",
        "× plain",
        "commands each",
    ];
    let title = format!("What a request costs the server, {AT_ONCE} keys at once");
    let mut table = Table::new(title, &columns);
    for (number, (verb, plain)) in VERBS.into_iter().enumerate() {
        for series in all.iter().filter(|series| series.failure.is_none()) {
            let who = if series.name == PLAIN { plain } else { &series.name };
            table.row(figures(format!("{verb}: {who}"), number, series, &all[0]));
        }
    }
    for series in all {
        if let Some(failure) = &series.failure {
            table.remark(format!("{}: left out, it failed: {failure}.", series.name));
        }
    }
    compare(all, &mut table);
    table.remark(format!(
        "Medians over {} rounds. All keys are acquired at once over one connection, then renewed, then \
         released, again and again; ratios are to the bare client's requests in the same round, the \
         spread is the middle half. The backend is asked through `lock_core::Backend`.",
        effort.rounds
    ));
    table.remark(
        "The server's CPU is `used_cpu_user` and `used_cpu_sys` of its INFO: with what it needs to read \
         requests, to find the script and to write replies. In commands it is by its own \
         count, `usec` of INFO commandstats: `EVALSHA` with all that the script calls, or `SET`. That \
         is elapsed time, and grows where the server has to wait for a processor.",
    );
    table
}

/// Both builds in the same rounds.
fn compare(all: &[Series<[VerbCost; 3]>], table: &mut Table) {
    let [_, ours, other] = all else { return };
    if ours.failure.is_some() || other.failure.is_some() {
        return;
    }
    for (number, (verb, _)) in VERBS.into_iter().enumerate() {
        let compared = ours.compared(other, |costs| costs[number].cpu_each());
        table.remark(format!(
            "To {verb} takes {compared} the server's CPU of the other build, with the middle half."
        ));
    }
}

fn figures(
    name: String,
    verb: usize,
    series: &Series<[VerbCost; 3]>,
    plain: &Series<[VerbCost; 3]>,
) -> [String; 7] {
    let cpu = |costs: &[VerbCost; 3]| costs[verb].cpu_each() * 1e6;
    let busy = |costs: &[VerbCost; 3]| costs[verb].busy_each() * 1e6;
    let ratios = series.ratios(plain, cpu);
    [
        name,
        short(median(&series.figures(cpu))),
        format!("{:.2}", median(&ratios)),
        [0.25, 0.75].map(|share| format!("{:.2}", quantile(&ratios, share))).join("–"),
        short(median(&series.figures(busy))),
        format!("{:.2}", median(&series.ratios(plain, busy))),
        short(median(&series.figures(|costs| costs[verb].commands_each()))),
    ]
}

/// Measures each contestant on a new server.
fn memory(effort: &Effort, stage: &Stage, other: Option<&OtherBuild>) -> Result<Table, Failure> {
    let names = if effort.name == "smoke" { AT_ONCE } else { NAMES };
    let title = format!("Bytes on the server for each of {names} names");
    let mut table = Table::new(title, &["lock", "while it is locked", "once it was released"]);
    let mut row = |name: &str, room: Result<Room, Failure>| match room {
        Ok(room) => table.row([name.to_owned(), short(room.held), short(room.released)]),
        Err(failure) => table.remark(format!("{name}: left out, it failed: {failure}.")),
    };
    let server = RedisServer::start();
    let url = server.url();
    let plain = async move {
        let plain = Arc::new(Plain::connect(&url).await?);
        measure::memory(plain, url, names).await
    };
    row(PLAIN, stage.run(plain));
    let server = RedisServer::start();
    let ours = Arc::new(Raw::new(RedisBackend::open(server.url())?));
    row(OURS, stage.run(measure::memory(ours, server.url(), names)));
    if let Some(other) = other {
        let server = RedisServer::start();
        row(&other_build::row(OURS), other.memory(&server.url(), names));
    }
    table.remark(
        "`used_memory` of INFO before and after, on a server with nothing else in it, divided by the \
         names: keys, values, and what the server needs to find them. What expires by itself \
         after a while is still there.",
    );
    Ok(table)
}
