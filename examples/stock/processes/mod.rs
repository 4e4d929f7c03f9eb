//! The second part: processes that share nothing but a Redis server.
//!
//! The example starts itself once per buyer. A child says that it is ready, waits for a line, buys,
//! and prints its visits.

mod child;
mod wire;

pub(crate) use child::buy as child;

use std::process::Stdio;
use std::{env, io};

use lock_core::Clock;
use lock_tests::{RedisServer, find_redis_server};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::args::{Args, CHILD, REDIS_URL};
use crate::processes::child::Orders;
use crate::redis_store::RedisStore;
use crate::report::{Report, Visit};
use crate::store::Store;
use crate::{AnyError, tasks};

/// The server of this run.
pub(crate) enum Server {
    Given(String),
    Own(Box<RedisServer>),
}

impl Server {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Given(url) => url.clone(),
            Self::Own(server) => server.url(),
        }
    }

    /// Without the URL that was given, which may hold a password.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Given(_) => format!("the one given in {REDIS_URL} or with --redis"),
            Self::Own(server) => format!("one that was started for this, on {}", server.addr()),
        }
    }
}

/// The server that was given, or one that is found and started; why there is none.
pub(crate) fn server(args: &Args) -> Result<Server, String> {
    if args.processes == 0 {
        return Err("no processes were asked for".to_owned());
    }
    if let Some(url) = &args.redis {
        return Ok(Server::Given(url.clone()));
    }
    let program = find_redis_server()
        .map_err(|missing| format!("{missing}. Name a running one in {REDIS_URL}"))?;
    RedisServer::builder().program(program).try_start().map(|server| Server::Own(Box::new(server)))
}

pub(crate) async fn run(args: &Args, url: String) -> Result<Report, AnyError> {
    let run = format!("stock-{}-{:x}", std::process::id(), Clock::boot().now().as_nanos());
    let store = RedisStore::connect(&url, &run)
        .await
        .map_err(|error| format!("no connection to the Redis server: {error}"))?;
    store.fill(args.stock).await?;
    let report = sell(args, &url, &run, Store::Redis(store.clone())).await;
    store.clear().await?;
    report
}

async fn sell(args: &Args, url: &str, run: &str, store: Store) -> Result<Report, AnyError> {
    let mut buyers = Vec::new();
    for number in 1..=args.processes {
        let wanted = args.wanted_by_each(args.processes);
        buyers.push(Buyer::start(&Orders {
            url: url.to_owned(),
            run: run.to_owned(),
            buyer: format!("process {number}"),
            wanted,
            lock: args.lock,
        })?);
    }
    // All begin together, so that none has bought everything before the last has connected.
    for buyer in &mut buyers {
        buyer.expect_ready().await?;
    }
    for buyer in &mut buyers {
        buyer.go().await?;
    }
    let mut visits = Vec::new();
    for buyer in buyers {
        visits.extend(buyer.visits().await?);
    }
    let left = store.read(None).await?.unwrap_or_default();
    let report = Report::new(args.lock, args.stock, left, visits);
    let refused = tasks::late_write(&store, &report).await?;
    Ok(report.with_stale_write(refused))
}

/// A child, as its parent sees it.
struct Buyer {
    name: String,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Buyer {
    fn start(orders: &Orders) -> Result<Self, AnyError> {
        let mut child = command(orders)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe from the child")?;
        let lines = BufReader::new(stdout).lines();
        Ok(Self { name: orders.buyer.clone(), child, lines })
    }

    async fn expect_ready(&mut self) -> Result<(), AnyError> {
        match self.lines.next_line().await? {
            Some(line) if line == "ready" => Ok(()),
            _ => Err(format!("{} did not start", self.name).into()),
        }
    }

    async fn go(&mut self) -> Result<(), AnyError> {
        let stdin = self.child.stdin.as_mut().ok_or("no pipe to the child")?;
        Ok(stdin.write_all(b"go\n").await?)
    }

    async fn visits(mut self) -> Result<Vec<Visit>, AnyError> {
        let mut visits = Vec::new();
        while let Some(line) = self.lines.next_line().await? {
            let visit = wire::parse(&self.name, &line);
            visits.push(visit.ok_or_else(|| format!("{} said {line:?}", self.name))?);
        }
        let status = self.child.wait().await?;
        if !status.success() {
            return Err(format!("{} failed: {status}", self.name).into());
        }
        Ok(visits)
    }
}

/// Starts this program as a child. Its arguments are for everybody to read, so they say nothing.
fn command(orders: &Orders) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    orders.give(&mut command);
    command.arg(CHILD);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_child_gets_the_url_in_its_environment_alone() {
        let url = "redis://:secret@127.0.0.1:6379";
        let orders = Orders {
            url: url.to_owned(),
            run: "run".to_owned(),
            buyer: "process 1".to_owned(),
            wanted: 1,
            lock: true,
        };
        let command = command(&orders).unwrap();
        let command = command.as_std();
        assert_eq!(command.get_args().collect::<Vec<_>>(), [CHILD]);
        let expected = (OsStr::new(REDIS_URL), Some(OsStr::new(url)));
        assert!(command.get_envs().any(|pair| pair == expected));
    }
}
