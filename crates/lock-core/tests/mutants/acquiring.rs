//! Bugs of acquiring.

use std::num::NonZeroU32;

use lock_core::{Acquire, Attempt, Backend, Claim, FencingToken, Grant, OwnerToken, Result};
use lock_core::{Renew, TokenRange, Ttl};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::mutant::Mutant;

impl Mutant {
    pub(crate) async fn acquire_wrongly(&self, mut request: Acquire) -> Result<Attempt> {
        let claim = request.claim.clone();
        let asked = request.ttl;
        let repeated = self.shared().seen.contains(&claim.owner);
        match self.bug {
            Bug::NeverGrants => return Ok(Attempt::Busy { retry_after: Some(asked.duration()) }),
            Bug::RefusesARepeatedAcquire if repeated => {
                return Ok(Attempt::Busy { retry_after: Some(asked.duration()) });
            }
            Bug::ChecksThenSets => {
                let probe = Claim::exclusive(claim.key.clone(), OwnerToken::generate()?);
                let look = self.store.try_acquire(&Acquire::new(probe.clone(), asked)).await?;
                if let Attempt::Busy { .. } = look {
                    return Ok(look);
                }
                self.store.release(&probe).await?;
                yield_now().await;
            }
            Bug::ADroppedAcquireLandsLater => {
                let store = self.store.clone();
                let task = tokio::spawn(async move {
                    for _ in 0..5 {
                        yield_now().await;
                    }
                    store.try_acquire(&request).await
                });
                return task.await.expect("it does not panic");
            }
            Bug::NeverExpires => request.ttl = Ttl::MAX,
            Bug::ExpiresEarly => request.ttl = Ttl::new(asked.duration() / 2).unwrap_or(Ttl::MIN),
            _ => {}
        }
        let sent = self.clock().now();
        let grant = match self.store.try_acquire(&request).await? {
            Attempt::Granted(grant) => grant,
            Attempt::Busy { .. } if self.grants_anyway() => self.made_up(asked),
            refused => return Ok(self.refused_wrongly(refused)),
        };
        let grant = self.numbered(&claim, request.tokens, grant, repeated);
        {
            let mut shared = self.shared();
            shared.seen.insert(claim.owner);
            shared.holders.insert(claim.key.clone(), claim.clone());
        }
        let valid_until = match self.bug {
            Bug::DatesGrantsFromTheReply => {
                yield_now().await;
                asked.valid_until(self.clock().now())
            }
            Bug::DatesGrantsWithoutDrift => sent + asked.duration(),
            Bug::NeverExpires | Bug::ExpiresEarly => asked.valid_until(sent),
            Bug::ARepeatedAcquireShortens if repeated => {
                let _renewed = self.store.renew(&Renew::new(claim.clone(), asked)).await;
                asked.valid_until(sent)
            }
            _ => grant.valid_until,
        };
        Ok(Attempt::Granted(Grant::new(grant.tokens, valid_until)))
    }

    fn grants_anyway(&self) -> bool {
        matches!(self.bug, Bug::AlwaysGrants | Bug::ChecksThenSets)
    }

    fn made_up(&self, ttl: Ttl) -> Grant {
        let token = TokenRange::single(FencingToken::new(u64::MAX));
        Grant::new(token, ttl.valid_until(self.clock().now()))
    }

    fn refused_wrongly(&self, refused: Attempt) -> Attempt {
        match (self.bug, refused) {
            (Bug::RefusesWithoutATime, _) => Attempt::Busy { retry_after: None },
            (Bug::RefusesWithATimeTooShort, Attempt::Busy { retry_after: Some(time) }) => {
                Attempt::Busy { retry_after: Some(time.mul_f64(0.5)) }
            }
            (_, refused) => refused,
        }
    }

    /// The grant with the tokens of a counter that is not the store's.
    fn numbered(&self, claim: &Claim, wanted: NonZeroU32, grant: Grant, repeated: bool) -> Grant {
        let mut shared = self.shared();
        let renewed = shared.renewed.contains(&claim.owner);
        let counter = shared.counters.entry(claim.key.clone()).or_insert(1);
        let range = |first, count| TokenRange::new(FencingToken::new(first), count);
        let tokens = match self.bug {
            Bug::ConstantTokens => range(1, wanted),
            // Counted up when a lease is released, and so not when it runs out.
            Bug::RepeatsTokensAfterExpiry => range(*counter, NonZeroU32::MIN),
            Bug::RepeatsTokensAfterForgetting | Bug::ReissuesReservedTokens => {
                *counter += u64::from(!repeated);
                range(*counter, wanted)
            }
            Bug::NewTokenForARepeatedAcquire if repeated => {
                range(grant.tokens.last().get() + 1, NonZeroU32::MIN)
            }
            Bug::RenewalChangesTokens if renewed => {
                range(grant.tokens.last().get() + 1, NonZeroU32::MIN)
            }
            _ => grant.tokens,
        };
        Grant::new(tokens, grant.valid_until)
    }
}
