//! The client tool of etcd, whose command `lock` is etcd's own recipe for a lock.

use std::process::Stdio;

use lock_tests::etcd_programs;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::http;
use crate::{Contestant, Failure};

/// A process for each pass. It has a session with a lease, says when it has the lock, and releases the lock when it is
/// interrupted.
#[derive(Debug)]
pub(super) struct Lock(Tool);

/// A process for each pass that reads a key which is not there: the cost of the process, its connection and a request.
#[derive(Debug)]
pub(super) struct Read(Tool);

#[derive(Debug)]
struct Tool {
    endpoint: String,
}

impl Tool {
    fn at(url: &str) -> Self {
        Self { endpoint: format!("--endpoints={}", http(url)) }
    }

    fn start(&self, command: &str, key: &str) -> Result<Child, Failure> {
        let mut tool = Command::new(etcd_programs().join("etcdctl"));
        tool.env("ETCDCTL_API", "3").args([&self.endpoint, command, key]);
        tool.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(tool.kill_on_drop(true).spawn()?)
    }
}

impl Lock {
    pub(super) fn at(url: &str) -> Self {
        Self(Tool::at(url))
    }
}

impl Read {
    pub(super) fn at(url: &str) -> Self {
        Self(Tool::at(url))
    }
}

impl Contestant for Lock {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("etcdctl/{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut tool = self.0.start("lock", key)?;
        let out = tool.stdout.take().ok_or("a process without a pipe")?;
        // The tool prints the key of its place once the place is the first.
        let mut lines = BufReader::new(out).lines();
        lines.next_line().await?.ok_or("etcdctl has ended without the lock")?;
        section.await;
        let pid = tool.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        kill_process(pid.ok_or("etcdctl has ended with the lock")?, Signal::INT)?;
        // It ends once the lock is released. Its code says only that it was interrupted.
        tool.wait().await?;
        Ok(())
    }
}

impl Contestant for Read {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(format!("etcdctl/{name}"))
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let status = self.0.start("get", key)?.wait().await?;
        section.await;
        if status.success() { Ok(()) } else { Err(format!("etcdctl: {status}").into()) }
    }
}
