//! One key that many tasks of one process fight over.

use std::sync::Arc;
use std::time::Duration;

use lock_benches::contestants::{self, Ending, Local, Ours, TOKIO};
use lock_benches::measure::{Crowd, Window};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, jain, median, per_second,
    quantiles, short,
};
use lock_tests::RedisServer;

const OURS: &str = "ours, dropped";

/// Rounds of those whose figures are small numbers of passes, however many rounds there are.
const ROUNDS: usize = 3;

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = Arc::new(RedisServer::start());
    let stage = Stage::new(Setting::BlockOn)?;
    let url = server.url();
    let (entrants, absent) = stage.run(async move {
        let absent = contestants::absent_from_waiting(&url).await?;
        Ok((entrants(&url).await?, absent))
    })?;
    for tasks in [2, 8, 32, 128, 512].into_iter().take(effort.sizes) {
        let mut table = table(&effort, &server, &stage, &entrants, tasks);
        for why in &absent {
            table.remark(why);
        }
        table.publish(&format!("hot-key-{tasks}"))?;
    }
    Ok(())
}

struct Fighter {
    entrant: Entrant,
    peer: bool,
}

async fn entrants(url: &str) -> Result<Vec<Fighter>, Failure> {
    let own = [
        Entrant::new(TOKIO, [Local::default()]),
        Entrant::new(OURS, [Ours::redis(url, Ending::Dropped)?]),
        Entrant::new("ours, released", [Ours::redis(url, Ending::Released)?]),
        Entrant::new("ours in memory, dropped", [Ours::memory(Ending::Dropped)]),
    ];
    let own = own.into_iter().map(|entrant| Fighter { entrant, peer: false });
    let peers = contestants::waiting_peers(url, 1).await?.into_iter();
    Ok(own.chain(peers.map(|entrant| Fighter { entrant, peer: true })).collect())
}

fn table(
    effort: &Effort,
    server: &Arc<RedisServer>,
    stage: &Stage,
    fighters: &[Fighter],
    tasks: usize,
) -> Table {
    let mut rates = Rounds::new();
    let mut waits = Rounds::new();
    for fighter in fighters {
        let window = if fighter.peer { effort.slow_window } else { effort.window };
        let crowd = move |waits: bool| {
            let entrant = &fighter.entrant;
            let mut crowd = Crowd::new(tasks, entrant.fresh_keys(1), window);
            (crowd.server, crowd.waits) = (Some(Arc::clone(server)), waits);
            stage.run(entrant.crowd(crowd))
        };
        // Reading the clock twice in each pass is a burden only to the fast ones.
        rates.add(fighter.entrant.name(), move || crowd(fighter.peer));
        if !fighter.peer {
            waits.add(fighter.entrant.name(), move || crowd(true));
        }
    }
    let rates = rates.run(effort.rounds.min(ROUNDS));
    let waits = waits.run(1);

    let columns = [
        "lock",
        "hand-overs/s",
        "× tokio",
        "passes/s",
        "commands each",
        "wait p50",
        "p99",
        "max",
        "Jain",
    ];
    let mut table = Table::new(format!("One key, {tasks} tasks of one process"), &columns);
    let mut best_peer: Option<(&str, f64)> = None;
    for (fighter, series) in fighters.iter().zip(&rates) {
        let waits = waits.iter().find(|waits| waits.name == series.name).unwrap_or(series);
        match verdict(series).and_then(|()| verdict(waits)) {
            Ok(()) => table.row(figures(series, &rates, waits)),
            Err(why) => {
                table.remark(format!("{}: {why}", series.name));
                continue;
            }
        }
        let rate = median(&series.figures(rate));
        if fighter.peer && best_peer.is_none_or(|(_, best)| rate > best) {
            best_peer = Some((&series.name, rate));
        }
    }
    let ours = rates.iter().find(|series| series.name == OURS);
    if let (Some(ours), Some((peer, best))) = (ours, best_peer) {
        let ratio = median(&ours.figures(rate)) / best;
        table.remark(format!("`{OURS}` is {} × the fastest correct peer, {peer}.", short(ratio)));
    }
    table.remark(
        "A hand-over is a pass after which the holder is another one; commands are for each of them. \
         A wait that goes on at the end of the window counts with what it has by then.",
    );
    table
}

fn rate(window: &Window) -> f64 {
    per_second(window.handovers, window.elapsed)
}

fn figures(series: &Series<Window>, all: &[Series<Window>], waits: &Series<Window>) -> [String; 9] {
    let base = all.iter().find(|series| series.name == TOKIO).unwrap_or(series);
    let commands = |window: &Window| window.commands as f64 / window.handovers as f64;
    let times: Vec<Duration> = waits.samples.iter().flat_map(|it| it.waits.clone()).collect();
    let [half, most, max] = quantiles(&times).map(|time| format!("{time:.1?}"));
    [
        series.name.clone(),
        short(median(&series.figures(rate))),
        short(median(&series.ratios(base, rate))),
        short(median(&series.figures(|window| per_second(window.total(), window.elapsed)))),
        short(median(&series.figures(commands))),
        half,
        most,
        max,
        format!("{:.3}", median(&series.figures(|window| jain(&window.passes)))),
    ]
}

/// Whether the figures mean anything.
fn verdict(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let lost: u64 = series.samples.iter().map(|window| window.lost).sum();
    let total: u64 = series.samples.iter().map(Window::total).sum();
    match lost {
        0 => Ok(()),
        _ => {
            Err(format!("INCORRECT: {lost} updates lost, beside {total} passes that were counted"))
        }
    }
}
