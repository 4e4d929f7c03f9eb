//! From one mode to another without letting go.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, select};
use lock_core::{Acquire, Attempt, Claim, Error, Mode, QuorumNode, Vote};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::acquire::{LOOK_AGAIN, SOON, follow, hold, too_late};
use crate::asked::Asked;
use crate::background::pause;
use crate::claims::{Converting, Held, Mark};
use crate::inner::Core;
use crate::round::{Outcome, Reply, Round};

/// How long to wait before a node is asked again that could not be reached.
const PAUSE: Duration = Duration::from_millis(200);

/// Converts a lease on all nodes. It is converted when a quorum of them has done so.
///
/// A node that misses it has the lease in the former mode until it is renewed, which converts it there, or
/// released.
pub(crate) async fn convert<N: QuorumNode>(
    core: &Arc<Core<N>>,
    request: &Acquire,
    from: Mode,
) -> Result<Attempt, Error> {
    let request = Arc::new(request.clone());
    let claim = &request.claim;
    let former = claim.clone().in_mode(from);
    let is_upgrade = claim.mode == Mode::Exclusive;
    let now = core.clock.now();
    let before = core.claims.held(&former, now);
    // What becomes weaker keeps its tokens.
    let known = core.claims.held(claim, now).or(before.filter(|_| !is_upgrade));
    let known = known.map(|held| (held.tokens, held.valid_until));
    let wanted = core.claims.want(claim);
    let converting = core.claims.convert(&former);
    let floor = core.claims.floor(&claim.key, request.tokens.get());
    let (outcome, round, asked) = Round::hold(core, &request, floor, known, true).await;
    tracing::debug!(target: "lock_redlock", key = %claim.key, ?from, ?outcome, "convert");
    if let Outcome::Granted { tokens, valid_until } = outcome {
        core.claims.end(&former);
        let grant = hold(core, claim, tokens, valid_until, Some(from));
        if is_upgrade {
            follow_upgrade(core, &former, &request, converting, asked);
        } else {
            follow(core, claim, asked);
        }
        return Ok(Attempt::Granted(grant));
    }
    if let Some(before) = before {
        // Whichever of the two is released, some nodes may have the other.
        core.claims.hold(&former, Held { also: Some(claim.mode), ..before }, now);
    }
    if is_upgrade {
        drop(wanted);
        let steps =
            round.may_hold().iter().filter_map(|node| step_back(core, &former, &request, node));
        let limit = core.settings.limit(request.ttl);
        let steps = join_all(steps.collect::<Vec<_>>());
        let _in_time = select(pin!(steps), pin!(pause(&core.background, limit))).await;
        follow_upgrade(core, &former, &request, converting, asked);
    } else {
        if let Some(before) = before {
            let over = Held { also: Some(from), valid_until: now, ..before };
            core.claims.hold(claim, over, now);
        }
        asked.finish(move |_, _| _ = &converting);
    }
    match outcome {
        Outcome::Unable(error) => Err(error),
        Outcome::TooLate => Err(too_late(&request)),
        Outcome::Disagreed => Ok(Attempt::Busy { retry_after: Some(SOON) }),
        _ => {
            // Nodes tell when this owner is alone.
            let retry_after = round.free_in().map_or(LOOK_AGAIN, |time| time.min(LOOK_AGAIN));
            Ok(Attempt::Busy { retry_after: Some(retry_after) })
        }
    }
}

/// Has the upgrades that are still to come taken back, unless the claim is held when they come.
fn follow_upgrade<N: QuorumNode>(
    core: &Arc<Core<N>>,
    former: &Claim,
    request: &Arc<Acquire>,
    converting: Converting,
    asked: Asked<N, Reply>,
) {
    let (core, former, request) = (Arc::clone(core), former.clone(), Arc::clone(request));
    asked.finish(move |node, reply| {
        let _until_all_have_answered = &converting;
        let is_refused = matches!(reply, Ok(Reply::Voted(Vote::Busy { .. } | Vote::Abstains(_))));
        if !is_refused {
            drop(step_back(&core, &former, &request, node));
        }
    });
}

/// Makes a node's lease upgradable again, unless the upgraded claim is held or wanted. Repeats it until the
/// node has answered, or the lease is over in any case. Hear here when it is done.
fn step_back<N: QuorumNode>(
    core: &Arc<Core<N>>,
    former: &Claim,
    request: &Acquire,
    node: usize,
) -> Option<oneshot::Receiver<()>> {
    let mark = core.claims.undo(&request.claim, node, core.clock.now())?;
    let back = Acquire::new(former.clone(), request.ttl).converting(request.claim.mode);
    let (done, heard) = oneshot::channel();
    core.background.spawn(go_back(Arc::clone(core), node, back, mark, done));
    Some(heard)
}

async fn go_back<N: QuorumNode>(
    core: Arc<Core<N>>,
    node: usize,
    back: Acquire,
    mark: Mark,
    done: oneshot::Sender<()>,
) {
    let floor = core.claims.floor(&back.claim.key, 1);
    let until = core.clock.now() + back.ttl.duration();
    let back = Arc::new(back);
    while core.clock.now() < until && core.background.is_open() {
        let vote = Arc::clone(&core).vote(node, Arc::clone(&back), floor);
        match timeout(core.settings.patience(), vote).await {
            Ok(Ok(_)) => break,
            Ok(Err(error)) if !error.is_retryable() => break,
            _ => {
                mark.stick();
                sleep(PAUSE).await;
            }
        }
    }
    drop(mark);
    // Nobody may be listening any more.
    let _heard = done.send(());
}
