//! Bugs of semaphores.

use async_trait::async_trait;
use lock_core::{Backend, Claim, InspectBackend, Key, Mode, PermitBackend, Permits, Released};
use lock_core::{Resize, Resized, Result};

use crate::bug::Bug;
use crate::line::put_back;
use crate::mutant::Mutant;

/// A number of permits that no law declares.
const NEVER_DECLARED: u32 = 987_654;

#[async_trait]
impl PermitBackend for Mutant {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits> {
        let of = self.declared(key, of);
        let permits = self.store.permits(key, of).await?;
        Ok(match self.bug {
            Bug::CountsNobodyWaiting => {
                let mut wrong = permits;
                wrong.waiting = 0;
                wrong
            }
            Bug::CountsTheDead => {
                let taken = |claim: &Claim| match claim.mode {
                    Mode::Permits { take, .. } if claim.key == *key => take,
                    _ => 0,
                };
                let mut wrong = permits;
                wrong.held = self.shared().leases.values().map(|lease| taken(&lease.claim)).sum();
                wrong
            }
            Bug::ForgetsAChangedLimit if permits.held == 0 => Permits::new(of),
            _ => permits,
        })
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized> {
        if change == Resize::Declare {
            return self.redeclare(key, of).await;
        }
        let of = self.declared(key, of);
        match (self.bug, change) {
            (Bug::AddsWithoutServing, Resize::Add(_)) => {
                let line = self.take_out_all_of(key).await?;
                let resized = self.store.resize(key, of, change).await?;
                put_back(line).await?;
                Ok(resized)
            }
            (Bug::SaysThatItRemovedAll, Resize::Remove(count)) => {
                let resized = self.store.resize(key, of, change).await?;
                Ok(Resized::new(count, resized.permits))
            }
            _ => self.store.resize(key, of, change).await,
        }
    }

    async fn forget(&self, claim: &Claim) -> Result<Released> {
        let claim = self.confused(claim);
        if self.bug == Bug::ForgettingGivesBack {
            return self.store.release(&claim).await;
        }
        let released = PermitBackend::forget(&self.store, &claim).await?;
        if let (Bug::ForgettingTwiceTakesTwice, Mode::Permits { take, of }) = (self.bug, claim.mode)
            && released == Released::NotHeld
        {
            self.store.resize(&claim.key, of, Resize::Remove(take)).await?;
        }
        Ok(released)
    }

    async fn close(&self, key: &Key, of: u32) -> Result<()> {
        let of = self.declared(key, of);
        match self.bug {
            Bug::ClosingDoesNothing => self.store.permits(key, of).await.map(drop),
            Bug::ClosingEndsLeases => {
                self.store.close(key, of).await?;
                self.store.force_release(key).await.map(drop)
            }
            _ => self.store.close(key, of).await,
        }
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool> {
        match self.bug {
            Bug::UndeclaresForAnyClaim => self.store.undeclare(claim).await.map(|_| true),
            Bug::UndeclaresNothing => Ok(true),
            Bug::UndeclaresOnce => {
                let is_first = self.shared().limits.insert(claim.key.clone(), 0).is_none();
                Ok(self.store.undeclare(claim).await? && is_first)
            }
            _ => self.store.undeclare(claim).await,
        }
    }
}

impl Mutant {
    /// The limit that the first user declared.
    pub(crate) fn first_limit(&self, key: &Key, of: u32) -> u32 {
        *self.shared().limits.entry(key.clone()).or_insert(of)
    }

    fn declared(&self, key: &Key, of: u32) -> u32 {
        match self.bug {
            Bug::AcceptsAnyLimit => self.first_limit(key, of),
            Bug::ForgetsEarlierNumbers => self.known_number(key, of),
            _ => of,
        }
    }

    /// A number that was not declared last becomes one that was never declared.
    pub(crate) fn known_number(&self, key: &Key, of: u32) -> u32 {
        match self.shared().limits.get(key) {
            Some(last) if *last != of => NEVER_DECLARED,
            _ => of,
        }
    }

    async fn redeclare(&self, key: &Key, of: u32) -> Result<Resized> {
        let declare = Resize::Declare;
        match self.bug {
            Bug::KeepsTheFirstLimit => {
                let first = self.first_limit(key, of);
                Ok(Resized::new(0, self.store.permits(key, first).await?))
            }
            Bug::ForgetsEarlierNumbers => {
                self.shared().limits.insert(key.clone(), of);
                self.store.resize(key, of, declare).await
            }
            Bug::DeclaresWithoutServing => {
                let line = self.take_out_all_of(key).await?;
                let resized = self.store.resize(key, of, declare).await?;
                put_back(line).await?;
                Ok(resized)
            }
            Bug::DeclaresAnew => {
                self.store.resize(key, NEVER_DECLARED, declare).await?;
                let resized = self.store.resize(key, of, declare).await?;
                Ok(Resized::new(0, resized.permits))
            }
            Bug::SmallerLimitsEndLeases => {
                let resized = self.store.resize(key, of, declare).await?;
                if resized.permits.held > resized.permits.limit {
                    self.store.force_release(key).await?;
                }
                Ok(Resized::new(resized.changed, self.store.permits(key, of).await?))
            }
            Bug::ShrinksToWhatIsHeld => {
                let resized = self.store.resize(key, of, declare).await?;
                let missing = resized.permits.held.saturating_sub(resized.permits.limit);
                let more = self.store.resize(key, of, Resize::Add(missing)).await?;
                Ok(Resized::new(resized.changed - missing, more.permits))
            }
            _ => self.store.resize(key, of, declare).await,
        }
    }
}
