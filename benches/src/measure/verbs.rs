//! The cost of single requests for the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::{Value, json};

use super::window::{nanos, number};
use crate::{Failure, Meter, Verbs};

/// The number of requests under way at once.
pub const AT_ONCE: usize = 512;

/// The cost of all calls of one verb for the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerbCost {
    /// How many calls there were.
    pub calls: u64,
    /// How many commands came over the network.
    pub commands: u64,
    /// The processor time of the server's threads.
    pub cpu: Duration,
    /// The part of that time in which the server ran the commands, by its own count.
    pub busy: Duration,
}

impl VerbCost {
    /// Seconds of processor time for each call.
    pub fn cpu_each(&self) -> f64 {
        self.cpu.as_secs_f64() / self.calls as f64
    }

    /// Seconds in commands for each call.
    pub fn busy_each(&self) -> f64 {
        self.busy.as_secs_f64() / self.calls as f64
    }

    /// Commands for each call.
    pub fn commands_each(&self) -> f64 {
        self.commands as f64 / self.calls as f64
    }

    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.commands += other.commands;
        self.cpu += other.cpu;
        self.busy += other.busy;
    }

    /// Encodes it for another process.
    pub(crate) fn to_json(self) -> Value {
        json!({
            "calls": self.calls,
            "commands": self.commands,
            "cpu": nanos(self.cpu),
            "busy": nanos(self.busy),
        })
    }

    /// Decodes it from another process.
    pub(crate) fn from_json(cost: &Value) -> Result<Self, Failure> {
        let number = |name: &str| number(cost, name);
        Ok(Self {
            calls: number("calls")?,
            commands: number("commands")?,
            cpu: Duration::from_nanos(number("cpu")?),
            busy: Duration::from_nanos(number("busy")?),
        })
    }
}

/// Acquires all keys at once, renews them, and releases them, again and again for a while. Returns the cost of each
/// of the three verbs.
///
/// # Errors
///
/// Those of the client; and if the server does not answer.
pub async fn verbs<V: Verbs>(
    client: Arc<V>,
    url: String,
    names: Vec<String>,
    time: Duration,
) -> Result<[VerbCost; 3], Failure> {
    let mut meter = Meter::at(&url)?;
    // Connects, and teaches the server the scripts.
    cycle(&*client, &mut meter, &names).await?;
    let (begin, mut costs) = (Instant::now(), [VerbCost::default(); 3]);
    loop {
        let more = cycle(&*client, &mut meter, &names).await?;
        costs.iter_mut().zip(more).for_each(|(cost, more)| cost.add(more));
        if begin.elapsed() >= time {
            return Ok(costs);
        }
    }
}

async fn cycle<V: Verbs>(
    client: &V,
    meter: &mut Meter,
    names: &[String],
) -> Result<[VerbCost; 3], Failure> {
    let claims = names.iter().map(|name| client.claim(name)).collect::<Result<Vec<_>, _>>()?;
    let claims = || claims.iter();
    Ok([
        phase::<V, _>(meter, claims().map(|claim| client.acquire(claim))).await?,
        phase::<V, _>(meter, claims().map(|claim| client.renew(claim))).await?,
        phase::<V, _>(meter, claims().map(|claim| client.release(claim))).await?,
    ])
}

/// Makes these calls at once. Measures also the cost of asking the server for its processor time, and subtracts it.
async fn phase<V: Verbs, F: Future<Output = Result<(), Failure>>>(
    meter: &mut Meter,
    calls: impl ExactSizeIterator<Item = F>,
) -> Result<VerbCost, Failure> {
    let (count, before) = (calls.len(), meter.account()?);
    let (nothing, start) = (meter.cpu()?, meter.cpu()?);
    try_join_all(calls).await?;
    let end = meter.cpu()?;
    let account = meter.account()?.since(&before);
    Ok(VerbCost {
        calls: count as u64,
        commands: account.sent(V::INNER),
        cpu: (end - start).saturating_sub(start - nothing),
        busy: account.busy(V::INNER),
    })
}

#[cfg(test)]
mod tests {
    use lock_tests::RedisServer;

    use super::*;
    use crate::contestants::Plain;

    #[tokio::test]
    async fn each_verb_is_one_command() {
        let server = RedisServer::start();
        let client = Arc::new(Plain::connect(&server.url()).await.unwrap());
        let names = (0..8).map(|name| format!("verbs:{name}")).collect();
        let costs = verbs(client, server.url(), names, Duration::ZERO).await.unwrap();
        for cost in costs {
            assert_eq!((cost.calls, cost.commands), (8, 8));
            assert!(cost.busy > Duration::ZERO);
            assert_eq!(VerbCost::from_json(&cost.to_json()).unwrap(), cost);
        }
    }
}
