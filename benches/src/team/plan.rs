//! The plan of a team.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Failure, Rule};

/// The plan of a team.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The name of the library's row.
    pub contestant: String,
    /// The program of the members, if it is not this one.
    pub program: Option<PathBuf>,
    /// The number of processes.
    pub processes: usize,
    /// The number of tasks of each process.
    pub tasks: usize,
    /// Which holders may be inside at once.
    pub rule: Rule,
    /// How long each holder keeps the lock. If zero, one holder in eight gives up its thread once instead.
    pub hold: Duration,
    /// Whether a process asks only while another process has the lock. Then it is the only waiter, and no other task
    /// overtakes it. For one task in each process.
    pub by_turns: bool,
    /// Whether a process has a runtime with several threads, as most apps have, instead of one.
    pub threads: bool,
    /// For how long passes are counted. The tasks run for a quarter of this time before.
    pub window: Duration,
}

impl Plan {
    /// A plan for tasks that lock and unlock as fast as they can.
    pub fn new(
        contestant: impl Into<String>,
        processes: usize,
        tasks: usize,
        window: Duration,
    ) -> Self {
        Self {
            contestant: contestant.into(),
            program: None,
            processes,
            tasks,
            rule: Rule::Exclusive,
            hold: Duration::ZERO,
            by_turns: false,
            threads: false,
            window,
        }
    }

    /// This plan with members of another build.
    #[must_use]
    pub fn by(mut self, program: Option<PathBuf>) -> Self {
        self.program = program;
        self
    }

    /// This plan with locks that follow this rule.
    #[must_use]
    pub fn under(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// This plan, but each holder keeps the lock for this long.
    #[must_use]
    pub fn holding(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// This plan, but each process has a runtime with several threads.
    #[must_use]
    pub fn on_threads(mut self) -> Self {
        self.threads = true;
        self
    }

    /// This plan, but a process asks only while another process has the lock.
    #[must_use]
    pub fn by_turns(mut self) -> Self {
        self.by_turns = true;
        self
    }
}

/// The part of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) contestant: String,
    pub(crate) url: String,
    pub(crate) key: String,
    /// The file of the record.
    pub(crate) record: PathBuf,
    /// The number of the process, from 0.
    pub(crate) number: usize,
    pub(crate) tasks: usize,
    pub(crate) tasks_of_all: usize,
    pub(crate) rule: Rule,
    pub(crate) hold: Duration,
    pub(crate) by_turns: bool,
    pub(crate) threads: bool,
}

impl Part {
    pub(super) fn to_json(&self) -> Value {
        let mut plan = json!({
            "contestant": self.contestant,
            "url": self.url,
            "key": self.key,
            "record": self.record.to_string_lossy(),
            "number": self.number,
            "tasks": self.tasks,
            "tasks_of_all": self.tasks_of_all,
            "hold": u64::try_from(self.hold.as_nanos()).unwrap_or(u64::MAX),
            "by_turns": self.by_turns,
            "threads": self.threads,
        });
        for (name, number) in self.rule.to_json() {
            plan[name] = number.into();
        }
        plan
    }

    pub(super) fn parse(line: &str) -> Result<Self, Failure> {
        let plan: Value = serde_json::from_str(line)?;
        let text = |name: &str| -> Result<String, Failure> {
            let value = plan[name].as_str().ok_or_else(|| format!("a plan without {name}"))?;
            Ok(value.to_owned())
        };
        let number = |name: &str| -> Result<u64, Failure> {
            Ok(plan[name].as_u64().ok_or_else(|| format!("a plan without {name}"))?)
        };
        Ok(Self {
            contestant: text("contestant")?,
            url: text("url")?,
            key: text("key")?,
            record: text("record")?.into(),
            number: usize::try_from(number("number")?)?,
            tasks: usize::try_from(number("tasks")?)?,
            tasks_of_all: usize::try_from(number("tasks_of_all")?)?,
            rule: Rule::from_json(&plan).ok_or("a plan with a rule that makes no sense")?,
            hold: Duration::from_nanos(number("hold")?),
            by_turns: plan["by_turns"].as_bool().unwrap_or(false),
            threads: plan["threads"].as_bool().unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_travels() {
        for rule in [Rule::Exclusive, Rule::ReadWrite { reads: 95 }, Rule::Permits(8)] {
            let part = Part {
                contestant: "ours, fair".to_owned(),
                url: "redis://127.0.0.1:1".to_owned(),
                key: "k".to_owned(),
                record: "/dev/shm/record".into(),
                number: 3,
                tasks: 16,
                tasks_of_all: 64,
                rule,
                hold: Duration::from_millis(20),
                by_turns: true,
                threads: true,
            };
            assert_eq!(Part::parse(&part.to_json().to_string()).unwrap(), part);
        }
        assert!(Part::parse("{}").is_err());
    }
}
