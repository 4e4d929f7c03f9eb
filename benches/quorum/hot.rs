//! A quorum while many tasks want one lock.

use std::time::Duration;

use lock_benches::contestants::quorums;
use lock_benches::measure::{Crowd, Window};
use lock_benches::{
    Effort, Entrant, Failure, Fleet, Rounds, Series, Setting, Stage, Table, jain, median,
    per_second, quantiles, short, verdict,
};

use crate::ROUNDS;

/// How many servers there are.
const SERVERS: usize = 5;

/// The number of independent clients. The tasks are spread over them.
const CLIENTS: usize = 4;

pub(crate) fn table(effort: &Effort, tasks: usize) -> Result<Table, Failure> {
    let stage = Stage::new(Setting::BlockOn)?;
    let fleet = Fleet::start(SERVERS);
    let urls = fleet.urls();
    let entrants = stage.run(async move {
        quorums::init(&urls).await?;
        let mut entrants = Vec::new();
        for name in quorums::WAITING {
            entrants.push(quorums::named(name, &urls, CLIENTS).await?);
        }
        Ok(entrants)
    })?;
    let all = measure(&entrants, effort, &fleet, &stage, tasks);

    let columns =
        ["lock", "hand-overs/s", "passes/s", "commands each", "wait p50", "p99", "max", "Jain"];
    let title = format!("One key on most of {SERVERS} servers, {tasks} tasks of {CLIENTS} clients");
    let mut table = Table::new(title, &columns);
    for series in &all {
        match check(series) {
            Ok(()) => table.row(figures(series)),
            Err(why) => table.remark(format!("{}: {why}", series.name)),
        }
    }
    table.remark(
        "A hand-over is a pass after which the holder is another task; commands are for each of them. The \
         clients are in one process, each with connections of its own.",
    );
    Ok(table)
}

fn measure(
    entrants: &[Entrant],
    effort: &Effort,
    fleet: &Fleet,
    stage: &Stage,
    tasks: usize,
) -> Vec<Series<Window>> {
    let mut rounds = Rounds::new();
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(1), effort.slow_window);
            (crowd.servers, crowd.waits) = (fleet.urls(), true);
            stage.run(entrant.crowd(crowd))
        });
    }
    rounds.run(effort.rounds.min(ROUNDS))
}

fn figures(series: &Series<Window>) -> [String; 8] {
    let middle = |figure: fn(&Window) -> f64| median(&series.figures(figure));
    let times: Vec<Duration> = series.samples.iter().flat_map(|it| it.waits.clone()).collect();
    let [half, most, max] = quantiles(&times).map(|time| format!("{time:.1?}"));
    [
        series.name.clone(),
        short(middle(|it| per_second(it.handovers, it.elapsed))),
        short(middle(|it| per_second(it.total(), it.elapsed))),
        short(middle(|it| it.commands as f64 / it.handovers as f64)),
        half,
        most,
        max,
        format!("{:.3}", middle(|it| jain(&it.passes))),
    ]
}

/// Whether the figures mean anything.
fn check(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let sum = |figure: fn(&Window) -> u64| series.samples.iter().map(figure).sum();
    verdict(sum(|it| it.lost), sum(|it| it.intrusions), sum(Window::total))
}
