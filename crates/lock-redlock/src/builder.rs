//! How a quorum is set up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lock_core::{Error, ErrorKind, QuorumNode, Ttl};
use tokio::runtime::Handle;

use crate::Redlock;
use crate::asked::late;
use crate::background::Background;
use crate::inner::{Core, Settings};
use crate::moves::Moves;
use crate::node::Node;
use crate::quorum::Quorum;
use crate::register::Register;

/// Sets up a [`Redlock`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use lock_core::memory::MemoryBackend;
/// use lock_redlock::Redlock;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let quorum = Redlock::builder()
///     .node("frankfurt", MemoryBackend::new())
///     .node("dublin", MemoryBackend::new())
///     .node("milan", MemoryBackend::new())
///     .node_timeout(Duration::from_millis(200))
///     .build()
///     .await?;
/// assert_eq!(quorum.status().await[1].name, "dublin");
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct Builder<N> {
    nodes: Vec<(Box<str>, N)>,
    node_timeout: Option<Duration>,
    max_ttl: Option<Ttl>,
    quarantine: bool,
    any_number: bool,
    runtime: Option<Handle>,
}

impl<N: QuorumNode> Builder<N> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            node_timeout: None,
            max_ttl: None,
            quarantine: true,
            any_number: false,
            runtime: None,
        }
    }

    /// Adds a node, with a name for errors and metrics.
    ///
    /// All clients of a lock must use the same nodes, in whatever order.
    pub fn node(mut self, name: impl Into<String>, node: N) -> Self {
        self.nodes.push((name.into().into(), node));
        self
    }

    /// Adds nodes that are named by their numbers, from 1.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        for node in nodes {
            let number = self.nodes.len() + 1;
            self = self.node(number.to_string(), node);
        }
        self
    }

    /// How long a node may take to answer: unless it is said, a tenth of the lease, but no less than 20 ms
    /// and no more than 1 s, and 1 s where there is no lease.
    ///
    /// A node that takes longer counts as one that does not answer. The others are not held up by it: this is
    /// how long a request takes at most if there are too few of them.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// The longest lease there will be: 60 s unless it is said. A longer one is refused.
    ///
    /// For so long, and a little more, a node that may have forgotten leases is kept out. All clients of the
    /// nodes must say the same; who says less vouches for nodes too early.
    pub fn max_ttl(mut self, max_ttl: Ttl) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// Lets nodes vote that may have forgotten leases, as the published algorithm does.
    ///
    /// When a node restarts without its data, or with old data, two clients can then hold one lock.
    pub fn without_quarantine(mut self) -> Self {
        self.quarantine = false;
        self
    }

    /// Takes any number of nodes up to 31, which is otherwise refused unless it is odd and more than one.
    ///
    /// One node survives no failure; it is of use to an app that may have more elsewhere. Of an even number no
    /// more may fail than of one node fewer.
    pub fn allow_any_number(mut self) -> Self {
        self.any_number = true;
        self
    }

    /// Runs what no caller waits for on this runtime, which must have time enabled, instead of a thread of
    /// its own.
    ///
    /// A runtime that is blocked, or ends, gives up no votes and vouches for no node.
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes the acquaintance of the nodes. A majority is enough; the others are made known to when they
    /// answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] for a number of nodes that makes no quorum, two nodes with one name or with
    /// different clocks, and nodes that turn out to be one server; what the nodes said, if too few answered;
    /// [`ErrorKind::Other`] if there is no thread to be had.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind, but that quarantines of nodes may have begun.
    pub async fn build(self) -> Result<Redlock<N>, Error> {
        self.check()?;
        let quorum = Quorum::of(self.nodes.len());
        let settings = Settings {
            node_timeout: self.node_timeout,
            max_ttl: self.max_ttl.map_or_else(|| Ttl::new(Duration::from_secs(60)), Ok)?,
            quarantine: self.quarantine,
        };
        let clock = self.nodes[0].1.clock();
        let (background, open) = Background::start(self.runtime)?;
        let nodes = self.nodes.into_iter().map(|(name, backend)| Node::new(name, backend));
        let core = Arc::new(Core {
            nodes: nodes.collect(),
            quorum,
            settings,
            clock,
            claims: Arc::default(),
            moves: Moves::default(),
            register: Register::new(quorum.nodes()),
            background,
        });
        let redlock = Redlock::new(core, open);
        meet(redlock.core()).await?;
        Ok(redlock)
    }

    fn check(&self) -> Result<(), Error> {
        let count = self.nodes.len();
        if count == 0 || count > Quorum::MAX {
            return Err(invalid(format!("a quorum has 1 to {} nodes, not {count}", Quorum::MAX)));
        }
        if count == 1 && !self.any_number {
            return Err(invalid(
                "one node is no quorum: use it without one, or say Builder::allow_any_number"
                    .into(),
            ));
        }
        if count.is_multiple_of(2) && !self.any_number {
            let (needed, fewer) = (Quorum::of(count).needed(), count - 1);
            return Err(invalid(format!(
                "of {count} nodes {needed} are needed, so that no more may fail than of {fewer}: use an odd \
                 number, or say Builder::allow_any_number"
            )));
        }
        let clock = self.nodes[0].1.clock();
        for (index, (name, node)) in self.nodes.iter().enumerate() {
            if self.nodes[..index].iter().any(|(other, _)| other == name) {
                return Err(invalid(format!("there are two nodes with the name {name}")));
            }
            if node.clock() != clock {
                return Err(invalid(format!("the node {name} has another clock than the first")));
            }
        }
        Ok(())
    }
}

/// Learns who the nodes are.
async fn meet<N: QuorumNode>(core: &Arc<Core<N>>) -> Result<(), Error> {
    let nodes = core.quorum.nodes();
    let limit = core.settings.patience();
    let mut asked =
        core.ask(0..nodes, limit, |core, node| async move { core.meet(node).await.map(drop) });
    let mut said = vec![Some(late(limit)); nodes];
    while let Some(batch) = asked.answers().await {
        for (node, answer) in batch {
            said[node] = answer.err();
        }
    }
    let wrong = |error: &&Error| error.kind() == ErrorKind::InvalidConfig;
    if let Some(error) = said.iter().flatten().find(wrong) {
        return Err(error.clone());
    }
    let met = said.iter().filter(|said| said.is_none()).count();
    if met < core.quorum.needed() {
        return Err(core.failure("answered", met, &said));
    }
    Ok(())
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

impl<N> fmt::Debug for Builder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.nodes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Builder").field("nodes", &names).finish_non_exhaustive()
    }
}
