//! How it stands with the nodes.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, QuorumNode, Server};

use crate::asked::late;
use crate::inner::Core;
use crate::register::Identity;

/// One node, as this process sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The name that it was given.
    pub name: String,
    /// Which server it is, if it could be asked and can tell.
    pub server: Option<Server>,
    /// Whether it votes.
    pub voting: Voting,
    /// How long it takes to answer, smoothed; `None` before the first answer.
    pub round_trip: Option<Duration>,
    /// How many releases it has missed that are repeated in the background.
    pub missed_releases: usize,
    /// What it last said instead of an answer, unless it has answered since.
    pub last_error: Option<Error>,
}

/// Whether a node votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Voting {
    /// It does.
    Yes,
    /// It does, but cannot tell whether it has forgotten leases.
    Unguarded,
    /// It may have forgotten leases, and is kept out.
    KeptOut {
        /// After what time this process vouches for it.
        at_least: Duration,
    },
    /// It could not be asked, or is the same server as another.
    No,
}

/// Asks every node how it stands with it.
pub(crate) async fn status<N: QuorumNode>(core: &Arc<Core<N>>) -> Vec<NodeStatus> {
    let nodes = core.quorum.nodes();
    let mut asked = core
        .ask(0..nodes, core.settings.patience(), |core, node| async move { core.meet(node).await });
    let mut said = vec![Err(late(asked.limit())); nodes];
    while let Some(batch) = asked.answers().await {
        for (node, standing) in batch {
            said[node] = standing;
        }
    }
    let status = |(node, standing): (usize, Result<_, Error>)| {
        let it = &core.nodes[node];
        let server = match core.identity(node) {
            Some(Identity::Known(server)) => Some(server),
            _ => None,
        };
        let voting = match (&standing, core.kept_out_for(node)) {
            (Err(_), _) => Voting::No,
            (Ok(None), _) => Voting::Unguarded,
            (Ok(Some(_)), Some(at_least)) => Voting::KeptOut { at_least },
            (Ok(Some(_)), None) => Voting::Yes,
        };
        NodeStatus {
            name: it.name.to_string(),
            server,
            voting,
            round_trip: it.trip(),
            missed_releases: it.debts.len(),
            last_error: standing.err().or_else(|| it.state().trouble.clone()),
        }
    };
    said.into_iter().enumerate().map(status).collect()
}

/// Vouches for every node.
pub(crate) async fn init<N: QuorumNode>(core: &Arc<Core<N>>) -> Result<(), Error> {
    let nodes = core.quorum.nodes();
    let limit = core.settings.patience();
    let mut asked = core.ask(0..nodes, limit, |core, node| core.vouch_now(node));
    let mut said = vec![Some(late(limit)); nodes];
    while let Some(batch) = asked.answers().await {
        for (node, answer) in batch {
            said[node] = answer.err();
        }
    }
    if said.iter().all(Option::is_none) {
        return Ok(());
    }
    let vouched = said.iter().filter(|said| said.is_none()).count();
    Err(core.failure_of_all("are vouched for", vouched, &said))
}
