//! The report of a run.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::super::check::{Findings, Property, Verdict};
use super::super::{Fault, Plan};

/// The report of a run. Shown in one line, or with all findings by `{:#}`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The plan.
    pub plan: Plan,
    /// The steps that had an effect: a server that is down cannot be flushed.
    pub effective: Vec<usize>,
    /// The findings in the history.
    pub findings: Findings,
    /// The number of events.
    pub events: usize,
    /// The number of writes that the resource accepted, and that it refused.
    pub writes: (u64, u64),
    /// How long it took.
    pub took: Duration,
    /// The folder of the history, if there is a finding.
    pub folder: Option<PathBuf>,
}

impl Report {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.findings.verdict()
    }

    /// The faults of the run.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        self.effective.iter().map(|&step| self.plan.steps[step].fault)
    }

    /// The broken properties.
    pub fn broken(&self) -> BTreeSet<Property> {
        self.findings.violations.iter().map(|violation| violation.property).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, findings, events, writes: (accepted, refused), took, .. } = self;
        let faults: Vec<_> = self.faults().map(|fault| fault.to_string()).collect();
        write!(
            f,
            "seed {} over {} in {:.1} s: {}; {} holds, {accepted} writes, {refused} refused, \
             {events} events, {} excused: {:?}",
            plan.seed,
            plan.deployment,
            took.as_secs_f64(),
            faults.join(", "),
            findings.holds,
            findings.excused.len(),
            findings.verdict(),
        )?;
        if !f.alternate() {
            return Ok(());
        }
        write!(f, "\n{plan}")?;
        for violation in &findings.violations {
            write!(f, "\n  {violation}")?;
        }
        for doubt in &findings.doubts {
            write!(f, "\n  doubt: {doubt}")?;
        }
        for (violation, why) in findings.excused.iter().take(20) {
            write!(f, "\n  excused, {why}: {violation}")?;
        }
        match &self.folder {
            Some(folder) => write!(f, "\n  the history is in {}", folder.display()),
            None => Ok(()),
        }
    }
}
