//! An arena in which many clients contend for a key, and which counts the holders inside.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};
use tokio::time;

use super::super::Harness;
use super::super::scene::{Client, Scene, in_mode};
use super::super::verdict::{Check, Failure, ensure};
use crate::{Acquire, AcquireOutcome, Backend, Claim, Grant, Mode, Ttl};

/// The counters that the holders of one key share.
pub(super) struct Arena {
    room: u32,
    inside: AtomicU32,
    highest_token: AtomicU64,
    grants: AtomicUsize,
}

impl Arena {
    /// An arena for `room` permits. A lease in another mode takes one.
    pub(super) fn new(room: u32) -> Self {
        Self {
            room,
            inside: AtomicU32::new(0),
            highest_token: AtomicU64::new(0),
            grants: AtomicUsize::new(0),
        }
    }

    /// How many holders have been inside.
    fn grants(&self) -> usize {
        self.grants.load(Ordering::SeqCst)
    }

    /// Waits until the tasks of all clients have ended. Fails if no client comes in for `patience`. How long all tasks
    /// take together depends on the machine.
    pub(super) async fn emptied_by(&self, mut tasks: JoinSet<Check>, patience: Duration) -> Check {
        let mut seen = self.grants();
        loop {
            match time::timeout(patience, tasks.join_next()).await {
                Ok(None) => return Ok(()),
                Ok(Some(result)) => result.map_err(task_failed)??,
                Err(_) => {
                    let grants = self.grants();
                    ensure!(
                        grants > seen,
                        "no client came in for {patience:?}, after {grants} grants"
                    );
                    seen = grants;
                }
            }
        }
    }

    /// Enters with a lease, leaves, and releases the lease.
    pub(super) async fn hold<B: Backend>(
        &self,
        client: &Client<B>,
        claim: &Claim,
        ttl: Ttl,
        grant: Grant,
    ) -> Check {
        let taken = match claim.mode {
            Mode::Permits { take, .. } => take,
            _ => 1,
        };
        let inside = self.inside.fetch_add(taken, Ordering::SeqCst) + taken;
        ensure!(inside <= self.room, "{inside} were inside, with room for {}", self.room);
        let token = grant.tokens.first().get();
        let highest = self.highest_token.fetch_max(token, Ordering::SeqCst);
        // Holders that are inside at once may come here in any order.
        ensure!(self.room > 1 || token > highest, "the token {token} came after {highest}");
        self.grants.fetch_add(1, Ordering::SeqCst);
        // This request gives the others time to get in, if they can.
        client.renewed(claim, ttl).await?;
        tokio::task::yield_now().await;
        self.inside.fetch_sub(taken, Ordering::SeqCst);
        client.freed(claim).await
    }
}

/// One client for each mode asks for one key again and again, without a queue, until the key has been granted `enough`
/// times.
pub(super) async fn contest<H: Harness>(
    scene: &Scene<'_, H>,
    room: u32,
    modes: &[Mode],
    enough: usize,
) -> Check {
    let (key, ttl) = (scene.key()?, scene.long());
    let pause = scene.ttl().duration() / 100;
    let arena = Arc::new(Arena::new(room));
    let mut tasks = JoinSet::new();
    for (client, &mode) in scene.clients(modes.len()).await?.into_iter().zip(modes) {
        let (arena, key) = (Arc::clone(&arena), key.clone());
        tasks.spawn(async move {
            while arena.grants() < enough {
                let request = Acquire::new(in_mode(&key, mode)?, ttl);
                match client.ask(&request).await? {
                    AcquireOutcome::Granted(grant) => {
                        arena.hold(&client, &request.claim, ttl, grant).await?;
                    }
                    _ => time::sleep(pause).await,
                }
            }
            Check::Ok(())
        });
    }
    arena.emptied_by(tasks, scene.patience()).await
}

pub(super) fn task_failed(error: JoinError) -> Failure {
    Failure::Broken(format!("a client's task failed: {error}"))
}
