//! Bugs of acquiring.

use std::num::NonZeroU32;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Contention, Error, ErrorKind, FencingToken, Grant,
};
use lock_core::{Instant, Key, LoadedValue, Mode, OwnerToken, Renew, Result, TokenRange, Ttl};
use tokio::task::yield_now;

use crate::bug::Bug;
use crate::mutant::{Ask, Mutant};

impl Mutant {
    pub(crate) async fn acquire_wrongly(
        &self,
        mut request: Acquire,
        from: Option<Mode>,
    ) -> Result<AcquireOutcome> {
        let claim = request.claim.clone();
        let asked = request.ttl;
        let repeated = self.shared().seen.contains(&claim.owner);
        if let Some(refused) = self.refuses(&request, repeated) {
            return refused;
        }
        match self.bug {
            Bug::ChecksThenSets => {
                if let busy @ AcquireOutcome::Busy { .. } = self.checks(&claim.key, asked).await? {
                    return Ok(busy);
                }
                yield_now().await;
            }
            Bug::ADroppedAcquireLandsLater => {
                return self.lands_later(Ask { request, from }).await;
            }
            Bug::ARepeatedAcquireDoesNotExtend if repeated => request.ttl = Ttl::MIN,
            Bug::NeverExpires => request.ttl = Ttl::MAX,
            Bug::ExpiresEarly => request.ttl = Ttl::new(asked.duration() / 2).unwrap_or(Ttl::MIN),
            _ => {}
        }
        let sent = self.clock().now();
        let waited = self.is_in_line(&claim);
        let mut grant = match self.ask_store(&request, from).await? {
            AcquireOutcome::Granted(grant) => grant,
            AcquireOutcome::Busy { .. } if self.grants_anyway() => self.made_up(asked),
            refused => return Ok(self.refused_wrongly(refused)),
        };
        grant.tokens = self.numbered(&request, grant.tokens, repeated, waited);
        self.tell_wrongly(&mut grant, from.is_some());
        {
            let mut shared = self.shared();
            shared.seen.insert(claim.owner);
            shared.holders.insert(claim.key.clone(), claim.clone());
        }
        grant.valid_until = self.dated_wrongly(&claim, (sent, asked), repeated, &grant).await;
        Ok(AcquireOutcome::Granted(grant))
    }

    /// The answer, if the store is not asked at all.
    fn refuses(&self, request: &Acquire, repeated: bool) -> Option<Result<AcquireOutcome>> {
        let claim = &request.claim;
        let busy = AcquireOutcome::Busy { retry_after: Some(request.ttl.duration()) };
        match self.bug {
            Bug::NeverGrants => Some(Ok(busy)),
            Bug::LacksUpgradableReaders if claim.mode == Mode::Upgradable => {
                Some(Err(Error::new(ErrorKind::Unsupported, "readers are readers")))
            }
            Bug::GroupsWaitBehindOthers
                if matches!(claim.mode, Mode::Joint { .. }) && self.others(claim) > 0 =>
            {
                Some(Ok(busy))
            }
            Bug::RefusesARepeatedAcquire if repeated => Some(Ok(busy)),
            _ => None,
        }
    }

    /// The request is under way, also if its caller goes away.
    async fn lands_later(&self, ask: Ask) -> Result<AcquireOutcome> {
        let store = self.store.clone();
        let task = tokio::spawn(async move {
            for _ in 0..5 {
                yield_now().await;
            }
            ask.send(&store).await
        });
        task.await.expect("it does not panic")
    }

    /// Whether another claim would get the lock. It does not keep the lock.
    async fn checks(&self, key: &Key, ttl: Ttl) -> Result<AcquireOutcome> {
        let probe = Claim::exclusive(key.clone(), OwnerToken::generate()?);
        let look = self.store.try_acquire(&Acquire::new(probe.clone(), ttl)).await?;
        if !matches!(look, AcquireOutcome::Busy { .. }) {
            self.store.release(&probe).await?;
        }
        Ok(look)
    }

    /// Other tokens after a conversion, and another contention.
    fn tell_wrongly(&self, grant: &mut Grant, is_converted: bool) {
        if self.bug == Bug::DowngradesChangeTokens && is_converted {
            let next = FencingToken::new(grant.tokens.last().get() + 1);
            grant.tokens = TokenRange::single(next);
        }
        grant.contention = match self.bug {
            Bug::NeverKnowsTheContention => Contention::Unknown,
            Bug::AlwaysSaysQuiet => Contention::Quiet,
            _ => grant.contention,
        };
        if self.bug == Bug::GrantsBringNoValue {
            grant.value = grant.value.take().map(|_| LoadedValue::new(None));
        }
    }

    /// When the lease ends. The request was `sent` for the time that was `asked`.
    async fn dated_wrongly(
        &self,
        claim: &Claim,
        (sent, asked): (Instant, Ttl),
        repeated: bool,
        grant: &Grant,
    ) -> Instant {
        match self.bug {
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
        }
    }

    fn grants_anyway(&self) -> bool {
        matches!(self.bug, Bug::AlwaysGrants | Bug::ChecksThenSets)
    }

    pub(crate) fn made_up(&self, ttl: Ttl) -> Grant {
        let token = TokenRange::single(FencingToken::new(u64::MAX / 2));
        Grant::new(token, ttl.valid_until(self.clock().now()))
    }

    fn refused_wrongly(&self, refused: AcquireOutcome) -> AcquireOutcome {
        match (self.bug, refused) {
            (Bug::RefusesWithoutATime, _) => AcquireOutcome::Busy { retry_after: None },
            (Bug::RefusesWithATimeTooShort, AcquireOutcome::Busy { retry_after: Some(time) }) => {
                AcquireOutcome::Busy { retry_after: Some(time.mul_f64(0.5)) }
            }
            (_, refused) => refused,
        }
    }

    /// Tokens of a counter of the mutant.
    fn numbered(
        &self,
        request: &Acquire,
        granted: TokenRange,
        repeated: bool,
        waited: bool,
    ) -> TokenRange {
        let mut shared = self.shared();
        let group = match request.claim.mode {
            Mode::Joint { group } => Some(group),
            _ => None,
        };
        let renewed = shared.renewed.contains(&request.claim.owner);
        let counter = shared.counters.entry(request.claim.key.clone()).or_insert(1);
        let range = |first, count| TokenRange::new(FencingToken::new(first), count);
        let next = range(granted.last().get() + 1, NonZeroU32::MIN);
        match self.bug {
            Bug::ConstantTokens => range(1, request.tokens),
            // The counter rises when a lease is released, but not when it expires.
            Bug::RepeatsTokensAfterExpiry => range(*counter, NonZeroU32::MIN),
            Bug::RepeatsTokensAfterForgetting | Bug::ReissuesReservedTokens => {
                *counter += u64::from(!repeated);
                range(*counter, request.tokens)
            }
            Bug::NewTokenForARepeatedAcquire if repeated => next,
            Bug::RenewalChangesTokens if renewed => next,
            Bug::HandsOverOldTokens if waited => range(1, NonZeroU32::MIN),
            Bug::EachMemberHasItsTokens if group.is_some() => {
                *counter += 1;
                range(granted.last().get() + *counter, NonZeroU32::MIN)
            }
            Bug::GroupsKeepTheirTokens => match group {
                Some(group) => *shared.groups.entry(group).or_insert(granted),
                None => granted,
            },
            _ => granted,
        }
    }
}
