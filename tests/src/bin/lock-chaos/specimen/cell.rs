//! The value beside a lock of the specimen: on one server. A lease is not renewed: making a value takes less
//! time.

use std::sync::Arc;

use super::World;
use super::flaw::Flaw;
use super::link::Failed;
use super::store::{AcquireOutcome, flag, name, satellite};

pub(super) struct Cell {
    world: Arc<World>,
    key: String,
    owner: String,
}

impl Cell {
    pub(super) fn new(world: &Arc<World>, key: &str) -> Self {
        Self { world: Arc::clone(world), key: key.to_owned(), owner: world.owner() }
    }

    pub(super) async fn load(&self) -> Result<Option<u64>, Failed> {
        let script = "return redis.call('GET', KEYS[1])";
        self.world.link()?.call(script, &[satellite(&self.key, "cell")], &[]).await
    }

    /// Takes the lock, if it is free.
    pub(super) async fn lock(&self) -> Result<bool, Failed> {
        let attempt = self.world.store.attempt(&self.key, &self.owner, false).await?;
        Ok(matches!(attempt, AcquireOutcome::Granted(_)))
    }

    /// Stores a value. Returns whether the lock was still held.
    pub(super) async fn store(&self, value: u64) -> Result<bool, Failed> {
        let checks = self.world.flaw != Flaw::BlindStore;
        let args = [self.owner.clone(), flag(checks), value.to_string()];
        let keys = [name(&self.key), satellite(&self.key, "cell")];
        let script = include_str!("scripts/cell.lua");
        let stored: i64 = self.world.link()?.call(script, &keys, &args).await?;
        Ok(stored == 1)
    }

    /// Releases the lock. If that does not reach the server, the lease ends.
    pub(super) async fn unlock(&self) {
        _ = self.world.store.release(&self.key, &self.owner).await;
    }
}
