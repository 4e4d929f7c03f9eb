//! A barrier of the specimen: on one server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::World;
use super::flaw::Flaw;
use super::link::Failed;
use super::store::{name, satellite};

/// How often the tasks at the barrier look.
const LOOK: Duration = Duration::from_millis(5);

pub(super) struct Barrier {
    world: Arc<World>,
    key: String,
    of: u32,
}

impl Barrier {
    pub(super) fn new(world: &Arc<World>, key: &str, of: u32) -> Self {
        Self { world: Arc::clone(world), key: key.to_owned(), of }
    }

    /// Waits for the others, within this time. Returns whether this task opened the barrier, or `None` if no
    /// task did.
    pub(super) async fn wait(&self, limit: Duration) -> Result<Option<bool>, Failed> {
        let (owner, end) = (self.world.owner(), Instant::now() + limit);
        let (group, opens) = self.ask(&owner, "come", -1).await?;
        if opens {
            return Ok(Some(true));
        }
        while Instant::now() < end {
            sleep(LOOK).await;
            match self.ask(&owner, "come", group).await {
                Ok((_, true)) => return Ok(Some(true)),
                Ok((now, _)) if now != group => return Ok(Some(false)),
                // The next look renews its lease there, or the lease ends.
                _ => {}
            }
        }
        let (now, _) = self.ask(&owner, "go", group).await?;
        Ok((now != group).then_some(false))
    }

    /// The group that gathers, and whether this task has opened the barrier for it.
    async fn ask(&self, owner: &str, what: &str, group: i64) -> Result<(i64, bool), Failed> {
        let of = self.of - u32::from(self.world.flaw == Flaw::EarlyBarrier);
        let ttl = self.world.ttl.as_millis();
        let args = [owner, &of.to_string(), what, &ttl.to_string(), &group.to_string()];
        let args = args.map(str::to_owned);
        let keys = [name(&self.key), satellite(&self.key, "cell")];
        let script = include_str!("scripts/barrier.lua");
        let (group, opens): (i64, i64) = self.world.link()?.call(script, &keys, &args).await?;
        Ok((group, opens == 1))
    }
}
