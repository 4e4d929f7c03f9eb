//! Bugs of a quorum's node.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use lock_core::{Acquire, Backend, Ballot, Claim, Error, ErrorKind, FencingToken, Grant, Mode};
use lock_core::{AcquireOutcome, Ending, Vote};
use lock_core::{
    Membership, OwnerTag, OwnerToken, Quarantine, QuorumNode, Renew, Renewal, Result, Server,
    Standing, Terms, TokenRange, Ttl,
};

use crate::bug::Bug;
use crate::line::put_back;
use crate::mutant::{Lease, Mutant};

#[async_trait]
impl QuorumNode for Mutant {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote> {
        let mut ballot = ballot.clone();
        ballot.request.claim = self.confused(&ballot.request.claim);
        let vote = match self.bug {
            Bug::TakesAnyTtl | Bug::RefusesLongLeasesVaguely | Bug::VouchesForOneClient => {
                self.guard_wrongly(&ballot).await?
            }
            Bug::ForgetsEarlierVouches => {
                self.check_latest(&ballot)?;
                self.vote_wrongly(&ballot).await?
            }
            _ => self.vote_wrongly(&ballot).await?,
        };
        Ok(match vote {
            Vote::Granted(grant) => Vote::Granted(self.numbered_for_quorum(&ballot, grant)),
            Vote::Busy { holder, retry_after } => {
                let holder = self.named(&ballot.request.claim, holder);
                Vote::Busy { holder, retry_after }
            }
            Vote::Abstains => self.abstain_wrongly(&ballot).await?,
            vote => vote,
        })
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        match self.bug {
            Bug::ConfirmsWhatIsNotHeld => {
                self.store.confirm(claim, token).await?;
                Ok(true)
            }
            Bug::ConfirmsStaleTokens => {
                self.store.confirm(claim, token).await?;
                // Any lease can be renewed for a while.
                let renewal = self.store.renew(&Renew::new(claim.clone(), Ttl::DEFAULT)).await;
                Ok(matches!(renewal, Renewal::Renewed { .. }))
            }
            Bug::ConfirmsWithoutRaising => {
                let own = self.tokens_of(claim.owner).map_or(token, |tokens| tokens.last());
                self.store.confirm(claim, own).await
            }
            Bug::RaisesForAnybody => {
                let confirmed = self.store.confirm(claim, token).await?;
                let stranger = Claim::exclusive(claim.key.clone(), OwnerToken::generate()?);
                let request = Acquire::new(stranger.clone(), Ttl::DEFAULT);
                let _vote = self.store.vote(&Ballot::new(request, token)).await?;
                self.store.release(&stranger).await?;
                Ok(confirmed)
            }
            _ => self.store.confirm(claim, token).await,
        }
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing> {
        let terms = self.wrong_terms(terms);
        let mut standing = self.store.standing(&terms).await?;
        match self.bug {
            Bug::AllServersAreOne => standing.server = Server::new("server"),
            Bug::RenamesQuarantines => standing.quarantine = self.renamed(standing.quarantine),
            Bug::ForgetsEarlierVouches if standing.max_ttl.is_some() => {
                standing.max_ttl = self.shared().vouched;
            }
            _ => {}
        }
        Ok(standing)
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        let present = self.store.standing(&any_terms()).await?;
        let done = match self.bug {
            Bug::AcceptsAnyVouch => self.store.vouch(&present.quarantine, max_ttl).await?,
            Bug::VouchesOnce if present.max_ttl.is_some() => present.quarantine == *quarantine,
            Bug::VouchesForOneClient => present.quarantine == *quarantine,
            Bug::RenamesQuarantines => {
                let name = quarantine.as_str().split('/').next().unwrap_or_default();
                self.store.vouch(&Quarantine::new(name), max_ttl).await?
            }
            _ => self.store.vouch(quarantine, max_ttl).await?,
        };
        if done {
            self.shared().vouched = Some(max_ttl);
            self.set_vouched();
        }
        Ok(done)
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing> {
        let present = self.store.standing(terms).await?.membership;
        match self.bug {
            Bug::ReassignsNothing => self.store.standing(terms).await,
            Bug::ReassignsAnything => self.store.reassign(&present, terms).await,
            _ => self.store.reassign(from, terms).await,
        }
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing> {
        if self.bug == Bug::AdmitsAtOnce {
            let present = self.store.standing(terms).await?.membership;
            return self.store.reassign(&present, terms).await;
        }
        self.store.admit(terms).await
    }
}

impl Mutant {
    async fn vote_wrongly(&self, ballot: &Ballot) -> Result<Vote> {
        let request = &ballot.request;
        let mut wrong = ballot.clone();
        match self.bug {
            Bug::VotesForWritersAlone => wrong.request.claim.mode = Mode::Exclusive,
            Bug::NeverKeepsOut => wrong.expects = None,
            Bug::NumbersVotesItself if ballot.expects.is_none() => {
                return self.acquire(request).await;
            }
            Bug::VotesOnPermits if matches!(request.claim.mode, Mode::Permits { .. }) => {
                return self.acquire(request).await;
            }
            Bug::RenumbersRepeatedVotes if self.tokens_of(request.claim.owner).is_some() => {
                self.store.release(&request.claim).await?;
            }
            Bug::RefusesWildFloors if ballot.floor > an_hour_ahead() => {
                return Err(Error::new(ErrorKind::InvalidConfig, "set your clock"));
            }
            Bug::RefusesItsShortestLease if request.ttl == self.shortest_ttl() => {
                return Err(Error::new(ErrorKind::InvalidTtl, "too short"));
            }
            Bug::VotesOvertake => {
                let line = self.take_out_all_but(&request.claim).await?;
                let vote = self.store.vote(ballot).await?;
                put_back(line).await?;
                return Ok(vote);
            }
            _ => {}
        }
        match (self.bug, self.store.vote(&wrong).await?) {
            (Bug::VotesForEveryClaim, Vote::Busy { .. }) => {
                Ok(Vote::Granted(self.made_up(request.ttl)))
            }
            (Bug::VotesQueue, Vote::Busy { holder, retry_after }) => {
                let _queued = self.store.try_acquire(&request.clone().queued()).await?;
                Ok(Vote::Busy { holder, retry_after })
            }
            (_, vote) => Ok(vote),
        }
    }

    /// Sends an ordinary request in the place of a ballot.
    async fn acquire(&self, request: &Acquire) -> Result<Vote> {
        let mut request = request.clone();
        request.queue = false;
        Ok(match self.store.try_acquire(&request).await? {
            AcquireOutcome::Granted(grant) => Vote::Granted(grant),
            AcquireOutcome::Busy { retry_after } => Vote::Busy { holder: None, retry_after },
            other => panic!("no request is queued unasked: {other:?}"),
        })
    }

    fn numbered_for_quorum(&self, ballot: &Ballot, mut grant: Grant) -> Grant {
        let claim = &ballot.request.claim;
        let single = TokenRange::single(ballot.floor);
        grant.tokens = match self.bug {
            Bug::RangesBeginWithTheFloor => TokenRange::new(ballot.floor, grant.tokens.count()),
            Bug::ReissuesFloors => single,
            Bug::TakesAnyFloor if ballot.floor > an_hour_ahead() => single,
            _ => grant.tokens,
        };
        let lease = Lease { claim: claim.clone(), tokens: grant.tokens };
        self.shared().leases.insert(claim.owner, lease);
        self.shared().holders.insert(claim.key.clone(), claim.clone());
        grant
    }

    fn named(&self, asker: &Claim, holder: Option<OwnerTag>) -> Option<OwnerTag> {
        match self.bug {
            Bug::NamesNobody => None,
            Bug::NamesWhoAsks => Some(asker.owner.tag()),
            Bug::NamesWhoCameLast => {
                let shared = self.shared();
                shared.holders.get(&asker.key).map(|claim| claim.owner.tag()).or(holder)
            }
            _ => holder,
        }
    }

    async fn guard_wrongly(&self, ballot: &Ballot) -> Result<Vote> {
        let mut unguarded = ballot.clone();
        unguarded.expects = None;
        if self.bug == Bug::VouchesForOneClient && self.has_vouched() {
            return self.store.vote(&unguarded).await;
        }
        match (self.bug, self.store.vote(ballot).await) {
            (Bug::TakesAnyTtl, Err(error)) if error.kind() == ErrorKind::InvalidConfig => {
                self.store.vote(&unguarded).await
            }
            (Bug::RefusesLongLeasesVaguely, Err(error))
                if error.kind() == ErrorKind::InvalidConfig =>
            {
                Err(Error::new(ErrorKind::InvalidConfig, "too long"))
            }
            (_, vote) => vote,
        }
    }

    /// Refuses a lease that is longer than the last ttl that was vouched for.
    fn check_latest(&self, ballot: &Ballot) -> Result<()> {
        let ttl = ballot.request.ttl;
        let latest = self.shared().vouched;
        match latest {
            Some(latest) if ballot.expects.is_some() && ttl > latest => Err(Error::new(
                ErrorKind::InvalidConfig,
                format!("{:?} is more than {:?}", ttl.duration(), latest.duration()),
            )),
            _ => Ok(()),
        }
    }

    async fn abstain_wrongly(&self, ballot: &Ballot) -> Result<Vote> {
        let mut unguarded = ballot.clone();
        unguarded.expects = None;
        match self.bug {
            Bug::TrustsWhomItKnew if self.shared().vouched.is_some() => {
                let standing = self.store.standing(&any_terms()).await?;
                self.store.vouch(&standing.quarantine, Ttl::MAX).await?;
                return self.store.vote(&unguarded).await;
            }
            Bug::IgnoresRecords => {
                let standing = self.store.standing(&any_terms()).await?;
                return self.store.vote(&unguarded.expecting(standing)).await;
            }
            Bug::AbstainsAndGrants => {
                let _vote = self.store.vote(&unguarded).await?;
            }
            Bug::AbstainsAndReleases => {
                self.store.release(&ballot.request.claim).await?;
            }
            _ => {}
        }
        Ok(Vote::Abstains)
    }

    fn wrong_terms(&self, terms: &Terms) -> Terms {
        let mut terms = terms.clone();
        match self.bug {
            Bug::QuarantinesForever => terms.ending = Ending::Never,
            Bug::EndsEveryQuarantine => terms.ending = Ending::ByClock,
            _ => {}
        }
        terms
    }

    fn renamed(&self, quarantine: Quarantine) -> Quarantine {
        let mut shared = self.shared();
        shared.looks += 1;
        Quarantine::new(format!("{}/{}", quarantine.as_str(), shared.looks))
    }
}

/// The terms of a client that only looks.
fn any_terms() -> Terms {
    Terms::new(Membership::of(["a", "b", "c"]), Ttl::MIN)
}

fn an_hour_ahead() -> FencingToken {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    FencingToken::floor(now + Duration::from_secs(60 * 60 + 5))
}
