//! The second part: processes that share only servers.
//!
//! The example starts itself once per buyer. A child says that it is ready, waits for a line, buys,
//! and prints its visits.

mod child;
mod wire;

pub(crate) use child::buy as child;

use std::process::Stdio;
use std::{env, io};

use lock_any::ENV;
use lock_core::Clock;
use lock_examples::AnyError;
use lock_tests::{RedisCluster, RedisServer, Sentinels, find_redis_server};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::args::{Args, CHILD, Over, REDIS_URL};
use crate::processes::child::Orders;
use crate::redis_store::RedisStore;
use crate::report::{Report, Visit};
use crate::store::Store;
use crate::tasks;

/// The servers of this run: those of the locks, and the one of the database.
///
/// The database is on one Redis server. The locks are on that server or elsewhere: in a cluster, behind sentinels, or in
/// another kind of store.
pub(crate) enum Servers {
    Given(String),
    Own(Box<RedisServer>),
    /// Locks at this URL, which the user gave.
    Apart(String, Database),
    Cluster(RedisCluster, Box<RedisServer>),
    Sentinels(Sentinels, Box<RedisServer>),
}

/// The server of the database alone.
pub(crate) enum Database {
    Given(String),
    Own(Box<RedisServer>),
}

impl Servers {
    /// The URL of the locks.
    pub(crate) fn url(&self) -> String {
        match self {
            Self::Given(url) | Self::Apart(url, _) => url.clone(),
            Self::Own(server) => server.url(),
            Self::Cluster(cluster, _) => cluster.url(),
            Self::Sentinels(sentinels, _) => sentinels.url(),
        }
    }

    /// The URL of the database.
    pub(crate) fn store(&self) -> String {
        match self {
            Self::Given(url) | Self::Apart(_, Database::Given(url)) => url.clone(),
            Self::Own(server)
            | Self::Apart(_, Database::Own(server))
            | Self::Cluster(_, server)
            | Self::Sentinels(_, server) => server.url(),
        }
    }

    /// A description without the given URL, which may contain a password.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Given(_) => format!("the one given in {REDIS_URL} or with --redis"),
            Self::Apart(..) => format!(
                "the one given in {ENV}, in {REDIS_URL} or with --redis; the database has a URL of its own"
            ),
            Self::Own(server) => format!("one that was started for this, on {}", server.addr()),
            Self::Cluster(..) | Self::Sentinels(..) => {
                format!("started for this: {}; the database is on another server", self.url())
            }
        }
    }
}

/// The given servers, or some that are started. The error says why there are none.
pub(crate) fn servers(args: &Args) -> Result<Servers, String> {
    if args.processes == 0 {
        return Err("no processes were asked for".to_owned());
    }
    let start = || {
        let program = find_redis_server()
            .map_err(|missing| format!("{missing}. Name a running one in {REDIS_URL}"))?;
        RedisServer::builder().program(program).try_start().map(Box::new)
    };
    let redis = args.redis.as_ref().filter(|url| !is_deployment(url));
    if let Some(url) = &args.locks {
        if url.to_ascii_lowercase().starts_with("memory:") {
            return Err(format!("processes share no memory. Name a server in {ENV}"));
        }
        let database = match redis {
            Some(server) => Database::Given(server.clone()),
            None => Database::Own(start()?),
        };
        return Ok(Servers::Apart(url.clone(), database));
    }
    match (&args.redis, args.over) {
        (Some(url), Over::Server) if is_deployment(url) => {
            Ok(Servers::Apart(url.clone(), Database::Own(start()?)))
        }
        (Some(url), Over::Server) => Ok(Servers::Given(url.clone())),
        (_, Over::Server) => start().map(Servers::Own),
        (_, Over::Cluster) => {
            let store = start()?;
            Ok(Servers::Cluster(RedisCluster::start(3, 3), store))
        }
        (_, Over::Sentinels) => {
            let store = start()?;
            Ok(Servers::Sentinels(Sentinels::start(2, 3), store))
        }
    }
}

/// Whether a URL names several servers.
fn is_deployment(url: &str) -> bool {
    let scheme = url.split("://").next().unwrap_or_default();
    scheme.ends_with("+cluster") || scheme.ends_with("+sentinel")
}

pub(crate) async fn run(args: &Args, servers: &Servers) -> Result<Report, AnyError> {
    let run = format!("stock-{}-{:x}", std::process::id(), Clock::boot().now().as_nanos());
    let store = RedisStore::connect(&servers.store(), &run)
        .await
        .map_err(|error| format!("no connection to the Redis server: {error}"))?;
    store.fill(args.stock).await?;
    let report = sell(args, servers, &run, Store::Redis(store.clone())).await;
    store.clear().await?;
    report
}

async fn sell(args: &Args, servers: &Servers, run: &str, store: Store) -> Result<Report, AnyError> {
    let mut buyers = Vec::new();
    for number in 1..=args.processes {
        let wanted = args.wanted_by_each(args.processes);
        buyers.push(Buyer::start(&Orders {
            url: servers.url(),
            store: servers.store(),
            run: run.to_owned(),
            stock: args.stock,
            buyer: format!("process {number}"),
            wanted,
            lock: args.lock,
        })?);
    }
    // All buyers begin together, so that none buys everything before the last one has connected.
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
    let locks = lock_any::connect(&servers.url()).await?;
    let stock = args.lock.then(|| locks.stored_mutex(run, args.stock)).transpose()?;
    tasks::report(args, stock.as_ref(), &store, visits).await
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

/// The command that starts this program as a child. Every user can read its arguments, so they contain no secret.
fn command(orders: &Orders) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    orders.give(&mut command);
    command.arg(CHILD);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use lock_tests::{EtcdServer, PostgresServer};

    use super::*;

    /// The example runs itself as its children, which a test cannot. So the buyers are tasks here.
    async fn nothing_is_oversold(args: &Args) {
        let servers = tokio::task::block_in_place(|| servers(args).unwrap());
        assert!(servers.url() != servers.store() && !is_deployment(&servers.store()));
        let store = RedisStore::connect(&servers.store(), "test").await.unwrap();
        store.fill(args.stock).await.unwrap();
        let store = Store::Redis(store);
        let mut buyers = tokio::task::JoinSet::new();
        for number in 1..=args.processes {
            let (store, wanted) = (store.clone(), args.wanted_by_each(args.processes));
            let locks = lock_any::connect(&servers.url()).await.unwrap();
            let stock = locks.stored_mutex("test", args.stock).unwrap();
            let name = format!("task {number}");
            buyers.spawn(async move {
                crate::buyer::shop(&name, wanted, &store, Some(&stock)).await.unwrap()
            });
        }
        let visits = buyers.join_all().await.into_iter().flatten().collect();
        let locks = lock_any::connect(&servers.url()).await.unwrap();
        let stock = locks.stored_mutex("test", args.stock).unwrap();
        let report = tasks::report(args, Some(&stock), &store, visits).await.unwrap();
        assert!(report.is_good(), "{}: {report}", servers.url());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_oversold_over_a_cluster_and_behind_sentinels() {
        for over in [Over::Cluster, Over::Sentinels] {
            nothing_is_oversold(&Args { over, ..Args::default() }).await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn nothing_is_oversold_over_postgres_and_etcd() {
        let (postgres, etcd) = (PostgresServer::start(), EtcdServer::start());
        for url in [postgres.locks(), etcd.locks()] {
            nothing_is_oversold(&Args { locks: Some(url), ..Args::default() }).await;
        }
    }

    #[test]
    fn the_database_is_on_a_redis_server_wherever_the_locks_are() {
        let with = |locks: &str| {
            let [locks, redis] = [locks, "redis://given"].map(|url| Some(url.to_owned()));
            servers(&Args { locks, redis, ..Args::default() })
        };
        let apart = with("etcd://one").unwrap();
        assert_eq!((apart.url(), apart.store()), ("etcd://one".into(), "redis://given".into()));
        assert!(!apart.description().contains("://"), "{}", apart.description());
        assert!(with("memory:").is_err());
    }

    #[test]
    fn deployments_are_known_by_their_urls() {
        assert!(is_deployment("rediss+cluster://h1,h2") && is_deployment("valkey+sentinel://s/m"));
        assert!(!is_deployment("redis://h") && !is_deployment("redis+unix:///run/redis.sock"));
    }

    #[test]
    fn a_child_gets_the_url_in_its_environment_alone() {
        let url = "redis://:secret@127.0.0.1:6379";
        let orders = Orders {
            url: url.to_owned(),
            store: url.to_owned(),
            run: "run".to_owned(),
            stock: 1,
            buyer: "process 1".to_owned(),
            wanted: 1,
            lock: true,
        };
        let command = command(&orders).unwrap();
        let command = command.as_std();
        assert_eq!(command.get_args().collect::<Vec<_>>(), [CHILD]);
        let expected = (OsStr::new(ENV), Some(OsStr::new(url)));
        assert!(command.get_envs().any(|pair| pair == expected));
    }
}
