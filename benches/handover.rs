//! One key that two clients, as of two processes, take from one another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lock_benches::contestants::{self, Driver, Ending, Ours};
use lock_benches::measure::{Crowd, PingPong, Window};
use lock_benches::{
    Effort, Entrant, Failure, Rounds, Series, Setting, Stage, Table, jain, median, per_second,
    quantiles, short,
};
use lock_tests::RedisServer;

/// How long a holder gives the other one to settle down and wait.
const HOLD: Duration = Duration::from_millis(2);

const PING: &str = "PING, back to back";
const PING_AFTER_PAUSE: &str = "PING, after a pause";

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = Arc::new(RedisServer::start());
    let stage = Stage::new(Setting::Spawned)?;
    let url = server.url();
    let (driver, entrants) = stage.run(async move {
        let driver = Arc::new(Driver::connect(&url).await?);
        Ok((driver, entrants(&url).await?))
    })?;
    latency(&effort, &stage, &driver, &entrants).publish("handover-latency")?;
    rate(&effort, &server, &stage, &entrants).publish("handover-rate")?;
    Ok(())
}

async fn entrants(url: &str) -> Result<Vec<Entrant>, Failure> {
    let two = |ending| -> Result<_, Failure> {
        Ok([Ours::redis(url, ending)?, Ours::redis(url, ending)?])
    };
    let mut entrants = vec![
        Entrant::new("ours, released", two(Ending::Released)?),
        Entrant::new("ours, dropped", two(Ending::Dropped)?),
    ];
    entrants.extend(contestants::waiting_peers(url, 2).await?);
    Ok(entrants)
}

fn latency(effort: &Effort, stage: &Stage, driver: &Arc<Driver>, entrants: &[Entrant]) -> Table {
    let mut rounds = Rounds::new();
    let time = effort.slow_window / 4;
    rounds.add(PING, || stage.run(pings(Arc::clone(driver), time, None)));
    rounds.add(PING_AFTER_PAUSE, || stage.run(pings(Arc::clone(driver), time, Some(HOLD))));
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let game = PingPong::new(entrant.fresh_keys(1).concat(), HOLD, effort.slow_window / 2);
            stage.run(entrant.ping_pong(game))
        });
    }
    let all = rounds.run(effort.rounds.min(5));

    let mut table = Table::new(
        "From the end of one client's section to the beginning of the other's",
        &["lock", "p50", "× PING", "× PING after a pause", "p99", "max", "times"],
    );
    let middle = |times: &Vec<Duration>| quantiles(times)[0].as_secs_f64();
    for series in &all {
        if let Some(failure) = &series.failure {
            table.remark(format!("{}: left out, it failed: {failure}", series.name));
            continue;
        }
        let times = series.samples.concat();
        if times.is_empty() {
            table.remark(format!("{}: no hand-over within the time.", series.name));
            continue;
        }
        let [half, most, max] = quantiles(&times).map(|time| format!("{time:.1?}"));
        let [ping, after_pause] =
            [&all[0], &all[1]].map(|base| short(median(&series.ratios(base, middle))));
        let count = times.len().to_string();
        table.row([series.name.clone(), half, ping, after_pause, most, max, count]);
    }
    table.remark(format!(
        "The waiter has had {HOLD:?} to settle down, and nobody overtakes it. In such a pause the \
         processors fall asleep, which is why a PING after as long a pause stands beside. \
         Ratios are medians over the rounds of the ratio of the medians within each."
    ));
    table
}

async fn pings(
    driver: Arc<Driver>,
    time: Duration,
    pause: Option<Duration>,
) -> Result<Vec<Duration>, Failure> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        let start = Instant::now();
        driver.ping().await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

fn rate(effort: &Effort, server: &Arc<RedisServer>, stage: &Stage, entrants: &[Entrant]) -> Table {
    let mut rounds = Rounds::new();
    for entrant in entrants {
        rounds.add(entrant.name(), move || {
            let mut crowd = Crowd::new(2, entrant.fresh_keys(1), effort.slow_window);
            crowd.server = Some(Arc::clone(server));
            stage.run(entrant.crowd(crowd))
        });
    }
    let all = rounds.run(effort.rounds.min(3));

    let mut table = Table::new(
        "Two clients, a task each, that lock one key as fast as they can",
        &["lock", "hand-overs/s", "passes/s", "commands/hand-over", "Jain"],
    );
    for series in &all {
        match verdict(series) {
            Ok(()) => table.row(figures(series)),
            Err(why) => table.remark(format!("{}: {why}", series.name)),
        }
    }
    table.remark("A pass without a hand-over is one whose holder was the last one too.");
    table
}

fn figures(series: &Series<Window>) -> [String; 5] {
    let commands = |window: &Window| window.commands as f64 / window.handovers as f64;
    [
        series.name.clone(),
        short(median(&series.figures(|it| per_second(it.handovers, it.elapsed)))),
        short(median(&series.figures(|it| per_second(it.total(), it.elapsed)))),
        short(median(&series.figures(commands))),
        format!("{:.3}", median(&series.figures(|window| jain(&window.passes)))),
    ]
}

/// Whether the figures mean anything.
fn verdict(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let lost: u64 = series.samples.iter().map(|window| window.lost).sum();
    if lost > 0 { Err(format!("INCORRECT: {lost} updates lost")) } else { Ok(()) }
}
