//! The program of a guest, a process of the other build.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use lock_redis::RedisBackend;
use serde_json::{Value, json};

use super::READY;
use crate::contestants::{self, Raw};
use crate::measure::{self, Crowd, Idle, VerbCost, nanos, number};
use crate::{Entrant, Failure, Setting, Stage};

/// Carries out the jobs from its standard input until that ends.
pub(crate) fn serve() -> Result<(), Failure> {
    let name = std::env::args().nth(2).ok_or("a guest without a setting")?;
    let setting = Setting::named(&name).ok_or("a guest with an unknown setting")?;
    let mut guest = Guest { stage: Stage::new(setting)?, entrants: HashMap::new() };
    say(READY)?;
    for line in io::stdin().lock().lines() {
        let job = serde_json::from_str(&line?)?;
        let answer =
            guest.work(&job).unwrap_or_else(|failure| json!({ "failed": failure.to_string() }));
        say(&answer.to_string())?;
    }
    Ok(())
}

fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

struct Guest {
    stage: Stage,
    /// The entrants by the URL of the server, the name of the row and the number of clients. They stay connected.
    entrants: HashMap<(String, String, usize), Entrant>,
}

impl Guest {
    fn work(&mut self, job: &Value) -> Result<Value, Failure> {
        match text(job, "job")? {
            "pairs" => self.pairs(job),
            "crowd" => self.crowd(job),
            "idle" => self.idle(job),
            "verbs" => self.verbs(job),
            "memory" => self.memory(job),
            other => Err(format!("an unknown job: {other}").into()),
        }
    }

    fn pairs(&mut self, job: &Value) -> Result<Value, Failure> {
        let (keys, count) = (keys(job)?, number(job, "count")?);
        let pairs = self.entrant(job, 1)?.pairs(&keys, count);
        Ok(json!({ "elapsed": nanos(self.stage.run(pairs)?) }))
    }

    fn crowd(&mut self, job: &Value) -> Result<Value, Failure> {
        let mut crowd = Crowd::new(size(job, "tasks")?, keys(job)?, time(job)?);
        crowd.servers = vec![text(job, "url")?.to_owned()];
        let crowd = self.entrant(job, 1)?.crowd(crowd);
        Ok(self.stage.run(crowd)?.to_json())
    }

    fn idle(&mut self, job: &Value) -> Result<Value, Failure> {
        let url = text(job, "url")?.to_owned();
        let idle = Idle::new(size(job, "tasks")?, keys(job)?, time(job)?, vec![url]);
        let idle = self.entrant(job, 2)?.idle(idle);
        Ok(self.stage.run(idle)?.to_json())
    }

    fn verbs(&self, job: &Value) -> Result<Value, Failure> {
        let (url, keys, time) = (text(job, "url")?.to_owned(), keys(job)?, time(job)?);
        let client = Arc::new(Raw::new(RedisBackend::open(&url)?));
        let costs = self.stage.run(measure::verbs(client, url, keys, time))?;
        Ok(costs.into_iter().map(VerbCost::to_json).collect())
    }

    fn memory(&self, job: &Value) -> Result<Value, Failure> {
        let (url, count) = (text(job, "url")?.to_owned(), size(job, "count")?);
        let client = Arc::new(Raw::new(RedisBackend::open(&url)?));
        Ok(self.stage.run(measure::memory(client, url, count))?.to_json())
    }

    /// The row of a job, with this many clients.
    fn entrant(&mut self, job: &Value, clients: usize) -> Result<&Entrant, Failure> {
        let (url, name) = (text(job, "url")?.to_owned(), text(job, "contestant")?.to_owned());
        match self.entrants.entry((url.clone(), name.clone(), clients)) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let named = async move { contestants::named(&name, &url, clients).await };
                Ok(place.insert(self.stage.run(named)?))
            }
        }
    }
}

fn text<'a>(job: &'a Value, name: &str) -> Result<&'a str, Failure> {
    job[name].as_str().ok_or_else(|| format!("a job without {name}").into())
}

fn keys(job: &Value) -> Result<Vec<String>, Failure> {
    let keys = job["keys"].as_array().ok_or("a job without keys")?;
    Ok(keys.iter().filter_map(Value::as_str).map(str::to_owned).collect())
}

fn time(job: &Value) -> Result<Duration, Failure> {
    Ok(Duration::from_nanos(number(job, "time")?))
}

fn size(job: &Value, name: &str) -> Result<usize, Failure> {
    Ok(usize::try_from(number(job, name)?)?)
}

#[cfg(test)]
mod tests {
    use lock_tests::RedisServer;

    use super::*;

    #[test]
    fn jobs_are_done() {
        let server = RedisServer::start();
        let stage = Stage::new(Setting::BlockOn).unwrap();
        let mut guest = Guest { stage, entrants: HashMap::new() };
        let mut ask = |job: &str, more: &Value| {
            let mut job = json!({
                "job": job,
                "contestant": "ours, released",
                "url": server.url(),
                "keys": ["guest:0", "guest:1"],
                "time": nanos(Duration::from_millis(20)),
            });
            for (name, value) in more.as_object().unwrap() {
                job[name] = value.clone();
            }
            guest.work(&job)
        };
        assert!(number(&ask("pairs", &json!({ "count": 3 })).unwrap(), "elapsed").unwrap() > 0);
        let window = ask("crowd", &json!({ "tasks": 2 })).unwrap();
        assert!(number(&window, "commands").unwrap() > 0, "{window}");
        let idle = ask("idle", &json!({ "tasks": 4 })).unwrap();
        assert_eq!(idle["intruders"], 0);
        // The other keys may go to a task that was dropped while it waited, for a moment.
        let verbs = ask("verbs", &json!({ "keys": ["guest:2", "guest:3"] })).unwrap();
        assert_eq!(verbs.as_array().unwrap().len(), 3);
        assert!(ask("memory", &json!({ "count": 10 })).unwrap()["held"].is_f64());
        assert!(ask("dance", &json!({})).is_err());
    }
}
