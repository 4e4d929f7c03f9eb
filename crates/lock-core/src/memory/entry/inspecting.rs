//! Inspections and forced releases.

use std::sync::Arc;

use super::super::connection::Connection;
use super::super::labels::Labels;
use super::super::post::Post;
use super::Entry;
use crate::{Hint, Holder, Inspection, Instant, Waiter};

impl Entry {
    pub(in super::super) fn inspect(&mut self, labels: &Labels, now: Instant) -> Inspection {
        self.drop_ended(now);
        self.queue.drop_lapsed(now);
        let leases = self.leases.as_slice();
        let holders = leases.iter().take(Inspection::MAX).map(|lease| {
            let remaining = lease.ends.saturating_duration_since(now);
            Holder::new(lease.mode.kind(), Some(lease.tokens.first()), Some(remaining))
                .labelled(labels.of(&lease.owner, now))
        });
        let waiters = self.queue.iter().take(Inspection::MAX);
        let waiters = waiters.map(|slot| {
            Waiter::new(slot.mode.kind(), slot.remaining(now)).labelled(labels.of(&slot.owner, now))
        });
        Inspection::new(
            (holders.collect(), leases.len() as u64),
            (waiters.collect(), self.queue.len() as u64),
        )
    }

    /// Ends every lease, and serves the queue. Returns how many leases there were.
    pub(in super::super) fn force_release(
        &mut self,
        client: &Arc<Connection>,
        now: Instant,
        post: &mut Post,
    ) -> u64 {
        let ended = self.leases.live(now) as u64;
        self.leases.clear();
        // Told even if a waiter is served, because the former holders have to check their leases.
        self.watchers.tell_all(Hint::Released, client, post);
        self.serve(None, now, post);
        ended
    }
}
