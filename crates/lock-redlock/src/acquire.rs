//! Asking for a lease until it is granted, somebody else has it, or too few nodes answer.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, FencingToken, Grant, Mode, OwnerTag};
use lock_core::{QuorumNode, Vote};

use crate::asked::Asked;
use crate::background::pause;
use crate::backoff::Backoff;
use crate::ballot::Ballot;
use crate::claims::{Next, Wanted};
use crate::inner::Core;
use crate::owed::Owed;
use crate::quorum::NodeSet;
use crate::round::{Outcome, Reply, Round};

/// How many rounds there are at most.
const ROUNDS: u32 = 8;

/// After so many rounds in which the same others had the same votes, they are taken for holders some of whose
/// nodes do not answer.
const UNMOVED: u32 = 3;

/// When to ask again after a vote that nobody has won.
const SOON: Duration = Duration::from_millis(50);

/// When those ask again who share the lock with some but not with others. Nodes tell when nobody holds it any
/// more, but not when a writer goes on as a reader, or one of several readers lets go.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Asks all nodes for a new lease, or for one that this owner has already.
///
/// Several rounds are held only if a vote is split, or the nodes cannot agree on tokens. Of several requests for the
/// same claim at once, the last to end gives up the ballots, if all have failed: the others might have counted them.
pub(crate) async fn acquire<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
) -> Result<Attempt, Error> {
    let mut asking = Asking::new(core, request);
    asking.begin().await;
    loop {
        if let Some(ended) = asking.round().await {
            return ended;
        }
    }
}

/// One request, from round to round.
struct Asking<'a, N: QuorumNode> {
    core: &'a Arc<Core<N>>,
    request: Arc<Acquire>,
    wanted: Wanted,
    backoff: Backoff,
    floor: FencingToken,
    /// The votes of the last round, if they stay.
    kept: Vec<Option<Grant>>,
    number: u32,
    /// The nodes whose votes others had in the last round, and for how many rounds they have had them.
    rivals: Vec<(usize, Option<OwnerTag>)>,
    unmoved: u32,
}

impl<'a, N: QuorumNode> Asking<'a, N> {
    fn new(core: &'a Arc<Core<N>>, request: &Acquire) -> Self {
        let claim = &request.claim;
        Self {
            core,
            request: Arc::new(request.clone()),
            wanted: core.claims.want(claim, core.clock.now()),
            backoff: Backoff::new(trip(core), &claim.owner),
            floor: core.claims.floor(&claim.key, request.tokens.get()),
            kept: vec![None; core.quorum.nodes()],
            number: 0,
            rivals: Vec::new(),
            unmoved: 0,
        }
    }

    /// The ballots of a lease that is over are in the way of new ones.
    async fn begin(&self) {
        let lapsed = self.wanted.give_up_lapsed(self.core.clock.now());
        let nodes = lapsed.iter().map(|ballot| ballot.node).collect();
        self.give_up(lapsed, nodes).await;
    }

    /// Asks all nodes once. `None` if that is to be repeated.
    async fn round(&mut self) -> Option<Result<Attempt, Error>> {
        let (core, claim) = (self.core, &self.request.claim);
        self.number += 1;
        let ballots = match self.wanted.ballots(core.clock.now()) {
            Ok(ballots) => ballots,
            Err(error) => return Some(Err(error)),
        };
        let kept = std::mem::replace(&mut self.kept, vec![None; core.quorum.nodes()]);
        let (mut round, mut asked) = Round::begin(core, &self.request, ballots, kept, self.floor);
        let mut outcome = round.decide(&mut asked).await;
        tracing::debug!(target: "lock_redlock", key = %claim.key, round = self.number, ?outcome);
        if let Some(token) = round.highest() {
            core.claims.raise(&claim.key, token);
        }
        if let Outcome::Granted(held) = outcome {
            let by = round.ballots().iter().filter(|it| held.nodes.contains(it.node)).copied();
            if let Some(held) = self.wanted.win(by, held, core.clock.now()) {
                core.moves.note(&claim.key, [claim.owner.tag()]);
                follow(core, claim, round.ballots(), asked);
                return Some(Ok(Attempt::Granted(Grant::new(held.tokens, held.valid_until))));
            }
            outcome = Outcome::Disagreed;
        }
        self.failed(round, outcome, asked).await
    }

    fn next(&self, outcome: &Outcome) -> Next {
        match outcome {
            Outcome::Split { .. } if self.unmoved >= UNMOVED => Next::End,
            Outcome::Split { .. } | Outcome::Disagreed if self.number == ROUNDS => Next::End,
            // A favourite keeps its votes, and asks for those that the others give up meanwhile.
            Outcome::Split { favourite: true } => Next::Keep,
            Outcome::Split { .. } | Outcome::Disagreed => Next::Again,
            _ => Next::End,
        }
    }

    async fn failed(
        &mut self,
        round: Round<N>,
        outcome: Outcome,
        asked: Asked<N, Reply>,
    ) -> Option<Result<Attempt, Error>> {
        let (core, claim) = (self.core, &self.request.claim);
        let rivals = round.rivals();
        self.unmoved = if rivals == self.rivals { self.unmoved + 1 } else { 1 };
        self.rivals = rivals;
        let (is_unmoved, next) = (self.unmoved >= UNMOVED, self.next(&outcome));
        // Before the votes are followed that are still to come: a ballot that is given up here is dead to them.
        let now = core.clock.now();
        let dead = self.wanted.give_up(next, now);
        follow(core, claim, round.ballots(), asked);
        let Some(dead) = dead else {
            if core.claims.held(claim, now).is_none() {
                return Some(refusal(&self.request, outcome, &round, is_unmoved));
            }
            // It failed to be had once more, and is still there.
            return Some(Err(match outcome {
                Outcome::Unable(error) => error,
                Outcome::TooLate => too_late(&self.request),
                _ => round.failure(),
            }));
        };
        self.give_up(dead, round.granted()).await;
        if next == Next::End {
            core.moves.note(&claim.key, self.rivals.iter().filter_map(|(_, holder)| *holder));
            return Some(refusal(&self.request, outcome, &round, is_unmoved));
        }
        if next == Next::Keep {
            self.kept = round.grants().to_vec();
        }
        self.pause(&outcome).await;
        None
    }

    /// Releases ballots. Returns when those nodes have answered that have granted theirs, because their votes are in
    /// the way of other claims, or have had time to.
    async fn give_up(&self, dead: Vec<Ballot>, granted: NodeSet) {
        let mut asked = Asked::new(self.core, self.core.settings.limit(self.request.ttl));
        for ballot in dead {
            let owed = Owed::new(self.core, &self.request.claim, ballot);
            if granted.contains(ballot.node) {
                asked.ask(ballot.node, Arc::clone(self.core).release(owed));
            }
        }
        while asked.answers().await.is_some() {}
    }

    async fn pause(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Split { favourite: true } => {
                return pause(&self.core.background, self.backoff.favourite()).await;
            }
            Outcome::Split { .. } => pause(&self.core.background, self.backoff.other()).await,
            _ => {}
        }
        self.floor = self.core.claims.floor(&self.request.claim.key, self.request.tokens.get());
    }
}

/// Has the votes that are still to come released, unless the claim is held or wanted when they come.
fn follow<N: QuorumNode>(
    core: &Arc<Core<N>>,
    claim: &Claim,
    ballots: &[Ballot],
    asked: Asked<N, Reply>,
) {
    let (core, claim, ballots) = (Arc::clone(core), claim.clone(), ballots.to_vec());
    asked.finish(move |node, reply| match reply {
        Ok(Reply::Voted(Vote::Granted(_))) | Err(_) => _ = core.heard(&claim, ballots[node]),
        Ok(Reply::Voted(_)) => core.claims.refused(&claim, ballots[node]),
        Ok(Reply::Confirmed(..)) => {}
    });
}

fn refusal<N: QuorumNode>(
    request: &Acquire,
    outcome: Outcome,
    round: &Round<N>,
    unmoved: bool,
) -> Result<Attempt, Error> {
    match outcome {
        Outcome::Unable(error) => Err(error),
        Outcome::TooLate => Err(too_late(request)),
        Outcome::Held => Ok(held_by_others(request, round)),
        Outcome::Split { .. } if unmoved => Ok(held_by_others(request, round)),
        _ => Ok(Attempt::Busy { retry_after: Some(SOON) }),
    }
}

fn held_by_others<N: QuorumNode>(request: &Acquire, round: &Round<N>) -> Attempt {
    let free_in = round.free_in();
    let retry_after = match request.claim.mode {
        Mode::Shared | Mode::Upgradable => {
            Some(free_in.map_or(LOOK_AGAIN, |time| time.min(LOOK_AGAIN)))
        }
        _ => free_in,
    };
    Attempt::Busy { retry_after }
}

fn too_late(request: &Acquire) -> Error {
    let ttl = request.ttl.duration();
    let message = format!("a lease of {ttl:?} was over before a quorum had granted it");
    Error::new(ErrorKind::Timeout, message)
}

/// How long a quorum takes to answer.
fn trip<N>(core: &Core<N>) -> Duration {
    let mut trips: Vec<_> = core.nodes.iter().filter_map(|node| node.trip()).collect();
    trips.sort_unstable();
    trips.get(core.quorum.needed() - 1).or(trips.last()).copied().unwrap_or_default()
}
