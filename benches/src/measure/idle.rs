//! The cost of many waiters while nothing happens.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::window::{nanos, number};
use crate::meter::spent;
use crate::{Contestant, Failure, Meters, cpu};

/// The first client holds some locks, and tasks of the second one wait for them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Idle {
    /// The number of tasks that wait.
    pub tasks: usize,
    /// The locks. The tasks are spread over them in turn.
    pub keys: Vec<String>,
    /// For how long the bench watches the holders by themselves, and then beside the waiters.
    pub time: Duration,
    /// The URLs of the servers whose commands are counted, and their processor time.
    pub servers: Vec<String>,
}

impl Idle {
    /// Tasks that wait.
    pub fn new(tasks: usize, keys: Vec<String>, time: Duration, servers: Vec<String>) -> Self {
        Self { tasks, keys, time, servers }
    }
}

/// The cost of waiting.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Idleness {
    /// The cost of the holders by themselves.
    pub holders: Watched,
    /// The cost of the holders and the waiters.
    pub all: Watched,
    /// How many tasks got a lock that was held: none if the lock is correct.
    pub intruders: u64,
}

/// The cost of a period.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Watched {
    /// The length of the period.
    pub elapsed: Duration,
    /// How many commands the server received over the network.
    pub commands: u64,
    /// The processor time of this process, with both clients.
    pub cpu: Duration,
    /// The processor time of the server.
    pub server: Duration,
}

impl Idleness {
    /// Encodes it for another process.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "holders": self.holders.to_json(),
            "all": self.all.to_json(),
            "intruders": self.intruders,
        })
    }

    /// Decodes it from another process.
    pub(crate) fn from_json(idleness: &Value) -> Result<Self, Failure> {
        Ok(Self {
            holders: Watched::from_json(&idleness["holders"])?,
            all: Watched::from_json(&idleness["all"])?,
            intruders: number(idleness, "intruders")?,
        })
    }
}

impl Watched {
    /// Commands per second.
    pub fn rate(&self) -> f64 {
        self.commands as f64 / self.elapsed.as_secs_f64()
    }

    fn to_json(self) -> Value {
        json!({
            "elapsed": nanos(self.elapsed),
            "commands": self.commands,
            "cpu": nanos(self.cpu),
            "server": nanos(self.server),
        })
    }

    fn from_json(watched: &Value) -> Result<Self, Failure> {
        let time = |name: &str| number(watched, name).map(Duration::from_nanos);
        Ok(Self {
            elapsed: time("elapsed")?,
            commands: number(watched, "commands")?,
            cpu: time("cpu")?,
            server: time("server")?,
        })
    }
}

/// Lets the tasks wait, on the current runtime.
pub(crate) async fn idle<C: Contestant>(
    holder: &Arc<C>,
    waiter: &Arc<C>,
    plan: Idle,
    inner_commands: &[&str],
) -> Result<Idleness, Failure> {
    let mut meters = Meters::at(&plan.servers)?;
    let mut holders = hold(holder, &plan.keys).await?;
    let alone = watch(&mut meters, plan.time, inner_commands).await?;

    let intruders = Arc::new(AtomicU64::new(0));
    let mut waiters = wait(waiter, &plan, &intruders)?;
    let all = watch(&mut meters, plan.time, inner_commands).await?;

    let failed = waiters.try_join_next();
    waiters.shutdown().await;
    holders.shutdown().await;
    holder.settled().await;
    waiter.settled().await;
    if let Some(failed) = failed {
        failed??;
    }
    Ok(Idleness { holders: alone, all, intruders: intruders.load(Ordering::Relaxed) })
}

/// Starts the tasks that hold the locks. Returns once they hold them.
async fn hold<C: Contestant>(
    client: &Arc<C>,
    keys: &[String],
) -> Result<JoinSet<Result<(), Failure>>, Failure> {
    let mut holders = JoinSet::new();
    let (sender, mut held) = mpsc::unbounded_channel();
    for name in keys {
        let (client, key, sender) = (Arc::clone(client), client.key(name)?, sender.clone());
        holders.spawn(async move {
            let section = async move {
                // An error means that the counting has ended.
                _ = sender.send(());
                pending().await
            };
            client.locked(&key, section).await
        });
    }
    for _ in keys {
        tokio::select! {
            _ = held.recv() => {}
            Some(ended) = holders.join_next() => ended??,
        }
    }
    Ok(holders)
}

/// Starts the tasks that wait for the locks.
fn wait<C: Contestant>(
    client: &Arc<C>,
    plan: &Idle,
    intruders: &Arc<AtomicU64>,
) -> Result<JoinSet<Result<(), Failure>>, Failure> {
    let mut waiters = JoinSet::new();
    for name in plan.keys.iter().cycle().take(plan.tasks) {
        let (client, key) = (Arc::clone(client), client.key(name)?);
        let intruders = Arc::clone(intruders);
        waiters.spawn(async move {
            let section = async move {
                intruders.fetch_add(1, Ordering::Relaxed);
            };
            client.locked(&key, section).await
        });
    }
    Ok(waiters)
}

/// Watches the tasks for this time, after a fifth of it in which they settle down.
async fn watch(
    meters: &mut Meters,
    time: Duration,
    inner_commands: &[&str],
) -> Result<Watched, Failure> {
    tokio::time::sleep(time / 5).await;
    let (before, start, used) = (meters.accounts()?, Instant::now(), cpu::used());
    tokio::time::sleep(time).await;
    let (commands, server) =
        spent(&before, &meters.accounts()?, |account| account.sent(inner_commands));
    let cpu = cpu::used().saturating_sub(used);
    Ok(Watched { elapsed: start.elapsed(), commands, cpu, server })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idleness_travels() {
        let all = Watched { elapsed: Duration::from_secs(2), commands: 3, ..Watched::default() };
        let idleness = Idleness { all, intruders: 4, ..Idleness::default() };
        let there = Idleness::from_json(&idleness.to_json()).unwrap();
        assert_eq!(format!("{there:?}"), format!("{idleness:?}"));
        assert_eq!(there.all.rate(), 1.5);
        assert!(Idleness::from_json(&json!({})).is_err());
    }
}
