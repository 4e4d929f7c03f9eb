//! The row of another build of this program: an older one, or one of another branch.
//!
//! What two runs measured cannot be compared, so the other build takes its turns in the same rounds. It is
//! named by a variable, `LOCK_BENCHES_BESIDE`, and started as a guest: it is asked by lines of JSON what to
//! measure on which server, measures it as this program would, and answers each with a line of figures. The
//! folder of the benchmarks has to be the same in both, and is built with the lock crates of either.
//!
//! Where benchmarks have processes fight anyhow, the members of a [team](crate::team) are of that build.

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

/// What a guest says first.
const READY: &str = "\"ready\"";

/// Which program it is.
const VARIABLE: &str = "LOCK_BENCHES_BESIDE";

/// A benchmark of the other build, if one is named.
pub fn program() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// How a row of this name is called if the other build measures it.
pub fn row(name: &str) -> String {
    format!("{name}, other build")
}

/// A process of the other build, which measures by itself.
#[derive(Debug)]
pub struct OtherBuild(Mutex<Dialogue>);

impl OtherBuild {
    /// Starts it, if one is named. What it measures runs in this setting.
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

    /// What single requests of its backend cost the server.
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

    /// How much room names take on a server, by its backend.
    ///
    /// # Errors
    ///
    /// Those of the lock; and if it has ended.
    pub fn memory(&self, url: &str, names: usize) -> Result<Room, Failure> {
        Room::from_json(&self.ask(&json!({ "job": "memory", "url": url, "count": names }))?)
    }

    /// Lets it do something. Blocks until it has.
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
