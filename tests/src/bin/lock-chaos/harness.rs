//! The commands for engineers: runs of new seeds, one seed again, a soak.

use std::time::Duration;

use lock_tests::Random;
use lock_tests::chaos::check::{Findings, Verdict};
use lock_tests::chaos::stage::Cast;
use lock_tests::chaos::{Deployment, Report, Suite, Summary, soak};

pub(crate) const HELP: &str = "\
lock-chaos run MINUTES [--seed N] [--jobs N]   runs of one seed after another
lock-chaos replay SEED [--times N] [--jobs N]  the run of one seed again
lock-chaos show SEED                           what happens in that run
lock-chaos soak MINUTES [--seed N]             the same workers over each deployment, and what they leak

With --takeovers, run, replay and show are about clusters, and servers that sentinels watch; with --confirmed, about
servers behind sentinels whose replicas confirm grants; with --others, about PostgreSQL and etcd; with --members, about three
members of a cluster of etcd; with --quorums, about quorums of 3 and 5 servers. With --primitives mutex,stored the
workers of run and replay use these primitives alone.";

/// Runs one seed after another, until the time is over.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (minutes, options) = Options::parse(args)?;
    some(minutes, "minutes")?;
    let suite = Suite::from_seed(options.seed.unwrap_or_else(Random::fresh_seed));
    let suite = options.over.map_or(suite.clone(), |over| suite.over(over));
    let suite = suite.time(Duration::from_secs(60 * minutes)).jobs(options.jobs);
    conclude(suite.run(&cast(options.primitives)?, told))
}

/// Repeats the run of one seed.
pub(crate) fn replay(args: &[String]) -> Result<(), String> {
    let (seed, options) = Options::parse(args)?;
    some(options.times, "times")?;
    let suite = Suite::from_seed(seed);
    let suite = options.over.map_or(suite.clone(), |over| suite.over(over));
    let suite = suite.jobs(options.jobs.min(options.times as usize));
    conclude(suite.repeat(options.times, &cast(options.primitives)?, told))
}

/// Prints the plan of a seed.
pub(crate) fn show(args: &[String]) -> Result<(), String> {
    let (seed, options) = Options::parse(args)?;
    let over = |deployments| Suite::plan_over(seed, deployments);
    print!("{}", options.over.map_or_else(|| Suite::plan(seed), over));
    Ok(())
}

/// The same workers for a long time, divided among the deployments.
pub(crate) fn soak_all(args: &[String]) -> Result<(), String> {
    let (minutes, options) = Options::parse(args)?;
    some(minutes, "minutes")?;
    let seed = options.seed.unwrap_or_else(Random::fresh_seed);
    println!("seed {seed}");
    let deployments = Deployment::ALL;
    let time = Duration::from_secs(60 * minutes) / deployments.len() as u32;
    let mut broken = Vec::new();
    for deployment in deployments {
        let soaked = soak(deployment, seed, time, &cast(None)?, |so_far| {
            println!("{deployment}: round {}, {} holds", so_far.rounds, so_far.holds);
            for (client, [files, threads, tasks, memory]) in &so_far.uses {
                println!(
                    "  {client}: {files} files, {threads} threads, {tasks} tasks, {memory} KiB"
                );
            }
        })?;
        let Findings { violations, doubts, .. } = &soaked.findings;
        violations.iter().for_each(|violation| println!("  {violation}"));
        doubts.iter().for_each(|doubt| println!("  doubt: {doubt}"));
        if soaked.findings.verdict() != Verdict::Sound {
            broken.push(deployment.to_string());
        }
    }
    if broken.is_empty() { Ok(()) } else { Err(format!("seed {seed}: {}", broken.join(", "))) }
}

/// Fails if nothing was tried.
fn some(count: u64, what: &str) -> Result<(), String> {
    if count == 0 { Err(format!("there have to be some {what}\n{HELP}")) } else { Ok(()) }
}

fn told(report: &Report) {
    match report.verdict() {
        Verdict::Sound => println!("{report}"),
        _ => println!("{report:#}"),
    }
}

fn conclude(summary: Summary) -> Result<(), String> {
    println!("{summary}");
    summary.failure().map_or(Ok(()), Err)
}

fn cast(primitives: Option<String>) -> Result<Cast, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(Cast { program, primitives, flaw: None })
}

struct Options {
    seed: Option<u64>,
    jobs: usize,
    times: u64,
    over: Option<&'static [Deployment]>,
    primitives: Option<String>,
}

impl Options {
    /// A number, and the text after it.
    fn parse(args: &[String]) -> Result<(u64, Self), String> {
        let mut options = Self { seed: None, jobs: 2, times: 1, over: None, primitives: None };
        let mut args = args.iter();
        let number = |word: Option<&String>| -> Result<u64, String> {
            let word = word.ok_or(HELP)?;
            word.parse().map_err(|_| format!("{word} is no number\n{HELP}"))
        };
        let first = number(args.next())?;
        while let Some(name) = args.next() {
            let over: Option<&[_]> = match name.as_str() {
                "--takeovers" => Some(&Deployment::FAIL_OVER),
                "--confirmed" => Some(&[Deployment::Confirmed]),
                "--others" => Some(&Deployment::OTHERS),
                "--members" => Some(&[Deployment::Members]),
                "--quorums" => Some(&[Deployment::Quorum(3), Deployment::Quorum(5)]),
                _ => None,
            };
            if over.is_some() {
                options.over = over;
                continue;
            }
            if name == "--primitives" {
                options.primitives = Some(args.next().ok_or(HELP)?.clone());
                continue;
            }
            let value = number(args.next())?;
            match name.as_str() {
                "--seed" => options.seed = Some(value),
                "--jobs" => options.jobs = value.max(1) as usize,
                "--times" => options.times = value,
                _ => return Err(format!("there is no option {name}\n{HELP}")),
            }
        }
        Ok((first, options))
    }
}
