//! A row that the other build measures.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use serde_json::{Value, json};

use super::OtherBuild;
use crate::entrant::Clients;
use crate::measure::{Crowd, Idle, Idleness, Passes, Window, nanos, number};
use crate::team::{Orders, Part};
use crate::{Failure, Setting};

/// The clients of a row, in a process of the other build.
///
/// Each call blocks until the answer is there. Nothing else is measured meanwhile.
pub(crate) struct Remote {
    build: OtherBuild,
    contestant: String,
    url: String,
}

impl Remote {
    /// The row of this name, if there is another build.
    pub(crate) fn start(
        contestant: &str,
        url: &str,
        setting: Setting,
    ) -> Result<Option<Self>, Failure> {
        let (contestant, url) = (contestant.to_owned(), url.to_owned());
        let build = OtherBuild::start(setting)?;
        Ok(build.map(|build| Self { build, contestant, url }))
    }

    fn ask(&self, mut job: Value) -> Result<Value, Failure> {
        job["contestant"] = self.contestant.as_str().into();
        job["url"] = self.url.as_str().into();
        self.build.ask(&job)
    }
}

/// A job of this many tasks for this long.
fn timed(job: &str, tasks: usize, keys: &[String], time: Duration) -> Value {
    json!({ "job": job, "tasks": tasks, "keys": keys, "time": nanos(time) })
}

impl Clients for Remote {
    fn pairs(
        self: Arc<Self>,
        keys: Vec<String>,
        count: u64,
    ) -> BoxFuture<'static, Result<Duration, Failure>> {
        async move {
            let answer = self.ask(json!({ "job": "pairs", "keys": keys, "count": count }))?;
            Ok(Duration::from_nanos(number(&answer, "elapsed")?))
        }
        .boxed()
    }

    fn passes(
        self: Arc<Self>,
        _key: String,
        _time: Duration,
        _limit: Duration,
    ) -> BoxFuture<'static, Result<Passes, Failure>> {
        async { Err("the other build does not measure passes".into()) }.boxed()
    }

    fn crowd(
        self: Arc<Self>,
        crowd: Crowd,
        _inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Window, Failure>> {
        async move {
            let job = timed("crowd", crowd.tasks, &crowd.keys, crowd.window);
            Window::from_json(&self.ask(job)?)
        }
        .boxed()
    }

    fn idle(
        self: Arc<Self>,
        idle: Idle,
        _inner_commands: &'static [&'static str],
    ) -> BoxFuture<'static, Result<Idleness, Failure>> {
        async move {
            let job = timed("idle", idle.tasks, &idle.keys, idle.time);
            Idleness::from_json(&self.ask(job)?)
        }
        .boxed()
    }

    fn member(
        self: Arc<Self>,
        _part: Part,
        _orders: Orders,
    ) -> BoxFuture<'static, Result<(), Failure>> {
        async { Err("a member is its own process".into()) }.boxed()
    }
}
