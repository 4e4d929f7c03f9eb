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
    /// The name of the row.
    pub name: String,
    /// Whether the row is one of ours, of either build.
    pub ours: bool,
    contestant: &'static str,
    /// The program of the members, if it is not this one.
    program: Option<PathBuf>,
}

impl Row {
    /// All mutexes that wait, and the reasons why some are missing. The mutexes are ours, the first two of ours by the
    /// [other build](other_build) if there is one, and the peers.
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

    /// The plan of a team that locks and unlocks as fast as it can.
    pub fn plan(&self, processes: usize, tasks: usize, window: Duration) -> Plan {
        Plan::new(self.contestant, processes, tasks, window).by(self.program.clone())
    }
}
