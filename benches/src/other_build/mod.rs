//! The row of another build of this program: an older one, or one of another branch.
//!
//! The figures of two runs cannot be compared, so the other build takes its turns in the rounds of this one. The
//! variable `LOCK_BENCHES_BESIDE` names its program, which is started as a guest. Each line of JSON tells the guest
//! what to measure on which server. The guest measures as this program would, and answers with a line of figures. Both
//! builds have the same folder of benchmarks, each with its own lock crates.
//!
//! In benchmarks with several processes, the members of a [team](crate::team) are of the other build.

mod guest;
mod remote;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use guest::serve;
pub(crate) use remote::Remote;

use crate::dialogue::Dialogue;
use crate::measure::{Room, VerbCost, nanos};
use crate::{Failure, Setting};

/// The argument that makes a benchmark a guest.
pub(crate) const GUEST: &str = "--guest";

/// The first line of a guest.
const READY: &str = "\"ready\"";

/// The variable that names the program of the other build.
const VARIABLE: &str = "LOCK_BENCHES_BESIDE";

/// A benchmark of the other build, if one is named.
pub fn program() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// The name of the row that the other build measures in place of the row of this name.
pub fn row(name: &str) -> String {
    format!("{name}, other build")
}

/// A process of the other build, which measures by itself.
#[derive(Debug)]
pub struct OtherBuild(Mutex<Dialogue>);

impl OtherBuild {
    /// Starts the other build, if one is named. Its measurements run in this setting.
    ///
    /// # Errors
    ///
    /// If it does not start, or is no benchmark that knows how to be a guest.
    pub fn start(setting: Setting) -> Result<Option<Self>, Failure> {
        program().map(|program| Self::of(&program, setting)).transpose()
    }

    fn of(program: &Path, setting: Setting) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        let mut dialogue = Dialogue::start(command.args([GUEST, setting.name()]))
            .map_err(|error| format!("{VARIABLE}: {}: {error}", program.display()))?;
        match dialogue.hear()?.trim() {
            READY => Ok(Self(Mutex::new(dialogue))),
            _ => Err(format!("{VARIABLE}: {} is no guest", program.display()).into()),
        }
    }

    /// The cost of single requests of its backend for the server.
    ///
    /// # Errors
    ///
    /// Those of the lock; and if it has ended.
    pub fn verbs(
        &self,
        url: &str,
        names: &[String],
        time: Duration,
    ) -> Result<[VerbCost; 3], Failure> {
        let job = json!({ "job": "verbs", "url": url, "keys": names, "time": nanos(time) });
        let costs = self.ask(&job)?;
        let cost = |verb: usize| VerbCost::from_json(&costs[verb]);
        Ok([cost(0)?, cost(1)?, cost(2)?])
    }

    /// The memory that names take on a server, with its backend.
    ///
    /// # Errors
    ///
    /// Those of the lock; and if it has ended.
    pub fn memory(&self, url: &str, names: usize) -> Result<Room, Failure> {
        Room::from_json(&self.ask(&json!({ "job": "memory", "url": url, "count": names }))?)
    }

    /// Gives the guest a job. Blocks until it is done.
    pub(crate) fn ask(&self, job: &Value) -> Result<Value, Failure> {
        let mut dialogue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        dialogue.tell(job)?;
        let line = dialogue.hear()?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| format!("the other build answered {line:?}: {error}"))?;
        match answer["failed"].as_str() {
            Some(why) => Err(why.into()),
            None => Ok(answer),
        }
    }
}
