//! Renewals and places in the queue: many that begin together cost one call.

mod batcher;
mod part;

use std::sync::Arc;

use lock_core::{Acquire, AcquireOutcome, Error, Mode, Renew, Renewal};

use self::batcher::{Batcher, Told};
use self::part::Part;
use crate::hub::Hub;
use crate::keys::Names;
use crate::link::Link;
use crate::scripts::{KEEP_MANY, RENEW_MANY};
use crate::verbs::{self, Acquired};

/// The requests to a server that begin together.
#[derive(Debug)]
pub(crate) struct Batches {
    renewals: Batcher,
    places: Batcher,
}

/// The outcome of a renewal together with others.
#[derive(Debug)]
pub(crate) enum Together {
    /// The lease is to be renewed alone, by the usual way.
    Alone,
    /// The full script has to decide.
    Undecided,
    Renewed(Renewal),
}

impl Batches {
    /// In a cluster the requests of one call are those `by_slot`.
    pub(crate) fn new(link: &Link, by_slot: bool) -> Self {
        let by_slot = Arc::new(by_slot.into());
        Self {
            renewals: Batcher::new(link, &RENEW_MANY, &by_slot),
            places: Batcher::new(link, &KEEP_MANY, &by_slot),
        }
    }

    /// Renews a lease together with the leases whose renewals begin in this round.
    pub(crate) async fn renew(&self, hub: &Hub, names: &Names<'_>, request: &Renew) -> Together {
        if request.claim.mode != Mode::Exclusive || request.tokens > 0 {
            return Together::Alone;
        }
        let inbox = hub.inbox_for(names);
        let part = Part::renew(names, request, inbox.as_ref());
        match self.renewals.join(part).await {
            Told::Alone => Together::Alone,
            Told::Undecided => Together::Undecided,
            Told::Answered(answer) => Together::Renewed(verbs::renewed_of_many(request, answer)),
            Told::Failed(error) => Together::Renewed(Renewal::Unknown(error)),
        }
    }

    /// Keeps the place of a waiting claim, together with the claims whose requests begin in this round. `None` if
    /// the request is to be sent alone. A grant may have to be confirmed.
    pub(crate) async fn keep(
        &self,
        hub: &Hub,
        names: &Names<'_>,
        request: &Acquire,
        confirms: bool,
    ) -> Result<Option<AcquireOutcome>, Error> {
        let Acquire { claim, queue, .. } = request;
        let is_plain = *queue && claim.mode == Mode::Exclusive;
        if !is_plain || !hub.has_place(names, claim) {
            return Ok(None);
        }
        let Some(inbox) = hub.inbox_of(names, request, confirms) else { return Ok(None) };
        let part = Part::keep(names, request, &inbox);
        match self.places.join(part).await {
            Told::Alone | Told::Undecided => Ok(None),
            Told::Answered(answer) => {
                let Acquired { attempt, sample } = verbs::kept(request, &answer)?;
                if let Some(sample) = sample {
                    hub.compare(names, claim.owner, sample);
                }
                Ok(Some(attempt))
            }
            Told::Failed(error) => Err(error),
        }
    }
}
