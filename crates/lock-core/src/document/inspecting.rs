//! Inspections and forced releases.

use super::entry::Document;
use super::visit::{Party, Visit};
use crate::{Hint, Holder, Inspection, Instant, Label, OwnerToken, Waiter};

impl<P: Party> Document<P> {
    /// The holders and the waiters, with the labels that `label` finds.
    ///
    /// The errors are those of [`InspectBackend::inspect`](crate::InspectBackend::inspect). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn inspect(
        &mut self,
        label: &dyn Fn(&OwnerToken) -> Option<Label>,
        now: Instant,
    ) -> Inspection {
        self.drop_ended(now);
        self.queue.drop_lapsed(now);
        let leases = self.leases.as_slice();
        let holders = leases.iter().take(Inspection::MAX).map(|lease| {
            let remaining = lease.ends.saturating_duration_since(now);
            Holder::new(lease.mode.kind(), Some(lease.tokens.first()), Some(remaining))
                .labelled(label(&lease.owner))
        });
        let waiters = self.queue.iter().take(Inspection::MAX);
        let waiters = waiters.map(|slot| {
            Waiter::new(slot.mode.kind(), slot.remaining(now))
                .waiting_for(slot.waited(now))
                .labelled(label(&slot.owner))
        });
        Inspection::new(
            (holders.collect(), leases.len() as u64),
            (waiters.collect(), self.queue.len() as u64),
        )
    }

    /// Ends every lease, and serves the queue. Returns how many leases there were.
    ///
    /// The errors are those of [`InspectBackend::force_release`](crate::InspectBackend::force_release). The
    /// [example](Document#examples) of a document shows a verb.
    pub fn force_release(&mut self, visit: &mut Visit<'_, P>) -> u64 {
        let ended = self.leases.live(visit.now) as u64;
        self.leases.clear();
        // Sends the hint even if a waiter was served.
        self.tell_former_holders(visit);
        self.serve(None, visit);
        ended
    }

    /// Tells every watcher of the key to check its lease. A store that ends leases beside the document calls this,
    /// because another request may have served the queue before the document hears of the end.
    ///
    /// The [example](Document#examples) of a document shows a verb.
    pub fn tell_former_holders(&self, visit: &mut Visit<'_, P>) {
        visit.audience.tell_all(visit.client, Hint::Released);
    }
}
