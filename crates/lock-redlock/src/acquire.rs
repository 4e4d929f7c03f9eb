//! Asking for a lease until it is granted, somebody else has it, or too few nodes answer.

use std::sync::Arc;
use std::time::Duration;

use lock_core::TokenRange;
use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, Grant, Instant, Mode, QuorumNode};

use crate::asked::Asked;
use crate::background::pause;
use crate::backoff::Backoff;
use crate::claims::{Held, Mark, Next};
use crate::inner::Core;
use crate::owed::Owed;
use crate::quorum::NodeSet;
use crate::round::{Outcome, Reply, Round, may_hold};

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
/// same claim at once, the last to end gives up the votes, if all have failed: the others might have counted them.
pub(crate) async fn acquire<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
) -> Result<Attempt, Error> {
    let request = Arc::new(request.clone());
    let claim = &request.claim;
    let floor = || core.claims.floor(&claim.key, request.tokens.get());
    let mut wanted = core.claims.want(claim);
    let mut backoff = Backoff::new(trip(core), &claim.owner);
    let mut present_floor = floor();
    let (mut number, mut rivals, mut unmoved) = (0, Vec::new(), 0);
    loop {
        number += 1;
        let known = known(core, claim);
        let (mut round, mut asked) = Round::begin(core, &request, present_floor, known);
        let mut outcome = round.decide(&mut asked).await;
        if let Outcome::Granted { tokens, .. } = outcome
            && core.claims.last_of(claim).is_some_and(|last| tokens.last() < last)
        {
            // Its own lease had run out, and some nodes have answered with what they gave it before they
            // confirmed more.
            outcome = Outcome::Disagreed;
        }
        tracing::debug!(target: "lock_redlock", key = %claim.key, round = number, ?outcome);
        if let Some(token) = round.highest() {
            core.claims.raise(&claim.key, token);
        }
        if let Outcome::Granted { tokens, valid_until, nodes } = outcome {
            let grant = hold(core, claim, tokens, (valid_until, nodes));
            core.moves.note(&claim.key, [claim.owner.tag()]);
            follow(core, claim, asked);
            return Ok(Attempt::Granted(grant));
        }
        unmoved = if round.rivals() == rivals { unmoved + 1 } else { 1 };
        rivals = round.rivals();
        let goes_on = match outcome {
            Outcome::Split { .. } => number < ROUNDS && unmoved < UNMOVED,
            Outcome::Disagreed => number < ROUNDS,
            _ => false,
        };
        let next = match outcome {
            _ if !goes_on => Next::End,
            // A favourite asks for its votes again with those that the others give up meanwhile.
            Outcome::Split { favourite: true } => Next::Keep,
            _ => Next::Again,
        };
        let (granted, now) = (round.granted(), core.clock.now());
        let unclear = round.may_hold().without(granted);
        // Before anybody follows the votes that are still to come: while the claim is wanted they are left where
        // they are, also by those who follow on another thread.
        let marks = wanted.give_up(granted, unclear, next, now);
        follow(core, claim, asked);
        let Some(marks) = marks else {
            if core.claims.held(claim, now).is_none() {
                return refusal(&request, outcome, &round, unmoved >= UNMOVED);
            }
            // It failed to be had once more, and is still there.
            return Err(match outcome {
                Outcome::Unable(error) => error,
                Outcome::TooLate => too_late(&request),
                _ => round.failure(),
            });
        };
        if !goes_on {
            core.moves.note(&claim.key, rivals.iter().filter_map(|(_, holder)| *holder));
        }
        give_up(core, &request, marks, granted).await;
        match outcome {
            Outcome::Split { favourite: true } if goes_on => {
                pause(&core.background, backoff.favourite()).await;
            }
            Outcome::Split { .. } if goes_on => {
                pause(&core.background, backoff.other()).await;
                present_floor = floor();
            }
            Outcome::Disagreed if goes_on => present_floor = floor(),
            outcome => return refusal(&request, outcome, &round, unmoved >= UNMOVED),
        }
    }
}

/// The tokens that a claim has already, and until when they are its own.
fn known<N>(core: &Core<N>, claim: &Claim) -> Option<(TokenRange, Instant)> {
    let held = core.claims.held(claim, core.clock.now());
    held.map(|held| (held.tokens, held.valid_until))
}

/// Notes the lease that was granted, until when, and by which nodes. What it had before, it has on.
fn hold<N>(core: &Core<N>, claim: &Claim, tokens: TokenRange, until: (Instant, NodeSet)) -> Grant {
    let now = core.clock.now();
    let longer = core.claims.held(claim, now).filter(|before| before.valid_until > until.0);
    let (valid_until, nodes) = longer.map_or(until, |before| (before.valid_until, before.nodes));
    core.claims.hold(claim, Held { tokens, valid_until, nodes }, now);
    Grant::new(tokens, valid_until)
}

/// Has the votes that are still to come undone, unless the claim is held when they come.
fn follow<N: QuorumNode>(core: &Arc<Core<N>>, claim: &Claim, asked: Asked<N, Reply>) {
    let (core, claim) = (Arc::clone(core), claim.clone());
    asked.finish(move |node, reply| {
        if may_hold(&reply)
            && let Some(mark) = core.claims.undo(&claim, node, core.clock.now())
        {
            drop(Owed::marked(&core, mark));
        }
    });
}

/// Releases the votes of a round. Returns when those nodes have answered that have granted it, because their
/// votes are in others' way, or have had time to.
async fn give_up<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
    marks: Vec<Mark>,
    granted: NodeSet,
) {
    let mut asked = Asked::new(core, core.settings.limit(request.ttl));
    for mark in marks {
        let (node, owed) = (mark.node(), Owed::marked(core, mark));
        if granted.contains(node) {
            asked.ask(node, Arc::clone(core).release(owed));
        }
    }
    while asked.answers().await.is_some() {}
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
