//! The rows of a table about several processes.

use std::path::PathBuf;
use std::time::Duration;

use super::{Plan, REDIS_PY, python};
use crate::contestants::{OURS, WAITING_PEERS};
use crate::other_build;

/// A lock that a team may use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Row {
    /// What the row is called.
    pub name: String,
    /// Whether it is one of ours, of whatever build.
    pub ours: bool,
    contestant: &'static str,
    /// The program of the members, if it is not this one.
    program: Option<PathBuf>,
}

impl Row {
    /// All mutexes that wait: ours, the first two of them by the [other build](other_build) if there is one,
    /// and the peers. And why some are missing.
    pub fn all() -> (Vec<Self>, Vec<String>) {
        let here = |contestant: &'static str, ours: bool| Self {
            name: contestant.to_owned(),
            ours,
            contestant,
            program: None,
        };
        let (mut rows, mut absent) = (Vec::new(), Vec::new());
        rows.extend(OURS.map(|name| here(name, true)));
        if let Some(program) = other_build::program() {
            let elsewhere = OURS[..2].iter().map(|name| Self {
                name: other_build::row(name),
                program: Some(program.clone()),
                ..here(name, true)
            });
            rows.extend(elsewhere);
        }
        rows.extend(WAITING_PEERS.map(|name| here(name, false)));
        match python() {
            Ok(_) => rows.extend(REDIS_PY.map(|name| here(name, false))),
            Err(why) => absent.push(why),
        }
        (rows, absent)
    }

    /// What such a team is to do: lock and unlock as fast as it can.
    pub fn plan(&self, processes: usize, tasks: usize, window: Duration) -> Plan {
        Plan::new(self.contestant, processes, tasks, window).by(self.program.clone())
    }
}
