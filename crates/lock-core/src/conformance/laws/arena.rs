//! An arena in which many clients contend for a key, and which counts the holders inside.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::super::scene::Client;
use super::super::verdict::{Check, Failure, ensure};
use crate::{Backend, Claim, Grant, Mode, Ttl};

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
    pub(super) fn grants(&self) -> usize {
        self.grants.load(Ordering::SeqCst)
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

pub(super) fn task_failed(error: tokio::task::JoinError) -> Failure {
    Failure::Broken(format!("a client's task failed: {error}"))
}
