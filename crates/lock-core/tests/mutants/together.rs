//! Bugs of acquiring several keys in one step.

use lock_core::{Acquire, AcquireOutcome, Backend, FencingToken, Result, TokenRange};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::line::put_back;
use crate::mutant::{Lease, Mutant};

impl Mutant {
    pub(crate) async fn acquire_together_wrongly(
        &self,
        requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>> {
        let requests: Vec<_> = requests
            .iter()
            .map(|request| {
                let mut request = request.clone();
                request.claim = self.confused(&request.claim);
                request
            })
            .collect();
        let mut attempts = match self.bug {
            Bug::TogetherAsMuchAsIsFree => self.each_alone(&requests).await?,
            Bug::TogetherOneByOne => self.one_by_one(&requests).await?,
            Bug::TogetherOvertakes => {
                let mut taken = Vec::new();
                for request in &requests {
                    taken.extend(self.take_out_all_but(&request.claim).await?);
                }
                let attempts = self.store.try_acquire_all(&requests).await?;
                put_back(taken).await?;
                attempts.unwrap_or_default()
            }
            _ => self.store.try_acquire_all(&requests).await?.unwrap_or_default(),
        };
        for (request, attempt) in requests.iter().zip(&mut attempts) {
            let AcquireOutcome::Granted(grant) = attempt else { continue };
            let claim = request.claim.clone();
            if self.bug == Bug::TogetherWithOtherTokens {
                let next = FencingToken::new(grant.tokens.last().get() + 1);
                grant.tokens = TokenRange::single(next);
            }
            let lease = Lease { claim: claim.clone(), tokens: grant.tokens };
            self.shared().leases.insert(claim.owner, lease);
        }
        Ok(Some(attempts))
    }

    async fn each_alone(&self, requests: &[Acquire]) -> Result<Vec<AcquireOutcome>> {
        let mut attempts = Vec::new();
        for request in requests {
            attempts.push(self.store.try_acquire(request).await?);
        }
        Ok(attempts)
    }

    async fn one_by_one(&self, requests: &[Acquire]) -> Result<Vec<AcquireOutcome>> {
        let mut attempts = Vec::new();
        for request in requests {
            attempts.push(self.store.try_acquire(request).await?);
            yield_now().await;
        }
        if attempts.iter().all(|attempt| matches!(attempt, AcquireOutcome::Granted(_))) {
            return Ok(attempts);
        }
        for request in requests {
            self.store.release(&request.claim).await?;
        }
        Ok(vec![AcquireOutcome::Busy { retry_after: None }; requests.len()])
    }
}
