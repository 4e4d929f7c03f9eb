//! A quorum while some of its five servers are gone.

use lock_benches::contestants::quorums;
use lock_benches::measure::Passes;
use lock_benches::{
    Effort, Failure, Fleet, NodeRedlock, Rounds, Series, Setting, Stage, Table, median, short,
};

use crate::ROUNDS;
use crate::runner::{NODE, Runner, Turn};

/// How many servers there are.
const SERVERS: usize = 5;

/// How many servers are stopped or dead.
struct Scene {
    name: &'static str,
    stopped: usize,
    killed: usize,
}

const SCENES: [Scene; 5] = [
    Scene { name: "all there", stopped: 0, killed: 0 },
    Scene { name: "one stopped", stopped: 1, killed: 0 },
    Scene { name: "one dead", stopped: 0, killed: 1 },
    Scene { name: "two stopped", stopped: 2, killed: 0 },
    Scene { name: "two dead", stopped: 0, killed: 2 },
];

pub(crate) fn table(effort: &Effort) -> Result<Table, Failure> {
    let columns = [
        "lock",
        "servers",
        "p50, µs",
        "× all there",
        "p99, µs",
        "× all there",
        "longest, µs",
        "succeeded",
        "commands",
    ];
    let mut table = Table::new("Five servers, some of which are gone", &columns);
    let absent = NodeRedlock::find().err();
    let names = [quorums::OURS[0], quorums::OURS[2]];
    for name in names.into_iter().chain(quorums::PEERS).chain(absent.is_none().then_some(NODE)) {
        let rounds = if quorums::OURS.contains(&name) || name == NODE {
            effort.rounds
        } else {
            effort.rounds.min(ROUNDS)
        };
        let all = measure(name, effort, rounds)?;
        for (scene, series) in SCENES.iter().zip(&all) {
            row(name, scene, series, &all[0], &mut table);
        }
    }
    if let Some(remark) = absent {
        table.remark(remark);
    }
    table.remark(
        "The clients were connected before. One that is stopped keeps its connections and takes new ones, \
         and answers no client; one that is dead refuses. Ratios are the medians of those to the same lock with \
         all servers in the same round. Commands are those for each pass at the servers that are there.",
    );
    Ok(table)
}

/// All scenes of one lock. Each scene has its own servers, whose state does not change.
fn measure(name: &str, effort: &Effort, rounds: usize) -> Result<Vec<Series<Turn>>, Failure> {
    let stage = Stage::new(Setting::Spawned)?;
    let mut stages = Vec::new();
    for scene in &SCENES {
        let mut fleet = Fleet::start(SERVERS);
        let urls = fleet.urls();
        stage.run(async move { quorums::init(&urls).await })?;
        let runner = Runner::named(name, &fleet, &stage)?;
        runner.turn(&fleet, &stage, effort.sample)?;
        (0..scene.stopped).for_each(|_| fleet.stop_one());
        (0..scene.killed).for_each(|_| fleet.kill_one());
        stages.push((scene, fleet, runner));
    }
    let mut turns = Rounds::new();
    for (scene, fleet, runner) in &stages {
        let stage = &stage;
        turns.add(scene.name, move || {
            let turn = runner.turn(fleet, stage, effort.window)?;
            match &turn.passes {
                Passes { times, trouble: Some(trouble), .. } if times.is_empty() => {
                    Err(trouble.clone().into())
                }
                _ => Ok(turn),
            }
        });
    }
    let all = turns.run(rounds);
    // Stopped servers go on, so that blocked threads return and the runtime can end.
    for (_, fleet, _) in &mut stages {
        fleet.revive();
    }
    Ok(all)
}

fn row(name: &str, scene: &Scene, series: &Series<Turn>, whole: &Series<Turn>, table: &mut Table) {
    let mut passes = Passes::default();
    series.samples.iter().for_each(|turn| passes.merge(&turn.passes));
    if let Some(failure) = &series.failure {
        let cells = [name, scene.name, "", "", "", "", "", "0 %", ""];
        table.row(cells.map(str::to_owned));
        table.remark(format!("{name}, {}: no pass succeeded: {failure}.", scene.name));
        return;
    }
    if let Some(trouble) = &passes.trouble {
        let (failed, total) = (passes.failed, passes.total());
        table.remark(format!("{name}, {}: {failed} of {total} failed: {trouble}.", scene.name));
    }
    let micros = |figure: fn(&Turn) -> f64| short(median(&series.figures(figure)) * 1e6);
    let ratio = |figure: fn(&Turn) -> f64| format!("{:.2}", median(&series.ratios(whole, figure)));
    let longest = passes.times.iter().max().map(|time| short(time.as_secs_f64() * 1e6));
    let share = passes.times.len() as f64 / passes.total() as f64;
    table.row([
        name.to_owned(),
        scene.name.to_owned(),
        micros(Turn::median),
        ratio(Turn::median),
        micros(Turn::p99),
        ratio(Turn::p99),
        longest.unwrap_or_default(),
        // Rounded down, so that a single failure does not show as 100 %.
        format!("{} %", (share * 1000.0).floor() / 10.0),
        short(median(&series.figures(Turn::commands))),
    ]);
}
