//! The status of the nodes.

use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, QuorumNode, Server, Standing};

use crate::inner::Core;

/// One node, as this process sees it.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_redlock::{Redlock, Voting};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let nodes = [MemoryBackend::new(), MemoryBackend::new(), MemoryBackend::new()];
/// let quorum = Redlock::builder().nodes(nodes).build().await?;
/// quorum.init().await?; // These nodes are new.
/// for node in quorum.status().await {
///     assert_eq!(node.voting, Voting::Yes, "{}", node.name);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The name of the node.
    pub name: String,
    /// Which server the node is, if the node answered and can tell.
    pub server: Option<Server>,
    /// Whether the node votes.
    pub voting: Voting,
    /// How long the node takes to answer, as a smoothed average. `None` before the first answer.
    pub round_trip: Option<Duration>,
    /// How many releases the node has missed. The quorum repeats them in the background.
    pub missed_releases: usize,
    /// The last error of the node, unless the node has answered since.
    pub last_error: Option<Error>,
}

/// Whether a node votes.
///
/// The [example](NodeStatus#examples) of a status shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Voting {
    /// The node votes.
    Yes,
    /// The node votes, but cannot tell whether it has forgotten leases.
    Unguarded,
    /// The node may have forgotten leases, and is in quarantine.
    KeptOut {
        /// How long this process waits at least before it vouches for the node.
        at_least: Duration,
    },
    /// The node is a member of a quorum of other nodes, and votes for no client of this quorum. See
    /// [`Redlock::replace`](crate::Redlock::replace).
    Elsewhere,
    /// The node could not be asked, or is the same server as another node.
    No,
}

/// Asks every node for its status.
pub(crate) async fn status<N: QuorumNode>(core: &Arc<Core<N>>) -> Vec<NodeStatus> {
    let mut asked = core.ask(core.quorum.all(), |core, node| async move { core.meet(node).await });
    let mut standings = vec![None; core.quorum.nodes()];
    for (node, standing) in asked.all().await {
        standings[node] = Some(standing);
    }
    let said = asked.said();
    let status = |(node, standing): (usize, Option<Option<Arc<Standing>>>)| {
        let it = &core.nodes[node];
        let server = standing.iter().flatten().next().map(|standing| standing.server.clone());
        let voting = match (&standing, core.quarantined_for(node)) {
            (None, _) => Voting::No,
            (Some(None), _) => Voting::Unguarded,
            (Some(Some(standing)), _) if !core.is_member(standing) => Voting::Elsewhere,
            (Some(Some(_)), Some(at_least)) => Voting::KeptOut { at_least },
            (Some(Some(_)), None) => Voting::Yes,
        };
        // One lock at a time: see `Node::agenda`.
        let missed_releases = it.agenda.lock().releases();
        let round_trip = it.pace.lock().trip();
        NodeStatus {
            name: it.name.to_string(),
            server,
            voting,
            round_trip,
            missed_releases,
            last_error: said[node].clone().or_else(|| it.state(|state| state.trouble.clone())),
        }
    };
    standings.into_iter().enumerate().map(status).collect()
}

/// Vouches for every node.
pub(crate) async fn init<N: QuorumNode>(core: &Arc<Core<N>>) -> Result<(), Error> {
    let nodes = core.quorum.nodes();
    let mut asked = core.ask(core.quorum.all(), |core, node| core.vouch_now(node));
    let vouched = asked.all().await.len();
    if vouched == nodes {
        return Ok(());
    }
    Err(core.failure(nodes, "are vouched for", vouched, &asked.said()))
}
