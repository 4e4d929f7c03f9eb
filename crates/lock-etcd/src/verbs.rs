//! What each verb makes of a document.

use std::collections::HashSet;
use std::time::Duration;

use lock_core::document::{Document, Visit};
use lock_core::{
    Acquire, AcquireOutcome, Claim, Clock, Convert, Error, ErrorKind, Instant, Released, Renew,
    Renewal,
};

use crate::core::Core;
use crate::decide::{Ask, Attempt, Done, Plan, Refresh, Turn};
use crate::failure;
use crate::member::Member;

/// How many leases can be granted in one step: etcd takes 128 operations in one transaction by default.
const MOST_TOGETHER: usize = 24;

type Outcome = Result<AcquireOutcome, Error>;

impl Core {
    pub(crate) async fn acquire(&self, request: &Acquire) -> Outcome {
        let ask = Ask::of(&request.claim).waiting(request);
        let done = self
            .decide(ask, Refresh::IfNew, |_, document, visit| document.acquire(request, visit))
            .await?;
        self.outcome(done, &request.claim)
    }

    pub(crate) async fn convert(&self, request: &Convert) -> Outcome {
        request.check()?;
        let (claim, former) = (&request.request.claim, request.former());
        let ask = Ask { former: Some(&former), ..Ask::of(claim).waiting(&request.request) };
        let done = self
            .decide(ask, Refresh::IfNew, |_, document, visit| document.convert(request, visit))
            .await?;
        self.outcome(done, claim)
    }

    /// The outcome, with the deadline that the lease of etcd allows.
    pub(crate) fn outcome(&self, done: Done<Outcome>, claim: &Claim) -> Outcome {
        match done.answer? {
            AcquireOutcome::Granted(mut grant) => {
                self.hub.leave(claim);
                let valid_until = earlier(grant.valid_until, done.late);
                match done.failure {
                    Some(error) if valid_until <= Clock::boot().now() => Err(error),
                    _ => {
                        grant.valid_until = valid_until;
                        Ok(AcquireOutcome::Granted(grant))
                    }
                }
            }
            refused => Ok(refused),
        }
    }

    pub(crate) async fn renew(&self, request: &Renew) -> Result<Renewal, Error> {
        let ask = Ask::of_holder(&request.claim);
        match self.renew_once(request, ask).await {
            // Tokens and changes of the document need room in the store, and the lease itself needs none.
            Err(error) if failure::is_about_room(&error) => {
                let ask = Ask { writes_nothing: true, ..ask };
                self.renew_once(&request.clone().reserving(0), ask).await
            }
            renewal => renewal,
        }
    }

    async fn renew_once(&self, request: &Renew, ask: Ask<'_>) -> Result<Renewal, Error> {
        let done = self
            .decide(ask, Refresh::Always, |_, document, visit| document.renew(request, visit))
            .await?;
        Ok(match (done.answer, done.failure) {
            (Renewal::Renewed { .. }, Some(error)) => Renewal::Unknown(error),
            (Renewal::Renewed { valid_until, tokens, contention }, None) => {
                let valid_until = earlier(valid_until, done.late);
                Renewal::Renewed { valid_until, tokens, contention }
            }
            (other, _) => other,
        })
    }

    pub(crate) async fn release(&self, claim: &Claim) -> Result<Released, Error> {
        let released = self.give_up(claim, |_, document, visit| document.release(claim, visit));
        Ok(released.await?.answer)
    }

    pub(crate) async fn release_and_requeue(
        &self,
        claim: &Claim,
        next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        if next.queue && next.claim.key == claim.key {
            let ask = Ask::of(claim).waiting(next);
            let requeued = self.decide(ask, Refresh::Never, |_, document, visit| {
                document.release_and_requeue(claim, next, visit)
            });
            if let Some(outcome) = requeued.await?.answer {
                self.hub.leave(claim);
                return Ok((Released::Freed { told: 0 }, Some(outcome)));
            }
        }
        Ok((self.release(claim).await?, None))
    }

    pub(crate) async fn acquire_all(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        let keys: HashSet<_> = requests.iter().map(|it| &it.claim.key).collect();
        if keys.len() < requests.len() {
            let message = "two of the leases that were asked for together are for one key";
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        if requests.len() > MOST_TOGETHER {
            return Ok(None);
        }
        let mut requests = requests.to_vec();
        requests.iter_mut().for_each(|it| it.queue = false);
        match self.bounded(self.acquire_each(&requests)).await {
            // Their documents are too long for one step.
            Err(error) if error.kind() == ErrorKind::QueueFull => Ok(None),
            outcomes => outcomes.map(Some),
        }
    }

    async fn acquire_each(&self, requests: &[Acquire]) -> Result<Vec<AcquireOutcome>, Error> {
        let mut turns = self.turns_of(requests).await?;
        let asks: Vec<_> = requests.iter().map(|it| Ask::of(&it.claim)).collect();
        let act = |index: usize, document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
            document.acquire(&requests[index], visit)
        };
        let attempt = Attempt::new(self, &mut turns, &asks, Refresh::IfNew, act);
        let done = attempt.run(all_or_none).await?;
        let is_granted = done.iter().all(|done| is_granted(&done.answer));
        if !is_granted && done.iter().any(|done| done.is_new) {
            let is_new: Vec<bool> = done.iter().map(|done| done.is_new).collect();
            self.give_back(&mut turns, &asks, &is_new).await?;
        }
        let outcomes = done.into_iter().zip(requests).map(|(done, request)| match done.answer {
            Ok(AcquireOutcome::Granted(_)) if !is_granted => {
                Ok(AcquireOutcome::Busy { retry_after: None })
            }
            _ => self.outcome(done, &request.claim),
        });
        outcomes.collect()
    }

    /// Ends the leases that a step has granted, because a later step was refused.
    async fn give_back(
        &self,
        turns: &mut [Turn],
        asks: &[Ask<'_>],
        is_new: &[bool],
    ) -> Result<(), Error> {
        let act = |index: usize, document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
            if let Some(claim) = asks[index].claim.filter(|_| is_new[index]) {
                document.release(claim, visit);
            }
        };
        let attempt = Attempt::new(self, turns, asks, Refresh::Never, act);
        attempt.run(|_| ()).await.map(drop)
    }

    /// The turns of these requests. They are taken in the order of the keys, so that two such requests do not wait for
    /// one another.
    async fn turns_of(&self, requests: &[Acquire]) -> Result<Vec<Turn>, Error> {
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_unstable_by_key(|index| &requests[*index].claim.key);
        let mut turns: Vec<Option<Turn>> = requests.iter().map(|_| None).collect();
        for index in order {
            turns[index] = Some(self.turn(&requests[index].claim.key).await);
        }
        let missing = || failure::protocol("no turn");
        turns.into_iter().map(|turn| turn.ok_or_else(missing)).collect()
    }
}

fn is_granted(answer: &Outcome) -> bool {
    matches!(answer, Ok(AcquireOutcome::Granted(_)))
}

/// If not every request is granted, none of them is. What a refused request has done for the waiters of its key stands.
fn all_or_none(plans: &mut [Plan<Outcome>]) {
    if plans.iter().all(|plan| is_granted(&plan.answer)) {
        return;
    }
    let has_failed = plans.iter().any(|plan| plan.answer.is_err());
    for plan in plans.iter_mut().filter(|plan| has_failed || is_granted(&plan.answer)) {
        plan.discard();
    }
}

fn earlier(instant: Instant, by: Duration) -> Instant {
    let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
    Instant::from_nanos(instant.as_nanos().saturating_sub(by))
}
