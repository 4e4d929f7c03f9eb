//! Bugs of renewing and releasing.

use lock_core::{Acquire, Attempt, Backend, Claim, Error, ErrorKind, Hint, Released, Renewal};
use lock_core::{Renew, Result, Ttl};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::mutant::Mutant;

impl Mutant {
    pub(crate) async fn renew_wrongly(&self, claim: &Claim, ttl: Ttl) -> Renewal {
        let sent = self.clock().now();
        if self.bug == Bug::RenewsWithoutExtending {
            return Renewal::until(ttl.valid_until(sent));
        }
        let renewal = self.store.renew(&Renew::new(claim.clone(), ttl)).await;
        match (self.bug, renewal) {
            (Bug::OnlyEverHolds, Renewal::Renewed { .. }) => Renewal::Held,
            (Bug::RenewalChangesTokens, renewal @ Renewal::Renewed { .. }) => {
                self.shared().renewed.insert(claim.owner);
                renewal
            }
            (Bug::DatesRenewalsFromTheReply, Renewal::Renewed { .. }) => {
                yield_now().await;
                Renewal::until(ttl.valid_until(self.clock().now()))
            }
            (Bug::RenewsWhatIsLost, Renewal::Lost) => Renewal::until(ttl.valid_until(sent)),
            (Bug::RenewalCreates, Renewal::Lost) => {
                match self.store.try_acquire(&Acquire::new(claim.clone(), ttl)).await {
                    Ok(Attempt::Granted(grant)) => Renewal::until(grant.valid_until),
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
            (Bug::KeepsWhatIsReleased, _) => return Ok(Released::Freed { contended: false }),
            (Bug::ReleaseIgnoresTheOwner, Some(holder)) => self.store.release(&holder).await?,
            (Bug::StaleReleaseFrees, Some(holder)) if was_holder => {
                self.store.release(&holder).await?
            }
            _ => self.store.release(claim).await?,
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
                for listener in &self.shared().everybody {
                    let _gone = listener.unbounded_send(Hint::Released);
                }
                Ok(released)
            }
            _ => Ok(released),
        }
    }
}
