//! Asks for a lease until a quorum grants it, another claim has it, or too few nodes answer.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Error, Grant, Instant, Key, QuorumNode};
use tokio::sync::oneshot;

use crate::agenda::Duty;
use crate::background::{pause, within};
use crate::ballot::Ballot;
use crate::catching_up::Owed;
use crate::claims::{Asker, Begun};
use crate::first::{self, Order};
use crate::inner::Core;
use crate::quorum::NodeSet;
use crate::release::give_up;
use crate::round::Round;
use crate::rounds::{Outcome, Rounds};

/// How long a request waits at most for the next turn of another client.
const TURN: Duration = Duration::from_millis(5);

/// Asks nodes for a new lease, or for the present lease of this owner.
///
/// A request has several rounds only if votes are split, or the nodes cannot agree on tokens. There is one request for
/// a claim at a time. The caller polls the request, so that no other thread wakes for it. A repeated request waits for
/// the outcome of the first. If the first caller drops its request, or its runtime stands still, the repeated request
/// begins anew.
pub(crate) async fn acquire<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
) -> Result<AcquireOutcome, Error> {
    loop {
        match core.claims.begin(request, core.clock.now()) {
            Begun::First(asker, lapsed) => {
                let asking = Asking::new(core, request, asker);
                // The ballots of an ended lease are in the way of new ballots.
                let nodes = lapsed.iter().map(|ballot| ballot.node).collect();
                give_up(core, &request.claim, request.ttl, (lapsed, nodes)).await;
                give_way(core, &request.claim.key).await;
                return asking.run().await;
            }
            Begun::Joined(outcome) => {
                if let Some(outcome) = joined(core, request, outcome).await {
                    return outcome;
                }
            }
        }
    }
}

/// Waits while other clients are due a turn, unless no client takes a turn. See [`crate::turns`].
async fn give_way<N: QuorumNode>(core: &Core<N>, key: &Key) {
    while let Some(turned) = core.watched.gives_way(key) {
        let mut turn = pin!(turned.notified());
        turn.as_mut().enable();
        // There may have been a turn in between.
        if core.watched.gives_way(key).is_none() {
            return;
        }
        if within(&core.background, core.clock, TURN, turn).await.is_none() {
            return;
        }
    }
}

/// The outcome of the request under way. `None` if this request has to ask for itself.
async fn joined<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
    outcome: oneshot::Receiver<Result<(Acquire, AcquireOutcome), Error>>,
) -> Option<Result<AcquireOutcome, Error>> {
    let limit = core.longest(core.settings.patience());
    match within(&core.background, core.clock, 2 * limit, outcome).await {
        Some(Ok(Err(error))) => Some(Err(error)),
        Some(Ok(Ok((first, attempt)))) => {
            let is_same = (first.ttl, first.tokens) == (request.ttl, request.tokens);
            (is_same || !matches!(attempt, AcquireOutcome::Granted(_))).then_some(Ok(attempt))
        }
        Some(Err(_dropped)) => None,
        None => {
            for ballot in core.claims.overtake(&request.claim, core.clock.now()) {
                drop(Owed::new(core, &request.claim, ballot, Duty::Vote));
            }
            None
        }
    }
}

/// One request, from round to round.
struct Asking<'a, N: QuorumNode> {
    core: &'a Arc<Core<N>>,
    request: Arc<Acquire>,
    asker: Asker,
    rounds: Rounds,
    /// The round under way, or the last round if its votes stay.
    round: Option<Round<N>>,
}

impl<'a, N: QuorumNode> Asking<'a, N> {
    fn new(core: &'a Arc<Core<N>>, request: &Acquire, asker: Asker) -> Self {
        let end = core.clock.now() + core.longest(core.settings.patience());
        let rounds = Rounds::new(request.claim.owner, core.trip(), end);
        Self { core, request: Arc::new(request.clone()), asker, rounds, round: None }
    }

    async fn run(mut self) -> Result<AcquireOutcome, Error> {
        loop {
            if let Some(ended) = self.ask().await {
                self.asker.end(&self.request, &ended);
                return ended;
            }
        }
    }

    /// Asks nodes once. `None` if another round is needed.
    async fn ask(&mut self) -> Option<Result<AcquireOutcome, Error>> {
        let (core, claim) = (self.core, &self.request.claim);
        let owner = match self.asker.attempt(core.clock.now()) {
            Ok(owner) => owner,
            Err(error) => return Some(Err(error)),
        };
        let order = self.order();
        let round = match self.round.take() {
            Some(mut round) => {
                round.again();
                round
            }
            None => Round::begin(core, &self.request, owner, order.unwrap_or_default()),
        };
        let round = self.round.insert(round);
        let outcome = round.decide().await;
        let number = self.rounds.number;
        tracing::debug!(target: "lock_redlock", key = %claim.key, round = number, ?outcome);
        let Outcome::Granted(held) = outcome else { return self.failed(outcome).await };
        let Some(held) = self.asker.win(owner, held, core.clock.now()) else {
            return self.failed(Outcome::Disagreed).await;
        };
        core.watched.win(&claim.key);
        if order.is_some() {
            core.plant_soon(claim);
        }
        Some(Ok(AcquireOutcome::Granted(Grant::new(held.tokens, held.valid_until))))
    }

    /// Which nodes to ask first: a majority. If it answers soon, the request asks no other node. `None` means all
    /// nodes at once: after the first round, if too many nodes are missing, and now and then to find out whether a
    /// missing node is back.
    ///
    /// While this process waits for the key, other clients probably want the key as well. Then each client asks one
    /// node first, and only the client with the vote of that node asks the others. So a refused client has sent one
    /// request, and clients do not split the votes. That takes one more round trip, which is worth it if the nodes are
    /// near. A client whose turn it is has no rival, and asks a majority at once.
    fn order(&self) -> Option<Order> {
        let (core, key) = (self.core, &self.request.claim.key);
        let now = core.clock.now();
        let trip = self.rounds.trip;
        let is_first =
            self.rounds.number == 1 && core.claims.held(&self.request.claim, now).is_none();
        if !is_first || trip.is_zero() {
            return None;
        }
        let soon = first::head_start(trip, core.settings.limit(self.request.ttl));
        let all = core.quorum.all();
        let missing: NodeSet =
            all.iter().filter(|&node| core.nodes[node].is_missing(now, soon)).collect();
        let is_back = |node: usize| core.nodes[node].pace.lock().is_due(now);
        if missing.iter().any(is_back) {
            return None;
        }
        let names = core.nodes.iter().map(|node| node.hash);
        let is_contended =
            trip < first::SHORTEST && core.watched.has(key) && !core.watched.is_next(key);
        first::order(core.quorum, names, missing, key, is_contended, now + soon)
    }

    /// Another round may follow. See [`Rounds::follow`].
    async fn failed(&mut self, outcome: Outcome) -> Option<Result<AcquireOutcome, Error>> {
        let (core, claim, now) = (self.core, &self.request.claim, self.core.clock.now());
        let round = self.round.take()?;
        let time = self.rounds.follow(&outcome, round.rivals(), now);
        if core.claims.held(claim, now).is_some() {
            // The request has failed, but the claim still has its lease.
            return Some(Err(match outcome {
                Outcome::Unable(error) => error,
                _ => round.failure(),
            }));
        }
        if time.is_some() && matches!(outcome, Outcome::Split { favourite: true }) {
            // A favourite keeps its votes, and asks for the votes that the others give up
            // meanwhile.
            self.round = Some(round);
        } else {
            let granted = round.granted();
            let dead = dead(&self.asker, Some(&round), now);
            let (mode, free_in) = (claim.mode, round.free_in());
            let refusal = time.is_none().then(|| self.rounds.refusal(outcome, mode, free_in));
            drop(round);
            give_up(core, claim, self.request.ttl, (dead, granted)).await;
            if refusal.is_some() {
                return refusal;
            }
        }
        if let Some(time) = time.filter(|time| !time.is_zero()) {
            pause(&core.background, core.clock, time).await;
        }
        None
    }
}

/// Gives up the ballots, if the caller has dropped the request.
impl<N: QuorumNode> Drop for Asking<'_, N> {
    fn drop(&mut self) {
        for ballot in dead(&self.asker, self.round.as_ref(), self.core.clock.now()) {
            drop(Owed::new(self.core, &self.request.claim, ballot, Duty::Release));
        }
    }
}

/// Gives up the ballots, and returns those to release. If a vote is still to come, it is released when it has come.
fn dead<N: QuorumNode>(asker: &Asker, round: Option<&Round<N>>, now: Instant) -> Vec<Ballot> {
    let open = round.map(Round::open).unwrap_or_default();
    let mut dead = asker.give_up(now);
    dead.retain(|ballot| !open.contains(ballot.node));
    dead
}
