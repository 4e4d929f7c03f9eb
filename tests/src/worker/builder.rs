//! The options of a worker.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use super::{Events, LIMIT, Worker};

/// Options for a [`Worker`].
#[derive(Clone, Debug)]
#[must_use]
pub struct WorkerBuilder {
    program: PathBuf,
    command: String,
    args: Vec<String>,
}

impl WorkerBuilder {
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program, command: "obey".to_owned(), args: Vec::new() }
    }

    /// The command of the program: the word before all options. By default it is `obey`.
    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    /// An option without a method here.
    pub fn arg(self, name: &str, value: impl ToString) -> Self {
        self.option(name, value)
    }

    /// How long its leases live without renewal.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.option("--ttl", ttl.as_millis())
    }

    /// How long it holds a lock at most.
    pub fn max_hold(self, limit: Duration) -> Self {
        self.option("--max-hold", limit.as_millis())
    }

    /// How long it waits for a lock at most.
    pub fn wait_limit(self, limit: Duration) -> Self {
        self.option("--wait-limit", limit.as_millis())
    }

    /// Whether it renews its leases.
    pub fn renewal(self, renewal: bool) -> Self {
        self.option("--renewal", renewal)
    }

    /// Whether it releases a lock to the store after each holder as soon as another process waits, instead of
    /// passing it on among its own tasks for a while.
    pub fn fair(self, fair: bool) -> Self {
        self.option("--fair", fair)
    }

    /// For how long it passes the lock on among its own tasks while another process waits.
    pub fn budget(self, time: Duration) -> Self {
        self.option("--budget", time.as_millis())
    }

    /// For how long it keeps a lease that none of its tasks holds.
    pub fn cache(self, idle: Duration) -> Self {
        self.option("--cache", idle.as_millis())
    }

    /// Over a quorum: the longest lease that its nodes grant.
    pub fn max_ttl(self, max_ttl: Duration) -> Self {
        self.option("--max-ttl", max_ttl.as_millis())
    }

    /// Over a quorum: how long a node may take to answer.
    pub fn node_timeout(self, timeout: Duration) -> Self {
        self.option("--node-timeout", timeout.as_millis())
    }

    fn option(mut self, name: &str, value: impl ToString) -> Self {
        self.args.extend([name.to_owned(), value.to_string()]);
        self
    }

    /// Starts the worker on the store at `url`, and waits until it accepts orders. It has not necessarily
    /// connected by then.
    ///
    /// The URL begins with `postgres:` for PostgreSQL, and with `etcd:` for etcd. All other URLs are for Redis.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn spawn(self, url: &str) -> Worker {
        self.spawn_over(&[url])
    }

    /// As above, over a quorum of the Redis servers at these URLs, a majority of which must answer. With one URL it is
    /// a worker on that store.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn spawn_over<U: AsRef<str>>(self, urls: &[U]) -> Worker {
        let worker = self.launch_over(urls);
        worker.wait_for("ready", LIMIT);
        worker
    }

    /// As [`spawn_over`](Self::spawn_over), but does not wait until the worker is ready: it may end before.
    ///
    /// # Panics
    ///
    /// If the program does not start.
    #[track_caller]
    pub fn launch_over<U: AsRef<str>>(self, urls: &[U]) -> Worker {
        let program = self.program.display();
        let mut child = Command::new(&self.program)
            .arg(&self.command)
            .args(urls.iter().flat_map(|url| ["--url", url.as_ref()]))
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // When the test process dies, the pipe ends and the worker with it. A stopped worker
            // sees no pipe, but the system ends the stopped processes of a group that is orphaned.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            panic!("no pipes to {program}");
        };
        let pid = child.id();
        let events = Events::default();
        let sink = events.clone();
        let read = move || {
            BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| sink.push(&line));
            sink.end();
        };
        std::thread::Builder::new()
            .name(format!("events of {pid}"))
            .spawn(read)
            .unwrap_or_else(|error| panic!("no thread for the worker's events: {error}"));
        Worker { child: Mutex::new(child), pid, orders: Mutex::new(stdin), events }
    }
}
