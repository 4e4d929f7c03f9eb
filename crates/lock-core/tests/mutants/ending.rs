//! Bugs of renewing and releasing.

use std::num::NonZeroU32;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Contention, Error, ErrorKind, FencingToken, Hint,
    Instant,
};
use lock_core::{Mode, Released, Renew, Renewal, Result, TokenRange};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::mutant::Mutant;

impl Mutant {
    pub(crate) async fn renew_wrongly(&self, request: &Renew) -> Renewal {
        let sent = self.clock().now();
        let Renew { claim, ttl, .. } = request;
        if self.bug == Bug::RenewsWithoutExtending {
            return Renewal::until(ttl.valid_until(sent));
        }
        let mut request = request.clone();
        if self.bug == Bug::IgnoresTheMode {
            request.claim = self.as_held(claim);
        }
        let renewal = match self.bug {
            Bug::ADroppedRenewalLandsLater => self.renews_later(&request).await,
            _ => self.store.renew(&request).await,
        };
        let ends_others = match self.bug {
            Bug::ReadersEndTogether => claim.mode == Mode::Shared,
            Bug::GroupsEndTogether => matches!(claim.mode, Mode::Joint { .. }),
            _ => false,
        };
        if ends_others && matches!(renewal, Renewal::Lost) {
            self.end_all_in(claim).await;
        }
        let renewal = self.renewed_with_wrong_news(&request, renewal);
        self.renewed_for_a_wrong_time(&request, sent, renewal).await
    }

    /// Renews a lease, for the first time later than a second renewal, if the first one was dropped.
    async fn renews_later(&self, request: &Renew) -> Renewal {
        if !self.shared().renewed.insert(request.claim.owner) {
            return self.store.renew(request).await;
        }
        let (store, request) = (self.store.clone(), request.clone());
        let task = tokio::spawn(async move {
            for _ in 0..100 {
                yield_now().await;
            }
            store.renew(&request).await
        });
        task.await.expect("it does not panic")
    }

    /// Tokens and contention as they are not.
    fn renewed_with_wrong_news(&self, request: &Renew, renewal: Renewal) -> Renewal {
        let claim = &request.claim;
        match (self.bug, renewal) {
            (
                Bug::RenewsWithOldTokens,
                Renewal::Renewed { valid_until, tokens: Some(tokens), contention },
            ) => {
                let first = self.tokens_of(claim.owner).unwrap_or(tokens).first();
                let tokens = Some(TokenRange::new(first, tokens.count()));
                Renewal::Renewed { valid_until, tokens, contention }
            }
            (
                Bug::RenewsMembersWithTokens,
                Renewal::Renewed { valid_until, tokens: None, contention },
            ) => {
                let wanted = NonZeroU32::new(request.tokens);
                let first = FencingToken::new(u64::MAX / 2);
                let tokens = wanted.map(|wanted| TokenRange::new(first, wanted));
                Renewal::Renewed { valid_until, tokens, contention }
            }
            (Bug::NeverKnowsTheContention, Renewal::Renewed { valid_until, tokens, .. }) => {
                Renewal::Renewed { valid_until, tokens, contention: Contention::Unknown }
            }
            (Bug::AlwaysSaysQuiet, Renewal::Renewed { valid_until, tokens, .. }) => {
                Renewal::Renewed { valid_until, tokens, contention: Contention::Quiet }
            }
            (Bug::OnlyEverHolds, Renewal::Renewed { .. }) => Renewal::Held,
            (Bug::RenewalChangesTokens, renewal @ Renewal::Renewed { .. }) => {
                self.shared().renewed.insert(claim.owner);
                renewal
            }
            (_, renewal) => renewal,
        }
    }

    /// A lease that ends too late, or has ended.
    async fn renewed_for_a_wrong_time(
        &self,
        request: &Renew,
        sent: Instant,
        renewal: Renewal,
    ) -> Renewal {
        let Renew { claim, ttl, .. } = request;
        match (self.bug, renewal) {
            (Bug::DatesRenewalsFromTheReply, Renewal::Renewed { .. }) => {
                yield_now().await;
                Renewal::until(ttl.valid_until(self.clock().now()))
            }
            (Bug::RenewsWhatIsLost, Renewal::Lost) => Renewal::until(ttl.valid_until(sent)),
            (Bug::RenewalCreates, Renewal::Lost) => {
                match self.store.try_acquire(&Acquire::new(claim.clone(), *ttl)).await {
                    Ok(AcquireOutcome::Granted(grant)) => Renewal::until(grant.valid_until),
                    _ => Renewal::Lost,
                }
            }
            (_, renewal) => renewal,
        }
    }

    pub(crate) async fn release_wrongly(&self, claim: &Claim) -> Result<Released> {
        let holder = self.shared().holders.get(&claim.key).cloned();
        let was_holder = self.shared().seen.contains(&claim.owner);
        let released = match (self.bug, holder) {
            (Bug::IgnoresTheMode, _) => self.store.release(&self.as_held(claim)).await?,
            (Bug::KeepsWhatIsReleased, _) => return Ok(Released::Freed { told: 0 }),
            (Bug::ReleaseIgnoresTheOwner, Some(holder)) => self.store.release(&holder).await?,
            (Bug::ReleasesByTag, Some(holder)) if holder.owner.tag() == claim.owner.tag() => {
                self.store.release(&holder).await?
            }
            (Bug::StaleReleaseFrees, Some(holder)) if was_holder => {
                self.store.release(&holder).await?
            }
            _ => self.pass_on_wrongly(claim).await?,
        };
        match (self.bug, released) {
            (Bug::FailsARepeatedRelease, Released::NotHeld) => {
                Err(Error::new(ErrorKind::Other, "not yours"))
            }
            (Bug::RepeatsTokensAfterExpiry, Released::Freed { .. }) => {
                *self.shared().counters.entry(claim.key.clone()).or_insert(1) += 1;
                Ok(released)
            }
            (Bug::HintsOfAllKeys, Released::Freed { .. }) => {
                for listener in &self.shared().listeners {
                    let _gone = listener.unbounded_send(Hint::Released);
                }
                Ok(released)
            }
            _ => Ok(released),
        }
    }
}
