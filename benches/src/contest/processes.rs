//! Several processes.

use lock_tests::RedisServer;

use super::ROUNDS;
use crate::plot::Bars;
use crate::team::{self, Outcome, Plan};
use crate::{Effort, Rounds, Rule, Series, Table, jain, median, per_second, short};

/// Tasks of several processes that fight over one key.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)]
pub struct Processes {
    /// The title of the table.
    pub title: String,
    /// Which holders may be inside at once.
    pub rule: Rule,
    /// The number of processes.
    pub processes: usize,
    /// The number of tasks of each process.
    pub tasks: usize,
    /// Our own rows.
    pub ours: &'static [&'static str],
    /// The other rows.
    pub peers: &'static [&'static str],
}

const COLUMNS: [&str; 10] = [
    "lock",
    "passes/s",
    "commands each",
    "server CPU, µs each",
    "client CPU, µs each",
    "wait p50",
    "p99",
    "max",
    "Jain, processes",
    "Jain, tasks",
];

impl Processes {
    /// Lets the tasks fight. The program must [serve](team::serve) as a member.
    ///
    /// A row that fails is left out, and named.
    pub fn table(&self, effort: &Effort, server: &RedisServer) -> Table {
        let mut rounds = Rounds::new();
        for &name in self.ours.iter().chain(self.peers) {
            let plan = Plan::new(name, self.processes, self.tasks, effort.slow_window);
            let plan = plan.under(self.rule);
            rounds.add(name, move || team::play(server, &plan));
        }
        let all = rounds.run(effort.rounds.min(ROUNDS));

        let mut table = Table::new(&self.title, &COLUMNS);
        let mut bars = Bars::new(format!("Passes per second: {}", self.title));
        let mut rates = Vec::new();
        for series in &all {
            if let Err(why) = check(series) {
                table.remark(format!("{}: {why}.", series.name));
                continue;
            }
            let rate = middle(series, rate);
            bars.bar(&series.name, rate);
            rates.push((series.name.as_str(), rate));
            table.row(figures(series));
        }
        self.compare(&rates, &mut table);
        table.remark(
            "Commands and CPU are for each pass; CPU is that of all processes together. A wait that \
             goes on at the end of the window counts with what it has by then; one as long as the \
             window means that some waited all the time.",
        );
        if let Rule::ReadWrite { .. } = self.rule {
            table.remark("A pass is a read or a write. The waits are those of writers.");
        }
        table.plot(bars);
        table
    }

    fn compare(&self, rates: &[(&str, f64)], table: &mut Table) {
        let peers = rates.iter().filter(|(name, _)| self.peers.contains(name));
        let Some((peer, best)) = peers.max_by(|one, other| one.1.total_cmp(&other.1)) else {
            return;
        };
        for (name, rate) in rates.iter().filter(|(name, _)| self.ours.contains(name)) {
            let ratio = short(rate / best);
            table.remark(format!("`{name}` is {ratio} × the fastest correct peer, {peer}."));
        }
    }
}

fn figures(series: &Series<Outcome>) -> [String; 10] {
    let each = |figure: fn(&Outcome) -> f64| {
        short(middle(series, move |outcome| figure(outcome) / outcome.total() as f64))
    };
    let mut waits = series.samples[0].waits.clone();
    for outcome in &series.samples[1..] {
        waits.merge(&outcome.waits);
    }
    [
        series.name.clone(),
        short(middle(series, rate)),
        each(|outcome| outcome.commands as f64),
        each(|outcome| outcome.server.as_secs_f64() * 1e6),
        each(|outcome| outcome.cpu.as_secs_f64() * 1e6),
        format!("{:.1?}", waits.quantile(0.5)),
        format!("{:.1?}", waits.quantile(0.99)),
        format!("{:.1?}", waits.max()),
        format!("{:.3}", middle(series, |outcome| jain(&outcome.by_process()))),
        format!("{:.3}", middle(series, |outcome| jain(&outcome.passes.concat()))),
    ]
}

fn rate(outcome: &Outcome) -> f64 {
    per_second(outcome.total(), outcome.elapsed)
}

fn middle(series: &Series<Outcome>, figure: impl Fn(&Outcome) -> f64) -> f64 {
    median(&series.figures(figure))
}

/// Whether the figures mean anything.
fn check(series: &Series<Outcome>) -> Result<(), String> {
    if let Some(failure) = &series.failure {
        return Err(format!("left out, it failed: {failure}"));
    }
    series.samples.iter().try_for_each(Outcome::verdict)
}
