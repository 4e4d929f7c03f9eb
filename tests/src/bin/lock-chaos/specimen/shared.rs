//! A reader-writer lock and a semaphore of the specimen: on one server, each holder with a lease of its own.

use std::sync::Arc;
use std::time::Duration;

use lock_core::FencingToken;
use lock_tests::Random;
use lock_tests::chaos::history::{Refusal, Way};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::World;
use super::flaw::Flaw;
use super::lease::{Lease, now};
use super::line::Line;
use super::link::Failed;
use super::store::{name, satellite};
use super::traffic::failed;

/// A lock that several owners may hold at once.
pub(super) struct Shared {
    world: Arc<World>,
    key: String,
    /// The number of permits. A reader-writer lock has none.
    limit: u32,
    /// The tasks of this process that ask, in order.
    line: Arc<Line<()>>,
}

/// The owner of this value is one of the holders.
pub(super) struct Holder {
    world: Arc<World>,
    key: String,
    owner: String,
    lease: Arc<Lease>,
    renewal: AbortHandle,
    token: FencingToken,
    is_open: bool,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asking {
    New,
    /// Without a check of the other holders.
    Blindly,
    /// For another way than that of the present hold.
    Convert,
}

impl Shared {
    pub(super) fn new(world: &Arc<World>, key: &str, limit: u32) -> Self {
        Self { world: Arc::clone(world), key: key.to_owned(), limit, line: Line::new(world.flaw) }
    }

    /// Waits until the lock can be held in this way, within this time. `None` if the time was too short.
    ///
    /// # Cancel safety
    ///
    /// The owner is withdrawn from the server.
    pub(super) async fn hold(&self, way: Way, limit: Duration) -> Option<Holder> {
        let mut holder = self.holder(self.world.owner());
        let obtained = timeout(limit, async {
            let turn = self.line.turn().await;
            let mut random = Random::from_seed(now().as_nanos());
            while !self.obtain(&mut holder, way).await {
                sleep(random.between(Duration::from_millis(3), Duration::from_millis(15))).await;
            }
            turn.pass(None);
        });
        if obtained.await.is_err() {
            holder.leave().await;
            return None;
        }
        holder.keep();
        Some(holder)
    }

    async fn obtain(&self, holder: &mut Holder, way: Way) -> bool {
        let word = word(way);
        let asked = now();
        let asking = if self.world.flaw == Flaw::CheckThenTake && self.limit > 0 {
            match self.fits(way).await {
                Ok(true) => Asking::Blindly,
                _ => return false,
            }
        } else {
            Asking::New
        };
        let granted = self.world.share(&self.key, &holder.owner, &word, self.limit, asking).await;
        let Ok((1, token)) = granted else { return false };
        holder.token = FencingToken::new(token);
        holder.lease = Lease::new(self.world.ttl, self.world.flaw, asked);
        holder.lease.lasts(Duration::ZERO)
    }

    /// Whether this many permits are left.
    async fn fits(&self, way: Way) -> Result<bool, Failed> {
        let Way::Permits(count) = way else { return Ok(true) };
        let link = self.world.link()?;
        let ways = satellite(&self.key, "ways");
        let script = "return redis.call('HVALS', KEYS[1])";
        let out: Vec<u32> = link.call(script, &[ways], &[]).await?;
        Ok(out.iter().sum::<u32>() + count <= self.limit)
    }

    fn holder(&self, owner: String) -> Holder {
        let lease = Lease::new(self.world.ttl, self.world.flaw, now());
        let renewal = tokio::spawn(async {}).abort_handle();
        Holder {
            world: Arc::clone(&self.world),
            key: self.key.clone(),
            owner,
            lease,
            renewal,
            token: FencingToken::new(0),
            is_open: true,
        }
    }
}

impl Holder {
    pub(super) fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    pub(super) fn token(&self) -> FencingToken {
        self.token
    }

    /// Becomes a writer, and waits this long for the readers. If they stay, the old hold remains.
    pub(super) async fn upgrade(&mut self, limit: Duration) -> Result<FencingToken, Refusal> {
        let (world, key, owner) = (Arc::clone(&self.world), self.key.clone(), self.owner.clone());
        let gap = world.flaw == Flaw::UpgradeGap;
        let asking = if gap { Asking::New } else { Asking::Convert };
        if gap {
            _ = world.keep(&key, &owner, Duration::ZERO).await;
        } else {
            _ = world.share(&key, &owner, "climbing", 0, asking).await;
        }
        let climbed = timeout(limit, async {
            loop {
                match world.share(&key, &owner, "write", 0, asking).await {
                    Ok((1, token)) => return Ok(token),
                    Ok((-1, _)) => return Err(Refusal::Lost),
                    _ => sleep(Duration::from_millis(4)).await,
                }
            }
        });
        match climbed.await {
            Ok(outcome) => {
                self.token = FencingToken::new(outcome?);
                Ok(self.token)
            }
            Err(_) => {
                _ = world.share(&key, &owner, "upgradable", 0, asking).await;
                Err(Refusal::TimedOut)
            }
        }
    }

    /// Becomes a reader, with its token. Returns the token, unless the request failed.
    pub(super) async fn downgrade(&mut self) -> Result<FencingToken, Refusal> {
        let read = self.world.share(&self.key, &self.owner, "read", 0, Asking::Convert).await;
        match read {
            Ok((1, _)) => Ok(self.token),
            // No holder is in the way of a reader that was a writer.
            Ok(_) => Err(Refusal::Lost),
            Err(Failed) => Err(failed()),
        }
    }

    /// Releases. Returns whether the server has confirmed that.
    pub(super) async fn leave(mut self) -> bool {
        self.renewal.abort();
        let left = self.world.keep(&self.key, &self.owner, Duration::ZERO).await;
        self.is_open = false;
        left.is_ok()
    }

    fn keep(&mut self) {
        let (world, key) = (Arc::clone(&self.world), self.key.clone());
        let owner = self.owner.clone();
        self.renewal = self.lease.keep(move || {
            let (world, key, owner) = (Arc::clone(&world), key.clone(), owner.clone());
            async move { world.keep(&key, &owner, world.ttl).await }
        });
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.renewal.abort();
        if self.is_open {
            let (world, key) = (Arc::clone(&self.world), std::mem::take(&mut self.key));
            let owner = std::mem::take(&mut self.owner);
            self.world.later(async move { _ = world.keep(&key, &owner, Duration::ZERO).await });
        }
    }
}

impl World {
    async fn share(
        &self,
        key: &str,
        owner: &str,
        way: &str,
        limit: u32,
        asking: Asking,
    ) -> Result<(i64, u64), Failed> {
        let asking = match asking {
            Asking::New => "new",
            Asking::Blindly => "none",
            Asking::Convert => "convert",
        };
        let ttl = self.ttl.as_millis();
        let args = [owner, way, &ttl.to_string(), &limit.to_string(), asking]
            .map(|arg: &str| arg.to_owned());
        let [ways, fence] = ["ways", "state"].map(|part| satellite(key, part));
        let keys = [name(key), ways, fence];
        let (outcome, token): (i64, String) =
            self.link()?.call(include_str!("scripts/share.lua"), &keys, &args).await?;
        Ok((outcome, token.parse().unwrap_or(0)))
    }

    async fn keep(&self, key: &str, owner: &str, ttl: Duration) -> Result<bool, Failed> {
        let args = [owner.to_owned(), ttl.as_millis().to_string()];
        let ways = satellite(key, "ways");
        let keys = [name(key), ways];
        let kept: i64 = self.link()?.call(include_str!("scripts/keep.lua"), &keys, &args).await?;
        Ok(kept == 1)
    }
}

fn word(way: Way) -> String {
    match way {
        Way::Permits(count) => count.to_string(),
        other => other.to_string(),
    }
}
