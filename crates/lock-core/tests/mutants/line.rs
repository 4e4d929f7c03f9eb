//! Bugs of queueing and of handing over.
//!
//! The store below queues rightly. A bug undoes that from outside: it takes waiters out of their
//! places and puts them back elsewhere, or changes the claims that have just been served.

use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Error, ErrorKind, Key, Mode, PermitBackend, Released,
};
use lock_core::{Renew, Renewal, Result, Ttl};

use crate::bug::Bug;
use crate::mutant::{Ask, Lease, Mutant};

impl Mutant {
    /// Asks the store, and remembers waiters and holders.
    pub(crate) async fn ask_store(
        &self,
        request: &Acquire,
        from: Option<Mode>,
    ) -> Result<AcquireOutcome> {
        let attempt = match from {
            Some(from) => self.convert_wrongly(request, from).await?,
            None => self.queue_wrongly(request).await?,
        };
        let claim = &request.claim;
        match &attempt {
            AcquireOutcome::Granted(grant) => {
                self.forget_waiter(claim);
                let lease = Lease { claim: claim.clone(), tokens: grant.tokens };
                self.shared().leases.insert(claim.owner, lease);
            }
            // An upgrade that is repeated without asking for a place gives up its place.
            AcquireOutcome::Busy { .. } if from.is_some() => self.forget_waiter(claim),
            AcquireOutcome::Queued { .. } if !self.is_in_line(claim) => {
                let ask = Ask { request: request.clone(), from };
                self.shared().line.push((self.store.clone(), ask));
            }
            _ => {}
        }
        Ok(attempt)
    }

    async fn queue_wrongly(&self, request: &Acquire) -> Result<AcquireOutcome> {
        let mut request = request.clone();
        let claim = request.claim.clone();
        let waits = self.is_in_line(&claim);
        match self.bug {
            Bug::QueuesWhoDoesNotAsk => request.queue = true,
            Bug::ARepeatedAcquireDoesNotExtend if waits => request.ttl = Ttl::MIN,
            Bug::KeepsDeadPermits if matches!(claim.mode, Mode::Permits { .. }) => {
                request.ttl = Ttl::MAX;
            }
            Bug::RepeatingLosesThePlace if waits && !holds(&self.store, &claim).await => {
                self.store.release(&claim).await?;
            }
            Bug::ExpiryGrantsWhoeverAsks if waits && self.store.live_leases() == 0 => {
                return Ok(AcquireOutcome::Granted(self.made_up(request.ttl)));
            }
            Bug::RefusesMoreThanThereAre => {
                if let Mode::Permits { take, of } = claim.mode
                    && take > self.store.permits(&claim.key, of).await?.limit
                {
                    return Err(Error::new(ErrorKind::InvalidConfig, "there are fewer permits"));
                }
            }
            _ if !waits && self.overtakes(claim.mode) => {
                let line = self.take_out_all_but(&claim).await?;
                let attempt = self.store.try_acquire(&request).await?;
                put_back(line).await?;
                return Ok(attempt);
            }
            _ => {}
        }
        let attempt = self.store.try_acquire(&request).await?;
        self.queued_wrongly(request, waits, attempt).await
    }

    /// What comes of the answer of the store. The claim `waited` if it had a place before.
    async fn queued_wrongly(
        &self,
        mut request: Acquire,
        waited: bool,
        attempt: AcquireOutcome,
    ) -> Result<AcquireOutcome> {
        let claim = request.claim.clone();
        match (self.bug, attempt) {
            (Bug::QueuesOnlyOne, AcquireOutcome::Queued { retry_after })
                if self.others(&claim) > 0 =>
            {
                self.store.release(&claim).await?;
                Ok(AcquireOutcome::Busy { retry_after })
            }
            (Bug::QueuesWhoDoesNotWatch, AcquireOutcome::Busy { retry_after }) if request.queue => {
                Ok(AcquireOutcome::Queued { retry_after })
            }
            (Bug::QueuesBackwards, attempt @ AcquireOutcome::Queued { .. }) if !waited => {
                let line = self.take_out_all_but(&claim).await?;
                put_back(line.into_iter().rev()).await?;
                Ok(attempt)
            }
            (Bug::PlacesNeverLapse, AcquireOutcome::Queued { .. }) => {
                request.ttl = Ttl::MAX;
                self.store.try_acquire(&request).await
            }
            (Bug::WritersBesideReaders, AcquireOutcome::Busy { .. })
                if claim.mode == Mode::Exclusive =>
            {
                request.claim.mode = Mode::Shared;
                self.store.try_acquire(&request).await
            }
            (_, attempt) => Ok(attempt),
        }
    }

    fn overtakes(&self, mode: Mode) -> bool {
        match self.bug {
            Bug::NewcomersOvertake => true,
            Bug::ReadersOvertakeWriters => mode == Mode::Shared,
            Bug::SmallRequestsOvertake => matches!(mode, Mode::Permits { .. }),
            _ => false,
        }
    }

    /// Releases a claim, with the bugs that affect the next waiters.
    pub(crate) async fn pass_on_wrongly(&self, claim: &Claim) -> Result<Released> {
        let waits = self.is_in_line(claim);
        match self.bug {
            Bug::KeepsWhoLeaves if waits && !holds(&self.store, claim).await => {
                return Ok(Released::NotHeld);
            }
            Bug::UpgradesOutliveTheirLease => return self.release_without_upgrade(claim).await,
            _ => self.forget_waiter(claim),
        }
        if self.bug == Bug::LeavesWithoutWakingTheNext && waits {
            let line = self.take_out_all_but(claim).await?;
            let released = self.store.release(claim).await?;
            put_back(line).await?;
            return Ok(released);
        }
        let released = self.store.release(claim).await?;
        if self.bug == Bug::GroupsLeaveTogether && matches!(claim.mode, Mode::Joint { .. }) {
            self.end_all_in(claim).await;
        }
        self.treat_served_wrongly(&claim.key).await?;
        Ok(released)
    }

    async fn treat_served_wrongly(&self, key: &Key) -> Result<()> {
        let spared = match self.bug {
            Bug::TellsWithoutHandingOver
            | Bug::HandsOverForTheWholeTtl
            | Bug::UpgradesInLineShortenTheLease => 0,
            Bug::HandsOverToOneReader => 1,
            _ => return Ok(()),
        };
        let mut served = 0;
        for (client, waiting) in self.line_of(key) {
            if !holds(&client, &waiting.request.claim).await {
                continue;
            }
            served += 1;
            match self.bug {
                Bug::HandsOverForTheWholeTtl => {
                    let _renewed =
                        client.renew(&Renew::new(waiting.request.claim, waiting.request.ttl)).await;
                }
                Bug::UpgradesInLineShortenTheLease => {
                    let short = Renew::new(waiting.request.claim, waiting.request.ttl.for_grant());
                    let _renewed = client.renew(&short).await;
                }
                _ if served > spared => drop(client.release(&waiting.request.claim).await?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes all waiters out of the queue for a key, in order, except those that have been served already.
    pub(crate) async fn take_out_all_but(
        &self,
        claim: &Claim,
    ) -> Result<Vec<(MemoryBackend, Ask)>> {
        self.take_out(&claim.key, |waiting| waiting != claim).await
    }

    pub(crate) async fn take_out_all_of(&self, key: &Key) -> Result<Vec<(MemoryBackend, Ask)>> {
        self.take_out(key, |_| true).await
    }

    async fn take_out(
        &self,
        key: &Key,
        is_taken: impl Fn(&Claim) -> bool,
    ) -> Result<Vec<(MemoryBackend, Ask)>> {
        let mut taken = Vec::new();
        for (client, waiting) in self.line_of(key) {
            if is_taken(&waiting.request.claim) && !holds(&client, &waiting.request.claim).await {
                client.release(&waiting.request.claim).await?;
                taken.push((client, waiting));
            }
        }
        Ok(taken)
    }

    pub(crate) fn is_in_line(&self, claim: &Claim) -> bool {
        self.shared().line.iter().any(|(_, waiting)| waiting.request.claim == *claim)
    }

    pub(crate) fn others(&self, claim: &Claim) -> usize {
        let line = self.line_of(&claim.key);
        line.iter().filter(|(_, waiting)| waiting.request.claim != *claim).count()
    }

    fn forget_waiter(&self, claim: &Claim) {
        self.shared().line.retain(|(_, waiting)| waiting.request.claim != *claim);
    }

    fn line_of(&self, key: &Key) -> Vec<(MemoryBackend, Ask)> {
        let shared = self.shared();
        shared
            .line
            .iter()
            .filter(|(_, waiting)| waiting.request.claim.key == *key)
            .cloned()
            .collect()
    }
}

pub(crate) async fn put_back(line: impl IntoIterator<Item = (MemoryBackend, Ask)>) -> Result<()> {
    for (client, waiting) in line {
        let _either = waiting.send(&client).await?;
    }
    Ok(())
}

/// Whether a claim is held. The question renews it for as long as a handed-over lease lives.
async fn holds(client: &MemoryBackend, claim: &Claim) -> bool {
    let renewal = client.renew(&Renew::new(claim.clone(), Ttl::DEFAULT.for_grant())).await;
    matches!(renewal, Renewal::Renewed { .. })
}
