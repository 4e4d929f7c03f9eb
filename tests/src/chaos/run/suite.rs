//! Many runs, several at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::check::Verdict;
use super::super::stage::Cast;
use super::super::{Deployment, Fault, Plan, Scope};
use super::{Report, run};

/// The number of faults in a plan of a suite.
const FAULTS: usize = 4;

/// How often an inconclusive run is repeated.
const AGAIN: usize = 2;

/// One of this many runs may be inconclusive.
const INCONCLUSIVE: usize = 5;

/// Many runs, one seed after another: so every fault and every deployment has its turn.
#[derive(Clone, Debug)]
#[must_use]
pub struct Suite {
    first: u64,
    runs: Option<u64>,
    time: Option<Duration>,
    jobs: usize,
    over: Option<&'static [Deployment]>,
}

impl Suite {
    /// Starts with the run of this seed.
    pub fn from_seed(first: u64) -> Self {
        Self { first, runs: None, time: None, jobs: 2, over: None }
    }

    /// The plan that belongs to a seed, in every suite.
    pub fn plan(seed: u64) -> Plan {
        Plan::draw(seed, &Scope::turn(seed as usize, FAULTS))
    }

    /// The plan that belongs to a seed over these deployments.
    pub fn plan_over(seed: u64, deployments: &[Deployment]) -> Plan {
        Plan::draw(seed, &Scope::default().over(deployments).steps(FAULTS))
    }

    /// Over these deployments, instead of [those](Deployment::ALL) whose servers keep their parts.
    pub fn over(self, deployments: &'static [Deployment]) -> Self {
        Self { over: Some(deployments), ..self }
    }

    /// So many runs.
    pub fn runs(self, runs: u64) -> Self {
        Self { runs: Some(runs), ..self }
    }

    /// Repeats one run this often: for a failure that does not show each time.
    pub fn repeat(self, times: u64, cast: &Cast, tell: impl Fn(&Report) + Sync) -> Summary {
        let first = self.first;
        self.runs(times).perform(|_| first, cast, tell)
    }

    /// Starts runs until this time is over.
    pub fn time(self, time: Duration) -> Self {
        Self { time: Some(time), ..self }
    }

    /// This many runs at once. They mostly wait.
    pub fn jobs(self, jobs: usize) -> Self {
        Self { jobs: jobs.max(1), ..self }
    }

    /// Executes all runs. Each report is handed over as soon as it is there.
    pub fn run(self, cast: &Cast, tell: impl Fn(&Report) + Sync) -> Summary {
        let first = self.first;
        self.perform(|number| first.wrapping_add(number), cast, tell)
    }

    fn perform(
        self,
        seed: impl Fn(u64) -> u64 + Sync,
        cast: &Cast,
        tell: impl Fn(&Report) + Sync,
    ) -> Summary {
        let begin = Instant::now();
        let (next, summary) = (AtomicU64::new(0), Mutex::<Summary>::default());
        let work = || loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_over = self.runs.is_some_and(|runs| number >= runs)
                || self.time.is_some_and(|time| begin.elapsed() >= time);
            if is_over {
                return;
            }
            let plan = match self.over {
                Some(deployments) => Self::plan_over(seed(number), deployments),
                None => Self::plan(seed(number)),
            };
            let mut report = run(&plan, cast);
            // Usually the machine was too late, and is not the next time.
            for _ in 0..AGAIN {
                if report.verdict() != Verdict::Inconclusive {
                    break;
                }
                tell(&report);
                report = run(&plan, cast);
            }
            tell(&report);
            summary.lock().unwrap_or_else(PoisonError::into_inner).add(&report);
        };
        thread::scope(|scope| (0..self.jobs).for_each(|_| _ = scope.spawn(work)));
        summary.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of a suite.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// How many runs there were.
    pub runs: usize,
    /// The seeds of the runs that broke a promise.
    pub broken: Vec<u64>,
    /// The seeds of the inconclusive runs.
    pub inconclusive: Vec<u64>,
    /// The number of locks and permits that were granted.
    pub holds: usize,
    /// How many writes the resource refused.
    pub refused: u64,
    /// The deployments, and their faults.
    pub seen: BTreeSet<(String, String)>,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.holds += report.findings.holds;
        self.refused += report.writes.1;
        let over = report.plan.deployment.to_string();
        let faults = report.faults().map(|fault| (over.clone(), fault.to_string()));
        self.seen.extend(faults);
        match report.verdict() {
            Verdict::Sound => {}
            Verdict::Broken => self.broken.push(report.plan.seed),
            Verdict::Inconclusive => self.inconclusive.push(report.plan.seed),
        }
    }

    /// Why the suite has failed, if it has.
    pub fn failure(&self) -> Option<String> {
        if !self.broken.is_empty() {
            return Some(format!("promises were broken by the seeds {:?}", self.broken));
        }
        let most = self.runs.div_ceil(INCONCLUSIVE);
        if self.inconclusive.len() > most {
            let seeds = &self.inconclusive;
            return Some(format!("too many runs prove nothing, those of the seeds {seeds:?}"));
        }
        None
    }

    /// The faults that occurred over each deployment, of all possible ones.
    pub fn coverage(&self) -> (usize, usize) {
        let sets = [&Deployment::FAIL_OVER[..], &Deployment::OTHERS[..]];
        let is_seen = |it: &Deployment| self.seen.iter().any(|(over, _)| it.to_string() == *over);
        let all = sets.into_iter().find(|set| set.iter().any(is_seen));
        let all = all.unwrap_or(&Deployment::ALL);
        let can = |fault: &Fault| all.iter().filter(|over| fault.can_befall(**over)).count();
        (self.seen.len(), Fault::ALL.iter().map(can).sum())
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seen, all) = self.coverage();
        write!(
            f,
            "{} runs, {} holds, {} stale writes refused, {seen} of {all} pairs of fault and \
             deployment; broken: {:?}, inconclusive: {:?}",
            self.runs, self.holds, self.refused, self.broken, self.inconclusive,
        )
    }
}
