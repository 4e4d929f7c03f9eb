//! A cron job on several replicas: one replica runs each tick, and another one takes over when a replica dies.
//!
//! The value of a `StoredMutex` is the last tick that is done. At each tick every replica locks it. The first one runs
//! the job and commits the tick. The others wait, and find it done. If the first one dies at work, its guard commits
//! nothing, and the next replica runs the job.
//!
//! The page `lock_sync::guide::patterns` has the core of it: "A cron job on one replica".
//!
//! ```text
//! cargo run --example cron
//! LOCK_URL=redis://127.0.0.1:6379 cargo run --example cron
//! ```

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lock_any::lock_sync::{StoredMutex, StoredMutexGuard};
use lock_examples::{AnyError, exit, fresh, url};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const REPLICAS: u32 = 3;
const TICKS: u32 = 6;
const PERIOD: Duration = Duration::from_millis(100);
/// The first replica that runs this tick dies at work.
const DEADLY: u32 = 3;
/// How often a replica asks again for a tick during which it has lost its lease.
const REPEATS: u32 = 3;

/// What the job has done.
#[derive(Default)]
struct Job {
    reports: Vec<u32>,
    deaths: u32,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit(run(&url()).await)
}

/// Runs the replicas, and checks what the job has done.
async fn run(url: &str) -> Result<(), AnyError> {
    let (name, job, start) = (fresh("cron"), Arc::<Mutex<Job>>::default(), Instant::now());
    let mut replicas = JoinSet::new();
    for replica in 1..=REPLICAS {
        let done = lock_any::connect(url).await?.stored_mutex(name.as_str(), 0)?;
        replicas.spawn(live(replica, done, Arc::clone(&job), start));
    }
    for outcome in replicas.join_all().await {
        outcome?;
    }

    let job = job.lock().unwrap_or_else(PoisonError::into_inner);
    if !job.reports.iter().copied().eq(1..=TICKS) || job.deaths != 1 {
        return Err(format!("{} deaths; the ticks that ran: {:?}", job.deaths, job.reports).into());
    }
    println!("\nEach of the {TICKS} ticks ran once, although a replica died.");
    Ok(())
}

/// The life of one replica.
async fn live(
    replica: u32,
    done: StoredMutex<u32>,
    job: Arc<Mutex<Job>>,
    start: Instant,
) -> Result<(), AnyError> {
    for tick in 1..=TICKS {
        // The clocks of the replicas differ: at each tick, another one is ahead.
        let late = (tick + replica) % REPLICAS * PERIOD / 20;
        sleep_until(start + tick * PERIOD + late).await;
        if !survive(tick, replica, &done, &job).await? {
            println!("tick {tick}: replica {replica} dies at work");
            return Ok(());
        }
    }
    Ok(())
}

/// One tick of one replica. Returns whether the replica has survived it.
async fn survive(
    tick: u32,
    replica: u32,
    done: &StoredMutex<u32>,
    job: &Mutex<Job>,
) -> Result<bool, AnyError> {
    let mut repeats = 0..REPEATS;
    loop {
        let mut done = done.lock().await?;
        if *done >= tick {
            return Ok(true); // another replica was faster
        }
        let lease = StoredMutexGuard::lease(&done);
        match lease.while_held(report(tick, job)).await {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            // The job was dropped where it stood. Some replica has to run it again.
            Err(_) if repeats.next().is_some() => continue,
            Err(lost) => return Err(lost.into()),
        }
        *done = tick;
        done.commit().await?;
        println!("tick {tick}: done by replica {replica}");
        return Ok(true);
    }
}

/// The job. Returns whether its replica has survived it.
///
/// A replica may also die after the work and before the commit. Then the job runs again, so it should bear that.
async fn report(tick: u32, job: &Mutex<Job>) -> bool {
    sleep(Duration::from_millis(10)).await;
    let mut job = job.lock().unwrap_or_else(PoisonError::into_inner);
    if tick == DEADLY && job.deaths == 0 {
        job.deaths += 1;
        return false;
    }
    job.reports.push(tick);
    true
}

#[cfg(test)]
mod tests {
    use lock_tests::{EtcdServer, PostgresServer, RedisServer};

    #[tokio::test(flavor = "multi_thread")]
    async fn each_tick_runs_once_over_memory() {
        super::run("memory:").await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_tick_runs_once_over_redis() {
        super::run(&RedisServer::start().url()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_tick_runs_once_over_postgres() {
        let server = PostgresServer::start();
        super::run(&server.locks()).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn each_tick_runs_once_over_etcd() {
        let server = EtcdServer::start();
        super::run(&server.locks()).await.unwrap();
    }
}
