//! The builder of a quorum.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use lock_core::observer::{Observer, Observers};
use lock_core::{Clock, Ending, Error, ErrorKind, Membership, QuorumNode, Terms, Ttl};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::Redlock;
use crate::background::Background;
use crate::claims::Claims;
use crate::inner::{Core, Settings, invalid};
use crate::later;
use crate::node::Node;
use crate::presence::Presence;
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
    timeouts: Vec<(Box<str>, Duration)>,
    max_ttl: Option<Ttl>,
    quarantine: bool,
    ending: Ending,
    any_number: bool,
    runtime: Option<Handle>,
    observers: Observers,
}

impl<N: QuorumNode> Builder<N> {
    pub(crate) fn new() -> Self {
        Self {
            nodes: Vec::new(),
            node_timeout: None,
            timeouts: Vec::new(),
            max_ttl: None,
            quarantine: true,
            ending: Ending::ByClock,
            any_number: false,
            runtime: None,
            observers: Observers::none(),
        }
    }

    /// Adds a node, with a name.
    ///
    /// All clients of a lock must use the same nodes, in any order, and must give a node the same name. The names are
    /// the membership of the quorum, which each node records. A node does not vote for a client that names other nodes.
    /// A name belongs to one server: a server that takes the place of another one [needs another
    /// name](Redlock::replace).
    pub fn node(mut self, name: impl Into<String>, node: N) -> Self {
        self.nodes.push((name.into().into(), node));
        self
    }

    /// Adds nodes. Their names are their numbers, from 1. So all clients must add the nodes in one order.
    ///
    /// If you may replace a node one day, give all nodes [names](Self::node).
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = N>) -> Self {
        for node in nodes {
            let number = self.nodes.len() + 1;
            self = self.node(number.to_string(), node);
        }
        self
    }

    /// How long a node may take to answer. The default is a tenth of the lease, but at least 20 ms and at most 1 s. For
    /// a request without a lease, the default is 1 s.
    ///
    /// A node that takes longer counts as silent. A request takes this long only if too few other nodes answer.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// How long the node with this name may take to answer. The other nodes keep [their time](Self::node_timeout).
    ///
    /// Use it for nodes of different kinds, or for a node far away. A request waits for the slowest node only while
    /// the answer of that node may still decide.
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
    ///     .node("sydney", MemoryBackend::new())
    ///     .node_timeout(Duration::from_millis(50))
    ///     .timeout_of("sydney", Duration::from_millis(800))
    ///     .build()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout_of(mut self, name: impl Into<String>, timeout: Duration) -> Self {
        self.timeouts.push((name.into().into(), timeout));
        self
    }

    /// The longest lease, 60 s by default. The quorum refuses longer leases. No node may have a
    /// longer [shortest lease](QuorumNode::shortest_ttl).
    ///
    /// A node that may have forgotten leases is in quarantine for this time and a little more, or for twice this
    /// time [by its own clock](Self::without_clock_fallback). All clients of the nodes must use one value: a client
    /// with a smaller value vouches for nodes too early.
    pub fn max_ttl(mut self, max_ttl: Ttl) -> Self {
        self.max_ttl = Some(max_ttl);
        self
    }

    /// Switches the quarantine off: nodes vote even if they may have forgotten leases, as in the
    /// published algorithm.
    ///
    /// When a node restarts without its data, or with old data, two clients can then hold one lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let quorum = Redlock::builder()
    ///     .node("frankfurt", MemoryBackend::new())
    ///     .node("dublin", MemoryBackend::new())
    ///     .node("milan", MemoryBackend::new())
    ///     .without_quarantine()
    ///     .build()
    ///     .await?;
    /// assert_eq!(quorum.status().await.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_quarantine(mut self) -> Self {
        self.quarantine = false;
        self
    }

    /// Makes sure that no quarantine ends by the clock of a node.
    ///
    /// By default, a quarantine ends twice the [longest lease](Self::max_ttl) after a client first saw it, by the clock
    /// of the node, if no client has vouched for the node before. So clients that live for a short time, such as cron
    /// jobs, get locks again after all nodes have restarted. If the clock of a node is set forward during its
    /// quarantine, the quarantine may end too early, and two clients may hold one lock. With this option, only clients
    /// end a quarantine. If one client has this option, the clock does not end a quarantine that this client has seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let quorum = Redlock::builder()
    ///     .node("frankfurt", MemoryBackend::new())
    ///     .node("dublin", MemoryBackend::new())
    ///     .node("milan", MemoryBackend::new())
    ///     .without_clock_fallback()
    ///     .build()
    ///     .await?;
    /// assert_eq!(quorum.status().await.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_clock_fallback(mut self) -> Self {
        self.ending = Ending::Never;
        self
    }

    /// Allows any number of nodes up to 31. Without this, the number must be odd and more than one.
    ///
    /// A single node survives no failure. Use it if the app has more nodes in other environments. With an even
    /// number, no more nodes may fail than with one node fewer.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_redlock::Redlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let quorum = Redlock::builder()
    ///     .node("frankfurt", MemoryBackend::new())
    ///     .node("dublin", MemoryBackend::new())
    ///     .allow_any_number()
    ///     .build()
    ///     .await?;
    /// assert_eq!(quorum.status().await.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_any_number(mut self) -> Self {
        self.any_number = true;
        self
    }

    /// Runs the background work of the quorum on this runtime instead of a thread of its own. The runtime needs a
    /// timer.
    ///
    /// While a task blocks the runtime, and after the runtime has ended, the quorum gives up no votes and vouches
    /// for no node in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::memory::MemoryBackend;
    /// use lock_redlock::Redlock;
    /// use tokio::runtime::Handle;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let quorum = Redlock::builder()
    ///     .node("frankfurt", MemoryBackend::new())
    ///     .node("dublin", MemoryBackend::new())
    ///     .node("milan", MemoryBackend::new())
    ///     .on_runtime(Handle::current())
    ///     .build()
    ///     .await?;
    /// assert_eq!(quorum.status().await.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Adds an observer, which hears of nodes that do not take part, and of their return. The backends of the nodes
    /// report requests and connections: give the observer to them as well.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::Arc;
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::observer::{NodeKeptOut, Observer};
    /// use lock_redlock::Redlock;
    ///
    /// struct Nodes;
    ///
    /// impl Observer for Nodes {
    ///     fn node_kept_out(&self, event: &NodeKeptOut<'_>) {
    ///         eprintln!("{} takes no part: {}", event.node, event.why.name());
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let quorum = Redlock::builder()
    ///     .nodes([MemoryBackend::new(), MemoryBackend::new(), MemoryBackend::new()])
    ///     .observer(Arc::new(Nodes))
    ///     .build()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// Builds the quorum, and asks each node which server it is. The answers of a majority are enough. The quorum
    /// identifies the other nodes when they answer.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidConfig`] for a number of nodes that makes no quorum, two nodes with one name, a [time
    ///   limit](Self::timeout_of) of an unknown node, a node whose shortest lease is longer than the [longest
    ///   lease](Self::max_ttl), and nodes that are one server;
    /// - the errors of the nodes, if too few answered;
    /// - [`ErrorKind::Other`] if the thread cannot be started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind, except that quarantines of nodes may have begun.
    pub async fn build(self) -> Result<Redlock<N>, Error> {
        self.check()?;
        let quorum = Quorum::of(self.nodes.len());
        let settings = Settings {
            node_timeout: self.node_timeout,
            max_ttl: self.max_ttl.map_or_else(|| Ttl::new(Duration::from_secs(60)), Ok)?,
            quarantine: self.quarantine,
        };
        self.check_leases(settings.max_ttl)?;
        let mut clocks = self.nodes.iter().map(|(_, node)| node.clock());
        let clock = self.nodes[0].1.clock();
        // The clock counts suspend, so that no lease ends too late.
        let clock = if clocks.all(|other| other == clock) { clock } else { Clock::boot() };
        let membership = Membership::of(self.nodes.iter().map(|(name, _)| &**name));
        let terms = Terms::new(membership.clone(), settings.max_ttl).ending(self.ending);
        let (background, open) = Background::start(self.runtime)?;
        let (later, leases) = mpsc::unbounded_channel();
        background.hand_over(later::plant_all(leases));
        let nodes = self.nodes.into_iter().map(|(name, backend)| {
            let timeout = self.timeouts.iter().rfind(|(node, _)| *node == name);
            let timeout = timeout.map(|(_, timeout)| *timeout);
            Node::new(name, backend, timeout, Presence::new(self.observers.clone(), clock))
        });
        let core = Arc::new(Core {
            nodes: nodes.collect(),
            quorum,
            settings,
            clock,
            claims: Arc::new(Claims::new(quorum.nodes(), settings.max_ttl.duration())),
            watched: Arc::default(),
            later,
            register: Register::new(quorum.nodes(), membership),
            background,
            terms,
            has_advised: AtomicBool::new(false),
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
        if (count == 1 || count.is_multiple_of(2)) && !self.any_number {
            let spare = Quorum::of(count).spare();
            return Err(invalid(format!(
                "a quorum of {count} nodes survives the loss of {spare}: use an odd number of at least three nodes, or \
                 say Builder::allow_any_number"
            )));
        }
        for (index, (name, _)) in self.nodes.iter().enumerate() {
            if self.nodes[..index].iter().any(|(other, _)| other == name) {
                return Err(invalid(format!("there are two nodes with the name {name}")));
            }
        }
        let is_node = |name: &str| self.nodes.iter().any(|(node, _)| **node == *name);
        match self.timeouts.iter().find(|(name, _)| !is_node(name)) {
            Some((name, _)) => {
                Err(invalid(format!("there is a time limit for {name}, but no node")))
            }
            None => Ok(()),
        }
    }

    /// A node that has forgotten its leases is in quarantine until the longest lease is over.
    fn check_leases(&self, max_ttl: Ttl) -> Result<(), Error> {
        let too_long = |(_, node): &&(Box<str>, N)| node.shortest_ttl() > max_ttl;
        let Some((name, node)) = self.nodes.iter().find(too_long) else { return Ok(()) };
        let (shortest, longest) = (node.shortest_ttl().duration(), max_ttl.duration());
        Err(invalid(format!(
            "the shortest lease of {name} is {shortest:?}, which is longer than the longest lease of {longest:?}: see \
             Builder::max_ttl"
        )))
    }
}

/// Learns which servers the nodes are.
async fn meet<N: QuorumNode>(core: &Arc<Core<N>>) -> Result<(), Error> {
    let mut asked = core.ask(core.quorum.all(), |core, node| async move { core.meet(node).await });
    let met = asked.majority("answered").await;
    let is_wrong = |error: &Error| error.kind() == ErrorKind::InvalidConfig;
    match asked.said().into_iter().flatten().find(is_wrong) {
        Some(error) => Err(error),
        None => met.map(drop),
    }
}

impl<N> fmt::Debug for Builder<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.nodes.iter().map(|(name, _)| name).collect();
        f.debug_struct("Builder").field("nodes", &names).finish_non_exhaustive()
    }
}
