//! The verbs at one server.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Claim, Clock, Contention, Convert, Error, Instant, Mode, Released,
    Renew, Renewal, Ttl,
};

use crate::batch::Together;
use crate::hub::Inbox;
use crate::keys::Names;
use crate::link::Answer;
use crate::topology::Site;
use crate::verbs::{Acquired, QuickRenewal};
use crate::wire::Failure;
use crate::{together, verbs};

/// The outcome of a release.
pub(crate) struct Ended {
    pub(crate) released: Released,
    /// Whether the state of the lock says so, if it is to say so.
    pub(crate) is_noted: bool,
}

impl From<Released> for Ended {
    fn from(released: Released) -> Self {
        Self { released, is_noted: true }
    }
}

impl Site {
    pub(crate) async fn try_acquire(
        &self,
        names: &Names<'_>,
        request: &Acquire,
    ) -> Result<AcquireOutcome, Failure> {
        if is_quick(&request.claim) && !self.hub().watches(names) {
            let answer = self.run(verbs::quick_acquire(names, request)).await?;
            if let Some(attempt) = verbs::quickly_acquired(request, &answer)? {
                return Ok(attempt);
            }
        }
        // In a box, so that the future of a request for a free lock stays small.
        Box::pin(self.acquire_among_others(names, request)).await
    }

    /// Takes a place if the lock is held, or asks the full script.
    async fn acquire_among_others(
        &self,
        names: &Names<'_>,
        request: &Acquire,
    ) -> Result<AcquireOutcome, Failure> {
        let hub = self.hub();
        // An existing place was to be kept together with others, and no quick script keeps a single place.
        let is_new = request.queue && !hub.has_place(names, &request.claim);
        if let Some(batches) = self.batches()
            && let Some(attempt) = batches.keep(hub, names, request, self.confirms()).await?
        {
            return Ok(attempt);
        }
        let inbox = self.inbox_of(names, request);
        let hears = inbox.as_ref().filter(|_| is_new);
        match self.wait_quickly(names, request, hears).await? {
            Some(queued) => Ok(self.placed(names, request, queued)),
            None => self.acquire_in_full(names, request, None, inbox.as_ref()).await,
        }
    }

    /// Renews. A failure leaves open what became of the lease.
    pub(crate) async fn renew(
        &self,
        names: &Names<'_>,
        request: &Renew,
    ) -> Result<Renewal, Failure> {
        let hub = self.hub();
        let is_quick = is_quick(&request.claim);
        let together = match self.batches() {
            Some(batches) => batches.renew(hub, names, request).await,
            None => Together::Alone,
        };
        if let Together::Renewed(renewal) = together {
            return told(renewal);
        }
        if is_quick
            && matches!(together, Together::Alone)
            && request.tokens == 0
            && !hub.watches(names)
            && !is_state_due(request.ttl, names.retention(), Clock::boot().now())
            && let Some(renewal) = self.renew_alone(names, request).await?
        {
            return Ok(renewal);
        }
        match self.renew_in_full(names, request).await {
            Err(Failure::Moving(error)) if is_quick => {
                match self.renew_quickly(names, request, true).await? {
                    (QuickRenewal::Undecided, _) => Err(Failure::Moving(error)),
                    (_, renewal) => Ok(renewal),
                }
            }
            Err(Failure::Error(error)) => told(verbs::renewed(request, Err(error))),
            outcome => told(verbs::renewed(request, Ok(outcome?))),
        }
    }

    pub(crate) async fn release(&self, names: &Names<'_>, claim: &Claim) -> Result<Ended, Failure> {
        let watches = self.hub().forget(names, claim);
        if is_quick(claim) && !watches {
            match self.run(verbs::quick_release(names, claim)).await {
                // It named a second key. A script with fewer keys may work.
                Err(Failure::Moving(_)) if names.has_terms() => {}
                outcome => {
                    if let Some(released) = verbs::quickly_released(&outcome?)? {
                        return Ok(released.into());
                    }
                }
            }
        }
        // In a box, as above.
        Box::pin(self.release_among_others(names, claim)).await
    }

    /// Hands over to the first claim in the queue, or asks the full script.
    async fn release_among_others(
        &self,
        names: &Names<'_>,
        claim: &Claim,
    ) -> Result<Ended, Failure> {
        if let Some((released, _)) = self.hand_over(names, claim, None).await? {
            return Ok(released.into());
        }
        self.release_in_full(names, claim).await
    }

    pub(crate) async fn release_and_requeue(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Ended, Option<AcquireOutcome>), Failure> {
        let hub = self.hub();
        hub.forget(names, claim);
        let is_here = next.queue && next.claim.key == claim.key;
        let inbox = self.inbox_of(names, next).filter(|_| is_here && is_quick(&next.claim));
        let queued = inbox.as_ref().map(|inbox| (next, inbox));
        let Some((released, acquired)) = self.hand_over(names, claim, queued).await? else {
            return Ok((self.release_in_full(names, claim).await?, None));
        };
        let attempt = acquired.map(|Acquired { attempt, sample }| {
            if let Some(sample) = sample {
                hub.compare(names, next.claim.owner, sample);
            }
            attempt
        });
        Ok((released.into(), attempt))
    }

    /// Asks for several locks, whose keys are in one place.
    pub(crate) async fn try_acquire_all(
        &self,
        names: &[Names<'_>],
        requests: &[Acquire],
    ) -> Result<Vec<AcquireOutcome>, Failure> {
        let inboxes = names.iter().map(|names| self.hub().inbox_for(names)).collect::<Vec<_>>();
        let answer = self.run(together::acquire(names, requests, &inboxes)).await?;
        Ok(together::acquired(requests, &inboxes, &answer)?)
    }

    pub(crate) async fn convert(
        &self,
        names: &Names<'_>,
        convert: &Convert,
    ) -> Result<AcquireOutcome, Failure> {
        let Convert { request, from, .. } = convert;
        let inbox = self.inbox_of(names, request);
        self.acquire_in_full(names, request, Some(*from), inbox.as_ref()).await
    }

    /// Asks the full script for a lease, or to convert the one in the mode `from`.
    async fn acquire_in_full(
        &self,
        names: &Names<'_>,
        request: &Acquire,
        from: Option<Mode>,
        inbox: Option<&Inbox>,
    ) -> Result<AcquireOutcome, Failure> {
        let waiting = verbs::Waiting { inbox, limit: self.queue_limit() };
        let answer = self.run(verbs::acquire(names, request, from, waiting)?).await?;
        Ok(self.placed(names, request, verbs::acquired(request, waiting, &answer)?))
    }

    /// Notes whether the claim has a place in the queue now.
    fn placed(&self, names: &Names<'_>, request: &Acquire, acquired: Acquired) -> AcquireOutcome {
        let Acquired { attempt, sample } = acquired;
        if let Some(sample) = sample {
            self.hub().compare(names, request.claim.owner, sample);
        } else if request.queue {
            self.hub().forget(names, &request.claim);
        }
        attempt
    }

    /// Renews by the full script.
    ///
    /// The server shortens no lease at the first request, because that request may be late. While the caller waits for
    /// the answer, a further request names the end of the lease. The server reads its clock twice to tell that end, so
    /// a server that stands still in between takes one end for two.
    async fn renew_in_full(&self, names: &Names<'_>, request: &Renew) -> Result<Answer, Failure> {
        const TRIES: usize = 4;
        let inbox = self.hub().inbox_for(names);
        let mut answer = self.run(verbs::renew(names, request, inbox.as_ref(), None)?).await?;
        for _ in 1..TRIES {
            let Some(end) = verbs::would_shorten(&answer) else { break };
            answer = self.run(verbs::renew(names, request, inbox.as_ref(), Some(end))?).await?;
        }
        Ok(answer)
    }

    /// Renews a lease that no claim waits for; `None` if the full script has to decide.
    async fn renew_alone(
        &self,
        names: &Names<'_>,
        request: &Renew,
    ) -> Result<Option<Renewal>, Failure> {
        match self.renew_quickly(names, request, false).await {
            Ok((QuickRenewal::Alone, renewal)) => Ok(Some(renewal)),
            Ok(_) => Ok(None),
            // It named a second key, and may work without.
            Err(Failure::Moving(_)) if names.has_terms() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Renews by a quick script. While the slot is `moving`, the script names the lock alone.
    async fn renew_quickly(
        &self,
        names: &Names<'_>,
        request: &Renew,
        moving: bool,
    ) -> Result<(QuickRenewal, Renewal), Failure> {
        let answer = self.run(verbs::quick_renew(names, request, moving)).await?;
        let valid_until = request.ttl.valid_until(answer.sent);
        let contention = Contention::Unknown;
        let renewal = Renewal::Renewed { valid_until, tokens: None, contention };
        Ok((verbs::quickly_renewed(&answer)?, renewal))
    }

    /// Takes a place behind an owner that holds the lock alone; `None` if the full script has to decide.
    async fn wait_quickly(
        &self,
        names: &Names<'_>,
        request: &Acquire,
        inbox: Option<&Inbox>,
    ) -> Result<Option<Acquired>, Failure> {
        let Some(inbox) = inbox.filter(|_| is_quick(&request.claim)) else { return Ok(None) };
        let call = verbs::quick_wait(names, request, inbox, self.queue_limit());
        Ok(verbs::quickly_queued(request, &self.run(call).await?)?)
    }

    /// Releases, and hands over to the first claim in the queue; `None` if the full script has to decide.
    async fn hand_over(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        next: Option<verbs::Next<'_>>,
    ) -> Result<Option<(Released, Option<Acquired>)>, Failure> {
        if !is_quick(claim) || names.keeping().gap.is_some() {
            return Ok(None);
        }
        let hub = self.hub();
        let tell = hub.listening().release_messages;
        match self.run(verbs::hand_over(names, claim, tell, next)).await {
            // A script with fewer keys may work.
            Err(Failure::Moving(_)) => Ok(None),
            outcome => Ok(verbs::handed_over(next, &outcome?, hub.hears_releases(names))?),
        }
    }

    /// Releases by the full script, or by the one that names the lock alone while its slot is moved.
    pub(crate) async fn release_in_full(
        &self,
        names: &Names<'_>,
        claim: &Claim,
    ) -> Result<Ended, Failure> {
        let hub = self.hub();
        let call = verbs::release(names, claim, hub.listening().release_messages)?;
        let hears = hub.hears_releases(names);
        match self.run(call).await {
            Err(Failure::Moving(error)) => self.release_alone(names, claim, error).await,
            Err(Failure::Error(error)) => Ok(verbs::released(Err(error), hears)?.into()),
            outcome => Ok(verbs::released(Ok(outcome?), hears)?.into()),
        }
    }

    /// Releases by the script that names the lock alone, after the others failed with this error.
    async fn release_alone(
        &self,
        names: &Names<'_>,
        claim: &Claim,
        error: Error,
    ) -> Result<Ended, Failure> {
        if !is_quick(claim) {
            return Err(Failure::Moving(error));
        }
        let tell = self.hub().listening().release_messages;
        let answer = self.run(verbs::single_release(names, claim, tell)).await?;
        // A place in the queue, if there is one, cannot be given up now.
        let released = verbs::quickly_released(&answer)?.ok_or(Failure::Moving(error))?;
        Ok(Ended { released, is_noted: !names.has_terms() })
    }
}

/// The failure of a renewal that tells nothing about the lease.
fn told(renewal: Renewal) -> Result<Renewal, Failure> {
    match renewal {
        Renewal::Unknown(error) => Err(error.into()),
        renewal => Ok(renewal),
    }
}

/// Whether there are quick scripts for a claim.
fn is_quick(claim: &Claim) -> bool {
    claim.mode == Mode::Exclusive
}

/// Whether this renewal also prolongs the state of the lock, which outlives the lease by this many milliseconds. The
/// instants that are multiples of a third of that time are each followed soon by such a renewal, however often the
/// lease is renewed: the time between two renewals is less than its ttl. So the state never ends before the lease.
fn is_state_due(ttl: Ttl, retention: u64, now: Instant) -> bool {
    let third = Duration::from_millis(retention / 3).as_nanos().max(1);
    u128::from(now.as_nanos()) % third < ttl.duration().as_nanos()
}
