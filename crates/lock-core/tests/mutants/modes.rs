//! Bugs of sharing and of converting.

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, ErrorKind, Key, Mode, OwnerToken, Result,
};
use lock_core::{Error, Released, TokenRange, Ttl};

use crate::bug::Bug;
use crate::line::put_back;
use crate::mutant::{Ask, Mutant};

impl Mutant {
    pub(crate) async fn convert_wrongly(
        &self,
        request: &Acquire,
        from: Mode,
    ) -> Result<AcquireOutcome> {
        let claim = &request.claim;
        let former = claim.clone().in_mode(from);
        let plain = request;
        let convert = |request: &Acquire| Ask { request: request.clone(), from: Some(from) };
        let is_upgrade = claim.mode == Mode::Exclusive;
        match self.bug {
            Bug::DowngradesWithAGap if !is_upgrade => {
                self.store.release(&former).await?;
                return self.store.try_acquire(plain).await;
            }
            Bug::DowngradesWakeNobody if !is_upgrade => {
                let line = self.take_out_all_but(claim).await?;
                let attempt = convert(request).send(&self.store).await?;
                put_back(line).await?;
                return Ok(attempt);
            }
            Bug::UpgradesStayInLine if !request.queue && self.is_in_line(claim) => {
                let attempt = convert(&request.clone().queued()).send(&self.store).await?;
                return Ok(match attempt {
                    AcquireOutcome::Queued { retry_after } => AcquireOutcome::Busy { retry_after },
                    attempt => attempt,
                });
            }
            Bug::ForgetsConversions if self.as_held(&former) == *claim => {
                return Err(Error::new(ErrorKind::NotHeld, "not any more"));
            }
            _ => {}
        }
        let before = self.tokens_of(claim.owner);
        let attempt = convert(request).send(&self.store).await;
        self.converted_wrongly(request, from, before, attempt).await
    }

    /// What comes of the answer of the store. The owner had the tokens `before`.
    async fn converted_wrongly(
        &self,
        plain: &Acquire,
        from: Mode,
        before: Option<TokenRange>,
        attempt: Result<AcquireOutcome>,
    ) -> Result<AcquireOutcome> {
        let claim = &plain.claim;
        let former = claim.clone().in_mode(from);
        let is_upgrade = claim.mode == Mode::Exclusive;
        match (self.bug, attempt) {
            (Bug::UpgradesKeepTheirTokens, Ok(AcquireOutcome::Granted(mut grant))) => {
                grant.tokens = before.unwrap_or(grant.tokens);
                Ok(AcquireOutcome::Granted(grant))
            }
            (Bug::UpgradesShortenTheLease, Ok(AcquireOutcome::Granted(_))) if is_upgrade => {
                self.store.release(claim).await?;
                self.store.try_acquire(plain).await
            }
            (Bug::UpgradesBesideReaders, Ok(AcquireOutcome::Busy { .. })) => {
                Ok(AcquireOutcome::Granted(self.made_up(plain.ttl)))
            }
            (Bug::UpgradesQueueLikeAnyWriter, Ok(AcquireOutcome::Queued { .. })) => {
                self.store.release(claim).await?;
                self.store.try_acquire(plain).await
            }
            (Bug::WaitingUpgradesLetGo, Ok(queued @ AcquireOutcome::Queued { .. })) => {
                self.store.release(&former).await?;
                Ok(queued)
            }
            (Bug::ConvertsWhatIsNotHeld, Err(error)) if error.kind() == ErrorKind::NotHeld => {
                self.store.try_acquire(plain).await
            }
            (Bug::ConvertsAnything, Err(error)) if error.kind() == ErrorKind::InvalidConfig => {
                self.store.release(&former).await?;
                self.store.try_acquire(plain).await
            }
            (_, attempt) => attempt,
        }
    }

    /// Releases a lease, but puts its upgrade back into the queue.
    pub(crate) async fn release_without_upgrade(&self, claim: &Claim) -> Result<Released> {
        let released = self.store.release(claim).await?;
        let upgrade = claim.clone().in_mode(Mode::Exclusive);
        if claim.mode == Mode::Upgradable && self.is_in_line(&upgrade) {
            let request = Acquire::new(upgrade, Ttl::DEFAULT).queued();
            let _either = self.store.try_acquire(&request).await?;
        }
        Ok(released)
    }

    /// Ends all leases that are held in the mode of this claim.
    pub(crate) async fn end_all_in(&self, claim: &Claim) {
        let leases = self.leases_of(&claim.key).into_iter();
        for lease in leases.filter(|lease| lease.mode == claim.mode) {
            drop(self.store.release(&lease).await);
        }
    }

    /// Every lease of a key that was ever granted.
    pub(crate) fn leases_of(&self, key: &Key) -> Vec<Claim> {
        let shared = self.shared();
        let claims = shared.leases.values().map(|lease| &lease.claim);
        claims.filter(|claim| claim.key == *key).cloned().collect()
    }

    /// The claim in the mode in which its owner really holds the key.
    pub(crate) fn as_held(&self, claim: &Claim) -> Claim {
        let shared = self.shared();
        let held = shared.leases.get(&claim.owner).map(|lease| &lease.claim);
        held.filter(|held| held.key == claim.key).unwrap_or(claim).clone()
    }

    pub(crate) fn tokens_of(&self, owner: OwnerToken) -> Option<TokenRange> {
        self.shared().leases.get(&owner).map(|lease| lease.tokens)
    }
}
