//! The store as one node of a quorum.

use std::sync::Arc;

use async_trait::async_trait;

use super::connection::Connection;
use super::post::Post;
use super::store::Store;
use super::{MemoryBackend, Verb};
use crate::{Backend, Ballot, Claim, Clock, FencingToken, Instant, Membership, Quarantine};
use crate::{QuorumNode, Result, Standing, Terms, Ttl, Vote};

#[async_trait]
impl QuorumNode for MemoryBackend {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote> {
        let sent = self.clock().now();
        let Self { store, connection } = self;
        connection.carry(Verb::Vote, || store.vote(ballot, connection, sent)).await?
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool> {
        let confirm =
            || self.store.look(&claim.key, |document, now| document.confirm(claim, token, now));
        Ok(self.connection.carry(Verb::Confirm, confirm).await?.unwrap_or(false))
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing> {
        let standing = || self.store.lock().node.standing(terms);
        self.connection.carry(Verb::Standing, standing).await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool> {
        let vouch = || self.store.lock().node.vouch(quarantine, max_ttl);
        self.connection.carry(Verb::Standing, vouch).await
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing> {
        let reassign = || self.store.lock().node.reassign(from, terms);
        self.connection.carry(Verb::Standing, reassign).await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing> {
        let admit = || self.store.lock().node.admit(terms);
        self.connection.carry(Verb::Standing, admit).await
    }
}

impl Store {
    fn vote(&self, ballot: &Ballot, client: &Arc<Connection>, sent: Instant) -> Result<Vote> {
        let Ballot { request, expects, .. } = ballot;
        let now = Clock::tokio().now();
        let mut post = Post::default();
        let mut state = self.lock();
        if let Some(expected) = expects
            && !(state.node.is_known_as(&expected.record) && expected.votes_for(request.ttl)?)
        {
            return Ok(Vote::Abstains);
        }
        let entry = state.entry(&request.claim.key, now);
        let vote = entry.visit(client, (sent, now), &mut post, |document, visit| {
            document.vote(ballot, &mut visit.queueing_at_most(self.queue_limit))
        });
        drop(state);
        post.send();
        vote
    }
}
