//! Asking a node of a quorum.

use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use super::scene::Client;
use super::verdict::{Check, Failure, ensure};
use crate::{Acquire, Ballot, Claim, Error, ErrorKind, FencingToken, Grant, OwnerTag, Quarantine};
use crate::{QuorumNode, Standing, Ttl, Vote};

/// A floor above every token that a node may have given out, a minute ahead of the time.
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

/// A ballot without a guard, for so many tokens at most.
pub(super) fn ballot(claim: &Claim, ttl: Ttl, floor: FencingToken, wanted: u32) -> Ballot {
    let wanted = NonZeroU32::new(wanted).unwrap_or(NonZeroU32::MIN);
    Ballot::new(Acquire::new(claim.clone(), ttl).reserving(wanted), floor)
}

/// A ballot of which it matters only whether the node takes it.
pub(super) fn guarded(claim: &Claim, ttl: Ttl) -> Ballot {
    ballot(claim, ttl, soon(), 1).guarded()
}

impl<B: QuorumNode> Client<B> {
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

    /// Asks for a vote that somebody else must have.
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
    pub(super) async fn abstains(&self, ballot: &Ballot) -> Check<Quarantine> {
        match self.vote(ballot).await? {
            Vote::Abstains(quarantine) => Ok(quarantine),
            other => Err(Failure::Broken(format!("expected the node to abstain, got {other:?}"))),
        }
    }

    pub(super) async fn confirm(&self, claim: &Claim, token: FencingToken) -> Check<bool> {
        Ok(self.bounded("confirm", self.backend.confirm(claim, token)).await??)
    }

    /// Confirms a token, which must come to this.
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

    /// How it stands with the node; the law is not applicable to one that cannot tell.
    pub(super) async fn standing(&self) -> Check<Standing> {
        match self.bounded("standing", self.backend.standing()).await? {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Denied) => {
                Err(Failure::NotApplicable(format!("this node cannot keep out: {error}")))
            }
            answer => Ok(answer?),
        }
    }

    /// The quarantine in which the node must be.
    pub(super) async fn quarantined(&self) -> Check<Quarantine> {
        let standing = self.standing().await?;
        ensure!(standing.max_ttl.is_none(), "the node is not kept out: {standing:?}");
        Ok(standing.quarantine)
    }

    /// Vouches, which must come to this.
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
