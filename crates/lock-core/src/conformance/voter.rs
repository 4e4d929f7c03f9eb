//! Votes in the place of requests.

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

use super::{Harness, Hook};
use crate::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, Clock, Error, ErrorKind, FencingToken, Key,
};
use crate::{Limits, QuorumNode, Released, Renew, Renewal, Result, Ttl, Vote, Watch};

/// A harness whose clients ask for votes instead of leases, so that the laws of leases test votes.
pub(super) struct Voters<'h, H>(pub(super) &'h H);

/// One client.
pub(super) struct Voter<B>(B);

#[async_trait]
impl<B: QuorumNode> Backend for Voter<B> {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        // This floor is below every token, so the node takes its next number.
        let ballot = Ballot::new(request.clone(), FencingToken::new(0));
        match self.0.vote(&ballot).await? {
            Vote::Granted(grant) => Ok(AcquireOutcome::Granted(grant)),
            Vote::Busy { retry_after, .. } => Ok(AcquireOutcome::Busy { retry_after }),
            Vote::Abstains => Err(Error::new(
                ErrorKind::Other,
                "a node abstained from a ballot that expects nothing",
            )),
        }
    }

    async fn renew(&self, request: &Renew) -> Renewal {
        self.0.renew(request).await
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        self.0.release(claim).await
    }

    async fn watch(&self, key: &Key) -> Result<Watch> {
        self.0.watch(key).await
    }

    fn clock(&self) -> Clock {
        self.0.clock()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }
}

#[async_trait]
impl<H: Harness<Client: QuorumNode>> Harness for Voters<'_, H> {
    type Client = Voter<H::Client>;

    async fn client(&self) -> Result<Self::Client> {
        Ok(Voter(self.0.client().await?))
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<Self::Client>> {
        Ok(self.0.limited_client(waiters).await?.map(Voter))
    }

    async fn other_server(&self) -> Result<Option<Self::Client>> {
        Ok(self.0.other_server().await?.map(Voter))
    }

    async fn cut(&self, client: &Self::Client) -> Hook {
        self.0.cut(&client.0).await
    }

    async fn heal(&self, client: &Self::Client) {
        self.0.heal(&client.0).await;
    }

    async fn forget(&self) -> Hook {
        self.0.forget().await
    }

    async fn restart(&self) -> Hook {
        self.0.restart().await
    }

    async fn pause(&self, time: Duration) {
        self.0.pause(time).await;
    }

    async fn outlast(&self, ttl: Duration) {
        self.0.outlast(ttl).await;
    }

    fn ttl(&self) -> Ttl {
        self.0.ttl()
    }

    fn patience(&self) -> Duration {
        self.0.patience()
    }
}
