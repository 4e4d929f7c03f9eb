//! Tasks of one process.

use std::time::Duration;

use lock_tests::RedisServer;

use super::ROUNDS;
use crate::measure::{Crowd, Window};
use crate::plot::Lines;
use crate::{
    Effort, Entrant, Failure, Rounds, Rule, Series, Stage, Table, contestants, jain, median,
    per_second, quantiles, short, verdict,
};

/// Tasks of one process that fight over one key.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)]
pub struct Tasks {
    /// The title of the table.
    pub title: String,
    /// Which holders may be inside at once.
    pub rule: Rule,
    /// The number of tasks.
    pub tasks: usize,
    /// The reference row, a lock inside the process.
    pub tokio: &'static str,
    /// Our own rows. The summary shows the first.
    pub ours: &'static [&'static str],
    /// The other rows.
    pub peers: &'static [&'static str],
}

/// The figures of a row that the summary needs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rate {
    /// The name of the row.
    pub name: String,
    /// Whether the row is a peer's.
    pub peer: bool,
    /// Passes per second.
    pub passes: f64,
    /// The passes as a multiple of those of tokio's lock, round by round.
    pub of_tokio: f64,
    /// How many commands each pass took.
    pub commands: f64,
}

/// Lets the tasks fight. Returns the table, and the figures of its rows that the summary needs.
///
/// # Errors
///
/// If a contestant does not connect.
pub fn in_one_process(
    plan: &Tasks,
    effort: &Effort,
    server: &RedisServer,
    stage: &Stage,
) -> Result<(Table, Vec<Rate>), Failure> {
    let fighters = plan.fighters(stage, &server.url())?;
    let (mut rates, mut waits) = (Rounds::new(), Rounds::new());
    for Fighter { entrant, peer } in &fighters {
        let window = if *peer { effort.slow_window } else { effort.window };
        let crowd = move |waits: bool| {
            let mut crowd = Crowd::new(plan.tasks, entrant.fresh_keys(1), window);
            (crowd.rule, crowd.waits) = (plan.rule, waits);
            crowd.servers = vec![server.url()];
            stage.run(entrant.crowd(crowd))
        };
        // To read the clock twice in each pass slows down only the fast contestants.
        rates.add(entrant.name(), move || crowd(*peer));
        if !peer {
            waits.add(entrant.name(), move || crowd(true));
        }
    }
    let rates = rates.run(effort.rounds.min(ROUNDS));
    let waits = waits.run(1);

    let columns =
        ["lock", "passes/s", "× tokio", "commands each", "wait p50", "p99", "max", "Jain"];
    let mut table = Table::new(&plan.title, &columns);
    let mut kept = Vec::new();
    for (fighter, series) in fighters.iter().zip(&rates) {
        let waits = waits.iter().find(|waits| waits.name == series.name).unwrap_or(series);
        if let Err(why) = check(series).and_then(|()| check(waits)) {
            table.remark(format!("{}: {why}", series.name));
            continue;
        }
        let rate = Rate::of(fighter, series, &rates);
        table.row(figures(&rate, series, waits));
        kept.push(rate);
    }
    if let (Some(ours), Some(best)) = (plan.first(&kept), best_peer(&kept)) {
        let (ratio, name) = (short(ours.passes / best.passes), &best.name);
        table.remark(format!("`{}` is {ratio} × the fastest correct peer, {name}.", ours.name));
    }
    table.remark(legend(plan.rule));
    Ok((table, kept))
}

/// What the figures mean.
fn legend(rule: Rule) -> &'static str {
    match rule {
        Rule::ReadWrite { .. } => {
            "A pass is a read or a write; commands are for each of them. The waits are those of who \
             writes. One that goes on at the end of the window counts with what it has by then."
        }
        Rule::Exclusive | Rule::Permits(_) => {
            "Commands are for each pass. A wait that goes on at the end of the window counts with \
             what it has by then."
        }
    }
}

/// The columns of a summary after the first, which names the measurement.
#[must_use]
pub fn summary(what: &str) -> [&str; 8] {
    [
        what,
        "ours, passes/s",
        "× tokio",
        "ours in memory, × tokio",
        "tokio, passes/s",
        "fastest correct peer",
        "× that peer",
        "commands each",
    ]
}

impl Tasks {
    /// Adds a row to a summary, and a point to each line if there are lines.
    pub fn sum_up(
        &self,
        what: String,
        x: f64,
        rates: &[Rate],
        table: &mut Table,
        lines: Option<&mut Lines>,
    ) {
        if let Some(lines) = lines {
            for rate in rates {
                lines.point(&rate.name, x, rate.passes);
            }
        }
        let find = |name: &str| rates.iter().find(|rate| rate.name == name);
        let (Some(ours), Some(tokio)) = (self.first(rates), find(self.tokio)) else { return };
        let memory = self.ours.iter().copied().filter(|name| name.contains("memory"));
        let memory = memory.filter_map(find).next();
        let best = best_peer(rates);
        table.row([
            what,
            short(ours.passes),
            short(ours.of_tokio),
            memory.map(|memory| short(memory.of_tokio)).unwrap_or_default(),
            short(tokio.passes),
            best.map(|best| format!("{}: {}", best.name, short(best.passes))).unwrap_or_default(),
            best.map(|best| short(ours.passes / best.passes)).unwrap_or_default(),
            short(ours.commands),
        ]);
    }

    fn first<'a>(&self, rates: &'a [Rate]) -> Option<&'a Rate> {
        rates.iter().find(|rate| self.ours.first().is_some_and(|first| rate.name == *first))
    }

    fn fighters(&self, stage: &Stage, url: &str) -> Result<Vec<Fighter>, Failure> {
        let own = [self.tokio].into_iter().chain(self.ours.iter().copied()).map(|it| (it, false));
        let peers = self.peers.iter().map(|&peer| (peer, true));
        let mut fighters = Vec::new();
        for (name, peer) in own.chain(peers) {
            let (rule, url) = (self.rule, url.to_owned());
            let entrant = stage.run(async move { contestants::under(rule, name, &url).await })?;
            fighters.push(Fighter { entrant, peer });
        }
        Ok(fighters)
    }
}

struct Fighter {
    entrant: Entrant,
    peer: bool,
}

impl Rate {
    fn of(fighter: &Fighter, series: &Series<Window>, all: &[Series<Window>]) -> Self {
        let passes = |window: &Window| per_second(window.total(), window.elapsed);
        let base = all.first().unwrap_or(series);
        Self {
            name: series.name.clone(),
            peer: fighter.peer,
            passes: median(&series.figures(passes)),
            of_tokio: median(&series.ratios(base, passes)),
            commands: median(&series.figures(|it| it.commands as f64 / it.total() as f64)),
        }
    }
}

fn best_peer(rates: &[Rate]) -> Option<&Rate> {
    let peers = rates.iter().filter(|rate| rate.peer);
    peers.max_by(|one, other| one.passes.total_cmp(&other.passes))
}

fn figures(rate: &Rate, series: &Series<Window>, waits: &Series<Window>) -> [String; 8] {
    let times: Vec<Duration> = waits.samples.iter().flat_map(|it| it.waits.clone()).collect();
    let [half, most, max] = if times.is_empty() {
        [const { String::new() }; 3]
    } else {
        quantiles(&times).map(|time| format!("{time:.1?}"))
    };
    [
        rate.name.clone(),
        short(rate.passes),
        short(rate.of_tokio),
        short(rate.commands),
        half,
        most,
        max,
        format!("{:.3}", median(&series.figures(|window| jain(&window.passes)))),
    ]
}

/// Whether the figures mean anything.
fn check(series: &Series<Window>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    let sum = |figure: fn(&Window) -> u64| series.samples.iter().map(figure).sum();
    let passes = sum(Window::total);
    verdict(sum(|window| window.lost), sum(|window| window.intrusions), passes)
}
