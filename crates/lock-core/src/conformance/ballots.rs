//! Requests to a node of a quorum.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use super::scene::Client;
use super::verdict::{Check, Failure, ensure};
use crate::{Acquire, Ballot, Claim, Error, ErrorKind, FencingToken, Grant, Membership, OwnerTag};
use crate::{Quarantine, QuorumNode, Standing, Terms, Ttl, Vote};

/// A floor a minute ahead of the time: above every token that a node may have given out.
pub(super) fn soon() -> FencingToken {
    from_now(Duration::from_secs(60))
}

pub(super) fn from_now(ahead: Duration) -> FencingToken {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    FencingToken::floor(now + ahead)
}

pub(super) fn after(token: FencingToken, steps: u64) -> FencingToken {
    FencingToken::new(token.get().saturating_add(steps))
}

/// A ballot without a guard, for at most `wanted` tokens.
pub(super) fn ballot(claim: &Claim, ttl: Ttl, floor: FencingToken, wanted: u32) -> Ballot {
    let wanted = NonZeroU32::new(wanted).unwrap_or(NonZeroU32::MIN);
    Ballot::new(Acquire::new(claim.clone(), ttl).reserving(wanted), floor)
}

/// A ballot that expects a standing, for tests that care only whether the node votes.
pub(super) fn guarded(claim: &Claim, ttl: Ttl, standing: &Standing) -> Ballot {
    ballot(claim, ttl, soon(), 1).expecting(standing.clone())
}

/// The terms of a client whose quorum has these nodes.
pub(super) fn terms(nodes: [&str; 3], max_ttl: Ttl) -> Terms {
    Terms::new(Membership::of(nodes), max_ttl)
}

impl<B: QuorumNode> Client<B> {
    /// Asks until the server answers again.
    pub(super) async fn reaches_again(&self, patience: Duration) -> Check {
        let clock = self.clock();
        let deadline = clock.now() + patience;
        loop {
            let terms = terms(["a", "b", "c"], Ttl::DEFAULT);
            match self.bounded("standing", self.backend.standing(&terms)).await? {
                Err(error) if error.is_retryable() && clock.now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                answer => return Ok(answer.map(drop)?),
            }
        }
    }

    pub(super) async fn try_vote(&self, ballot: &Ballot) -> Check<Result<Vote, Error>> {
        self.bounded("vote", self.backend.vote(ballot)).await
    }

    /// Asks for a vote; the law is not applicable to a node that does not know the mode.
    pub(super) async fn vote(&self, ballot: &Ballot) -> Check<Vote> {
        match self.try_vote(ballot).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(self.lacks(&ballot.request, &error))
            }
            answer => Ok(answer?),
        }
    }

    /// Asks for a vote that must be given.
    pub(super) async fn elected(&self, ballot: &Ballot) -> Check<Grant> {
        elected(self.vote(ballot).await?)
    }

    /// Asks for a vote that must be refused, because another owner has it.
    pub(super) async fn outvoted(
        &self,
        claim: &Claim,
        ttl: Ttl,
    ) -> Check<(Option<OwnerTag>, Option<Duration>)> {
        match self.vote(&ballot(claim, ttl, soon(), 1)).await? {
            Vote::Busy { holder, retry_after } => Ok((holder, retry_after)),
            other => Err(Failure::Broken(format!("expected a refusal, got {other:?}"))),
        }
    }

    /// Asks for a vote from which the node must abstain.
    pub(super) async fn abstains(&self, ballot: &Ballot) -> Check {
        match self.vote(ballot).await? {
            Vote::Abstains => Ok(()),
            other => Err(Failure::Broken(format!("expected the node to abstain, got {other:?}"))),
        }
    }

    pub(super) async fn confirm(&self, claim: &Claim, token: FencingToken) -> Check<bool> {
        Ok(self.bounded("confirm", self.backend.confirm(claim, token)).await??)
    }

    /// Confirms a token, with this expected answer.
    pub(super) async fn confirms(
        &self,
        claim: &Claim,
        token: FencingToken,
        expected: bool,
    ) -> Check {
        let confirmed = self.confirm(claim, token).await?;
        ensure!(confirmed == expected, "confirming {token} came to {confirmed}");
        Ok(())
    }

    /// The standing of the node; the law is not applicable to a node that cannot tell.
    pub(super) async fn standing(&self) -> Check<Standing> {
        self.standing_under(&terms(["a", "b", "c"], Ttl::DEFAULT)).await
    }

    /// As [`standing`](Self::standing), for a client with these terms.
    pub(super) async fn standing_under(&self, terms: &Terms) -> Check<Standing> {
        match self.bounded("standing", self.backend.standing(terms)).await? {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) => {
                Err(Failure::NotApplicable(format!("this node knows no quarantine: {error}")))
            }
            answer => Ok(answer?),
        }
    }

    /// The standing of a node that must be in quarantine.
    pub(super) async fn out(&self) -> Check<Standing> {
        let standing = self.standing().await?;
        ensure!(standing.max_ttl.is_none(), "the node is not in quarantine: {standing:?}");
        Ok(standing)
    }

    /// The quarantine in which the node must be.
    pub(super) async fn quarantined(&self) -> Check<Quarantine> {
        Ok(self.out().await?.quarantine)
    }

    /// Has a node serve another membership.
    pub(super) async fn reassigns(&self, from: &Terms, to: &Terms) -> Check<Standing> {
        let reassign = self.backend.reassign(&from.membership, to);
        Ok(self.bounded("reassign", reassign).await??)
    }

    /// Vouches for a quarantine, with this expected answer.
    pub(super) async fn vouches(
        &self,
        quarantine: &Quarantine,
        max_ttl: Ttl,
        expected: bool,
    ) -> Check {
        let vouch = self.backend.vouch(quarantine, max_ttl);
        let done = self.bounded("vouch", vouch).await??;
        ensure!(done == expected, "vouching for {quarantine:?} came to {done}");
        Ok(())
    }
}

pub(super) fn elected(vote: Vote) -> Check<Grant> {
    match vote {
        Vote::Granted(grant) => Ok(grant),
        other => Err(Failure::Broken(format!("expected a vote, got {other:?}"))),
    }
}
