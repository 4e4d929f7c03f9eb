//! From one mode to another without letting go.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select};
use lock_core::{Acquire, Attempt, Claim, Error, ErrorKind, Mode, QuorumNode, Vote};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::acquire::{LOOK_AGAIN, SOON, hold, too_late};
use crate::asked::Asked;
use crate::background::pause;
use crate::claims::{Converting, Mark, Wanted};
use crate::inner::Core;
use crate::owed::Owed;
use crate::quorum::NodeSet;
use crate::round::{Outcome, Reply, Round};

/// How long to wait before a node is asked again that could not be reached.
const PAUSE: Duration = Duration::from_millis(200);

/// Converts a lease on all nodes. It is converted when a quorum of them has done so.
///
/// A node that misses it has the lease in the former mode until it is renewed, which converts it there, or
/// released. One that never had the lease, or has lost it, is asked to vote for it in the new mode: while the lease
/// is not over, it may take the place of one that is away.
pub(crate) async fn convert<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
    from: Mode,
) -> Result<Attempt, Error> {
    let mut conversion = Conversion::begin(core, request, from);
    let outcome = conversion.round.decide(&mut conversion.asked).await;
    let claim = &request.claim;
    tracing::debug!(target: "lock_redlock", key = %claim.key, ?from, ?outcome, "convert");
    if conversion.converting.is_over() {
        // It was released meanwhile.
        return Err(Error::new(
            ErrorKind::NotHeld,
            "the lease was given up while it was converted",
        ));
    }
    if let Outcome::Granted { tokens, valid_until, nodes } = outcome {
        let before = core.claims.end(&conversion.former);
        let also = before.map(|held| held.also).unwrap_or_default();
        let also = also.with(from).without(claim.mode);
        return Ok(Attempt::Granted(hold(core, claim, tokens, (valid_until, nodes), also)));
    }
    let steps = conversion.follow();
    if !steps.is_empty() {
        let limit = core.settings.limit(request.ttl);
        let steps = join_all(steps);
        let _in_time = select(pin!(steps), pin!(pause(&core.background, limit))).await;
    }
    match outcome {
        Outcome::Unable(error) => Err(error),
        Outcome::TooLate => Err(too_late(request)),
        Outcome::Disagreed => Ok(Attempt::Busy { retry_after: Some(SOON) }),
        _ => {
            // Nodes tell when this owner is alone.
            let free_in = conversion.round.free_in();
            let retry_after = free_in.map_or(LOOK_AGAIN, |time| time.min(LOOK_AGAIN));
            Ok(Attempt::Busy { retry_after: Some(retry_after) })
        }
    }
}

/// A conversion under way. Dropping it half way leaves nothing undone: what nodes have done or still do is
/// looked after as if it had failed.
struct Conversion<N: QuorumNode> {
    core: Arc<Core<N>>,
    request: Arc<Acquire>,
    former: Claim,
    round: Round<N>,
    asked: Asked<N, Reply>,
    /// While the answers are waited for here.
    wanted: Option<Wanted>,
    converting: Arc<Converting>,
}

impl<N: QuorumNode> Conversion<N> {
    fn begin(core: &Arc<Core<N>>, request: &Acquire, from: Mode) -> Self {
        let request = Arc::new(request.clone());
        let claim = &request.claim;
        let former = claim.clone().in_mode(from);
        let now = core.clock.now();
        let before = core.claims.held(&former, now);
        // What becomes weaker keeps its tokens.
        let known = core.claims.held(claim, now).or(before.filter(|_| !is_upgrade(&request)));
        let known = known.map(|held| (held.tokens, held.valid_until));
        let wanted = core.claims.want(claim);
        let converting = core.claims.convert(&former);
        // Whichever of the two is released, some nodes may have the other.
        core.claims.may_become(&former, claim.mode);
        let floor = core.claims.floor(&claim.key, request.tokens.get());
        let (round, asked) = Round::begin(core, &request, floor, known, true);
        Self {
            core: Arc::clone(core),
            former,
            round,
            asked,
            wanted: Some(wanted),
            converting: Arc::new(converting),
            request,
        }
    }

    /// Has what nodes have done, or will do, taken back unless the claim is held or wanted then. Says what is to
    /// be heard of those that have answered already.
    ///
    /// What became weaker cannot be taken back. It stays until the lease is renewed or released. What was granted
    /// where there was nothing before is released.
    fn follow(&mut self) -> Vec<oneshot::Receiver<()>> {
        let Some(wanted) = self.wanted.take() else { return Vec::new() };
        drop(wanted);
        let nothing = Asked::new(&self.core, Duration::ZERO);
        let asked = std::mem::replace(&mut self.asked, nothing);
        let back = Back {
            core: Arc::clone(&self.core),
            former: self.former.clone(),
            request: Arc::clone(&self.request),
            converting: Arc::clone(&self.converting),
            planted: self.round.planted(),
        };
        let may_hold = self.round.may_hold();
        let steps = may_hold.iter().filter_map(|node| back.step(node)).collect();
        asked.finish(move |node, reply| {
            let is_refused =
                matches!(reply, Ok(Reply::Voted(Vote::Busy { .. } | Vote::Abstains(_))));
            if !is_refused {
                drop(back.step(node));
            }
        });
        steps
    }
}

impl<N: QuorumNode> Drop for Conversion<N> {
    fn drop(&mut self) {
        drop(self.follow());
    }
}

fn is_upgrade(request: &Acquire) -> bool {
    request.claim.mode == Mode::Exclusive
}

/// The way back, until all nodes have answered.
struct Back<N> {
    core: Arc<Core<N>>,
    former: Claim,
    request: Arc<Acquire>,
    converting: Arc<Converting>,
    planted: NodeSet,
}

impl<N: QuorumNode> Back<N> {
    /// Makes a node's lease upgradable again, unless the upgraded claim is held or wanted, or releases it there if
    /// the former is over. Hear here when it is done.
    fn step(&self, node: usize) -> Option<oneshot::Receiver<()>> {
        let Self { core, former, request, converting, planted } = self;
        if planted.contains(node) {
            let mark = core.claims.undo(&request.claim, node, core.clock.now())?;
            drop(Owed::marked(core, mark));
            return None;
        }
        let is_over = converting.is_over();
        if !is_upgrade(request) && !is_over {
            return None;
        }
        let mark = core.claims.take_back(&request.claim, node, core.clock.now())?;
        if is_over {
            drop(Owed::marked(core, mark));
            return None;
        }
        let back = Acquire::new(former.clone(), request.ttl).converting(request.claim.mode);
        let (done, heard) = oneshot::channel();
        let going = go_back(Arc::clone(core), node, back, mark, Arc::clone(converting), done);
        core.background.spawn(going);
        Some(heard)
    }
}

/// Repeats it until the node has answered, or the lease is over in any case.
async fn go_back<N: QuorumNode>(
    core: Arc<Core<N>>,
    node: usize,
    back: Acquire,
    mark: Mark,
    converting: Arc<Converting>,
    done: oneshot::Sender<()>,
) {
    let floor = core.claims.floor(&back.claim.key, 1);
    let until = core.clock.now() + back.ttl.duration();
    let back = Arc::new(back);
    let is_given_up = || {
        let is_wanted = core.claims.is_wanted(mark.claim(), core.clock.now());
        converting.is_over() && !is_wanted
    };
    while core.clock.now() < until && core.background.is_open() && !is_given_up() {
        let is_wanted = || !is_given_up();
        let vote = Arc::clone(&core).vote_if(node, Arc::clone(&back), floor, is_wanted);
        match timeout(core.settings.patience(), vote).await {
            Ok(Ok(_)) => break,
            Ok(Err(error)) if !error.is_retryable() => break,
            _ => {
                mark.stick();
                sleep(PAUSE).await;
            }
        }
    }
    if is_given_up() {
        // It was released meanwhile, and may have been overtaken by this.
        let former = core.claims.undo(&back.claim, node, core.clock.now());
        former.into_iter().chain([mark]).for_each(|mark| drop(Owed::marked(&core, mark)));
    } else {
        drop(mark);
    }
    // Nobody may be listening any more.
    let _heard = done.send(());
}
