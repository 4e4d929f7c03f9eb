//! Many who wait while nothing happens.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_tests::RedisServer;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Contestant, Failure, ServerLoad, cpu};

/// The first client holds some locks, and tasks of the second one wait for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Idle {
    /// How many tasks wait.
    pub tasks: usize,
    /// The locks. Task after task waits for the next one.
    pub keys: Vec<String>,
    /// For how long they are watched.
    pub time: Duration,
    /// The server whose commands are counted.
    pub server: Arc<RedisServer>,
}

impl Idle {
    /// Tasks that wait.
    pub fn new(tasks: usize, keys: Vec<String>, time: Duration, server: Arc<RedisServer>) -> Self {
        Self { tasks, keys, time, server }
    }
}

/// What waiting cost.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Idleness {
    /// How long they were watched.
    pub elapsed: Duration,
    /// How many commands came to the server over the network.
    pub commands: u64,
    /// What this process computed, with both clients.
    pub cpu: Duration,
    /// What the server computed.
    pub server: ServerLoad,
    /// How many got a lock that was held: none if the lock locks.
    pub intruders: u64,
}

/// Lets them wait, on the present runtime.
pub(crate) async fn idle<C: Contestant>(
    holder: &Arc<C>,
    waiter: &Arc<C>,
    plan: Idle,
    inner_commands: &[&str],
) -> Result<Idleness, Failure> {
    let mut holders = JoinSet::new();
    let (sender, mut held) = mpsc::unbounded_channel();
    for name in &plan.keys {
        let (client, key, sender) = (Arc::clone(holder), holder.key(name)?, sender.clone());
        holders.spawn(async move {
            let section = async move {
                // An error means that nobody counts any more.
                _ = sender.send(());
                pending().await
            };
            client.locked(&key, section).await
        });
    }
    for _ in &plan.keys {
        tokio::select! {
            _ = held.recv() => {}
            Some(ended) = holders.join_next() => ended??,
        }
    }
    let intruders = Arc::new(AtomicU64::new(0));
    let mut waiters = JoinSet::new();
    for name in plan.keys.iter().cycle().take(plan.tasks) {
        let (client, key) = (Arc::clone(waiter), waiter.key(name)?);
        let intruders = Arc::clone(&intruders);
        waiters.spawn(async move {
            let section = async move {
                intruders.fetch_add(1, Ordering::Relaxed);
            };
            client.locked(&key, section).await
        });
    }
    // Until then they have asked for the first time.
    tokio::time::sleep(plan.time / 5).await;
    let (stats, load) = (plan.server.commandstats(), ServerLoad::of(&plan.server));
    let (start, cpu_before) = (Instant::now(), cpu::used());

    tokio::time::sleep(plan.time).await;
    let (elapsed, cpu) = (start.elapsed(), cpu::used().saturating_sub(cpu_before));
    let load = ServerLoad::of(&plan.server).since(load);
    let stats = plan.server.commandstats().since(&stats);

    let failed = waiters.try_join_next();
    waiters.shutdown().await;
    holders.shutdown().await;
    holder.settled().await;
    waiter.settled().await;
    if let Some(failed) = failed {
        failed??;
    }
    let sent = stats.iter().filter(|(name, _)| !inner_commands.contains(name));
    Ok(Idleness {
        elapsed,
        commands: sent.map(|(_, calls)| calls).sum(),
        cpu,
        server: load,
        intruders: intruders.load(Ordering::Relaxed),
    })
}
