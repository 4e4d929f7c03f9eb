//! A leader with standbys: one replica leads, and another one takes over when the leader resigns or dies.
//!
//! Each replica has a runtime of its own, as a process would. The runtime of the first leader is shut down while it
//! leads: a standby leads after the lease has ended. The second leader resigns: the next standby leads at once. The
//! leaders write into a journal, which refuses a leader that was followed by another one.
//!
//! The page `lock_sync::guide::patterns` has the core of it: "A leader with a standby".
//!
//! ```text
//! cargo run --example leader
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example leader
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lock_any::lock_sync::{FencingToken, Locks};
use lock_examples::{AnyError, chain, exit, fresh, url};
use tokio::runtime::{self, Handle, Runtime};
use tokio::sync::Notify;
use tokio::time::sleep;

const REPLICAS: usize = 3;
const TTL: Duration = Duration::from_secs(1);

/// What the leaders change. As a database can, it checks the fencing token of each write.
#[derive(Default)]
struct Journal {
    highest: Option<FencingToken>,
    writers: Vec<usize>,
}

impl Journal {
    /// Writes, unless a later leader has written before. Returns whether it has written.
    fn write(&mut self, replica: usize, token: FencingToken) -> bool {
        let is_current = self.highest <= Some(token);
        if is_current {
            self.highest = Some(token);
            self.writers.push(replica);
        }
        is_current
    }
}

/// What the replicas have in common.
struct World {
    url: String,
    election: String,
    journal: Mutex<Journal>,
    /// Asks the present leader to resign.
    resign: Notify,
}

/// A replica has become the leader, and has written into the journal.
struct Leads {
    replica: usize,
    token: FencingToken,
}

fn main() -> ExitCode {
    exit(run(&url()))
}

/// Tells the story of three leaders, and checks the journal.
fn run(url: &str) -> Result<(), AnyError> {
    let world = Arc::new(World {
        url: url.to_owned(),
        election: fresh("leader"),
        journal: Mutex::default(),
        resign: Notify::new(),
    });
    let start = Instant::now();
    let (tell, news) = mpsc::channel();
    let mut replicas: Vec<_> = (0..REPLICAS)
        .map(|replica| spawn(replica, Arc::clone(&world), tell.clone()).map(Some))
        .collect::<Result<_, _>>()?;
    drop(tell);

    let first = next(&news, "three replicas start", start)?;
    if let Some(runtime) = replicas[first.replica].take() {
        runtime.shutdown_background();
    }
    let second = next(&news, "the leader dies", Instant::now())?;
    world.resign.notify_one();
    let third = next(&news, "the leader resigns", Instant::now())?;

    let mut journal = world.journal.lock().unwrap_or_else(PoisonError::into_inner);
    let late = journal.write(first.replica, first.token);
    journal.writers.dedup();
    if late || journal.writers != [first.replica, second.replica, third.replica] {
        return Err(format!("late write: {late}; terms: {:?}", journal.writers).into());
    }
    println!("\nThe terms did not overlap. The journal refused a late write of the first leader.");
    Ok(())
}

/// Waits for the next leader, and tells of it.
fn next(news: &Receiver<Leads>, what: &str, since: Instant) -> Result<Leads, AnyError> {
    let leads = news.recv_timeout(20 * TTL)?;
    let (number, after, token) = (leads.replica + 1, since.elapsed(), leads.token);
    println!("{what}: replica {number} leads after {after:.1?}, with token {token}");
    Ok(leads)
}

/// Starts a replica on a runtime of its own.
fn spawn(replica: usize, world: Arc<World>, tell: Sender<Leads>) -> Result<Runtime, AnyError> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.spawn(async move {
        if let Err(error) = live(replica, &world, tell).await {
            eprintln!("replica {}: {}", replica + 1, chain(&*error));
        }
    });
    Ok(runtime)
}

/// The life of one replica: a standby, then the leader.
async fn live(replica: usize, world: &World, tell: Sender<Leads>) -> Result<(), AnyError> {
    let store = lock_any::open(&world.url).await?;
    // The driver renews the lease. It runs here, so that it dies with this replica.
    let locks = Locks::builder(store).ttl(TTL).on_runtime(Handle::current()).build()?;
    let election = locks.election(world.election.as_str())?;
    let leadership = election.campaign(format!("replica {}", replica + 1)).await?;
    let lease = leadership.lease();
    tokio::select! {
        lost = lease.while_held(lead(replica, lease.fencing_token(), world, tell)) => lost?,
        () = world.resign.notified() => leadership.resign().await?,
    }
    Ok(())
}

/// The work of the leader: to write, until it is stopped or the journal has seen a later leader.
async fn lead(replica: usize, token: FencingToken, world: &World, tell: Sender<Leads>) {
    let mut is_new = true;
    while world.journal.lock().unwrap_or_else(PoisonError::into_inner).write(replica, token) {
        if is_new {
            let _ = tell.send(Leads { replica, token }); // the story may be over
        }
        is_new = false;
        sleep(Duration::from_millis(20)).await;
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    #[test]
    fn standbys_take_over_over_memory() {
        super::run("memory:").unwrap();
    }

    #[test]
    fn standbys_take_over_over_redis() {
        super::run(&RedisServer::start().url()).unwrap();
    }

    #[test]
    fn standbys_take_over_over_postgres() {
        let server = PostgresServer::start();
        super::run(&server.locks()).unwrap();
    }

    #[test]
    fn standbys_take_over_over_etcd() {
        let server = EtcdServer::start();
        super::run(&server.locks()).unwrap();
    }
}
