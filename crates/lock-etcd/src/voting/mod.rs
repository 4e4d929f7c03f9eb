//! One vote of several.

mod node;
mod record;

use async_trait::async_trait;
use lock_core::document::{Document, Visit};
use lock_core::{
    AcquireOutcome, Backend, Ballot, Claim, Clock, Error, FencingToken, Membership, Quarantine,
    QuorumNode, Standing, Terms, Ttl, Vote,
};

pub(crate) use self::node::Node;
use self::record::Change;
use crate::backend::EtcdBackend;
use crate::core::Core;
use crate::decide::{Ask, Attempt, Done, Expected, Refresh};
use crate::failure;
use crate::member::Member;

/// The locks under one prefix are one node of a quorum, beside other clusters or nodes of other kinds.
///
/// The record of the standing of the node names the cluster and the term of its leader. So a node whose members have
/// restarted, or that was forced to go on with fewer members, abstains like one that may have forgotten votes. A
/// restore from a snapshot shows in the log, which begins anew while the revision goes on. A change of the leader looks
/// like a restart, and costs a quarantine, too. The clock of the node is a lease of etcd that lasts as long as the
/// quarantine.
#[async_trait]
impl QuorumNode for EtcdBackend {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
        let ballot = ballot.clone();
        self.ask(|core| async move { core.bounded(core.vote(&ballot)).await }).await
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error> {
        let claim = claim.clone();
        self.ask(|core| async move {
            let confirm = |_, document: &mut Document<Member>, _: &mut Visit<'_, Member>| {
                document.confirm(&claim, token, Clock::boot().now())
            };
            Ok(core.decide(Ask::of(&claim), Refresh::Never, confirm).await?.answer)
        })
        .await
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing, Error> {
        let terms = terms.clone();
        self.ask(|core| async move { core.bounded(core.stand(&terms, Change::Nothing)).await })
            .await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
        let quarantine = quarantine.clone();
        self.ask(|core| async move { core.bounded(core.vouch(&quarantine, max_ttl)).await }).await
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing, Error> {
        let (from, terms) = (from.clone(), terms.clone());
        self.ask(
            |core| async move { core.bounded(core.stand(&terms, Change::Reassign(&from))).await },
        )
        .await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing, Error> {
        let terms = terms.clone();
        self.ask(|core| async move { core.bounded(core.stand(&terms, Change::Admit)).await }).await
    }

    /// The shortest lease of etcd with its usual settings.
    fn shortest_ttl(&self) -> Ttl {
        self.limits().min_ttl
    }
}

impl Core {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
        let Ballot { request, expects, .. } = ballot;
        let Some(standing) = expects else { return self.vote_on(ballot, None).await };
        if !standing.votes_for(request.ttl)? {
            return Ok(Vote::Abstains);
        }
        loop {
            let Some(connection) = self.connection_with(&standing.record).await? else {
                return Ok(Vote::Abstains);
            };
            let expected = Expected { record: &standing.record, connection };
            let vote = self.vote_on(ballot, Some(expected)).await;
            // With the connection, the run of the cluster may have ended. To repeat a vote is harmless.
            if self.link.opened() == connection {
                return vote;
            }
        }
    }

    /// Votes if the node has the expected record.
    async fn vote_on(&self, ballot: &Ballot, expects: Option<Expected<'_>>) -> Result<Vote, Error> {
        let claim = &ballot.request.claim;
        let mut turns = [self.turn(&claim.key).await];
        let asks = [Ask { expects, ..Ask::of(claim) }];
        let act = |_, document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
            document.vote(ballot, visit)
        };
        let attempt = Attempt::new(self, &mut turns, &asks, Refresh::IfNew, act);
        match attempt.run(|_| ()).await?.pop() {
            Some(done) => self.counted(done, claim),
            None => Ok(Vote::Abstains),
        }
    }

    /// The vote, with the deadline that the lease of etcd allows.
    fn counted(&self, done: Done<Result<Vote, Error>>, claim: &Claim) -> Result<Vote, Error> {
        let Done { answer, late, failure, is_new } = done;
        let answer = match answer? {
            Vote::Granted(grant) => Ok(AcquireOutcome::Granted(grant)),
            refused => return Ok(refused),
        };
        match self.outcome(Done { answer, late, failure, is_new }, claim)? {
            AcquireOutcome::Granted(grant) => Ok(Vote::Granted(grant)),
            _ => Err(failure::protocol("the outcome of a vote")),
        }
    }
}
